"""The grammar of markers: whatever gets through may be deleted by a rollback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.markers import IOType, Marker, markers_directory, parse_marker
from workers.markers.marker import normal_location, parse_markers_directory, validate_marker_name

SEED_EXAMPLE = (
    "91245ce3-bb82-4f9f-969e-343364159174-0_140-579-0_20210820173605.parquet.marker.CREATE"
)
GOOD = """
f.parquet.marker.CREATE
2021/08/20/f.parquet.marker.MERGE
origin=EWR/.00000001-0000-0000-0000-000000000000-0_20240101000000000.log.1_0-0-0.marker.CREATE
by å/ø.parquet.marker.APPEND
place=P%2F1 %25x%3Dy/day=2024-01-02 00%3A00/f.parquet.marker.CREATE
event_date=2024-01-01/f_1-2-3_20240101000000000.parquet.marker.CREATE
""".strip().splitlines()
BAD = [
    "",
    "f.parquet",
    ".marker.CREATE",
    "f.parquet.marker.create",
    "f.parquet.marker.DELETE",
    "f.parquet.marker.CREATE\n",
    "f.parquet.marker.CREATE/",
    "../f.parquet.marker.CREATE",
    "a/../../f.parquet.marker.CREATE",
    "a/./f.parquet.marker.CREATE",
    "a//f.parquet.marker.CREATE",
    "/etc/passwd.marker.CREATE",
    "...marker.CREATE",
    "..marker.CREATE",
    ".hoodie/hoodie.properties.marker.CREATE",
    "a/.hoodie/timeline/x.marker.CREATE",
    ".hoodie.marker.CREATE",
    "a.marker.CREATE/f.marker.CREATE",
    "f.marker.CREATE.marker.MERGE",
    "a%2e%2e/f.marker.CREATE",
    "a%2E%2E/f.marker.CREATE",
    "%00/f.marker.CREATE",
    "%/f.marker.CREATE",
    "a%2/f.marker.CREATE",
    "a%2Fb.marker.CREATE",
    "a\\f.marker.CREATE",
    "a*/f.marker.CREATE",
    "a'b.marker.CREATE",
    'a"b.marker.CREATE',
    "a\x00b.marker.CREATE",
    "a\tb.marker.CREATE",
    "a\x85b.marker.CREATE",
    "a\u2028b.marker.CREATE",
    "a\udc80b.marker.CREATE",
    "x" * 250 + ".marker.CREATE",
    "/".join(["p" * 200] * 20) + "/f.marker.CREATE",
]


@pytest.mark.parametrize("text", [*GOOD, SEED_EXAMPLE])
def test_a_name_parses_and_comes_back_unchanged(text: str) -> None:
    assert parse_marker(text).name == text


def test_the_seeds_example_names_its_data_file() -> None:
    marker = parse_marker(f"2021/08/20/{SEED_EXAMPLE}")

    assert marker.partition == "2021/08/20"
    assert marker.data_path == "2021/08/20/" + SEED_EXAMPLE.removesuffix(".marker.CREATE")
    assert marker.io_type is IOType.CREATE


@pytest.mark.parametrize("text", BAD, ids=ascii)
def test_a_name_outside_the_grammar_never_becomes_a_marker(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_marker(text)


def test_a_checked_name_comes_back_as_it_is() -> None:
    assert validate_marker_name(GOOD[0]) == GOOD[0]

    with pytest.raises(InvalidInput):
        validate_marker_name(BAD[1])


def test_one_location_has_one_spelling() -> None:
    assert normal_location("/data//lake/../lake/t/") == "/data/lake/t"
    assert normal_location("s3://lake-1/t/") == "s3://lake-1/t"

    with pytest.raises(InvalidInput):
        normal_location("s3://lake-1/../t")


@pytest.mark.parametrize(
    ("partition", "file"),
    [("", "a/f.parquet"), ("a/", "f"), ("..", "f"), ("/a", "f"), ("a", ""), ("", ".hoodie")],
)
def test_parts_that_would_name_another_file_are_refused(partition: str, file: str) -> None:
    with pytest.raises(InvalidInput):
        Marker(partition, file, IOType.CREATE)


@given(st.text(max_size=40), st.sampled_from(IOType))
def test_whatever_parses_stays_inside_the_table(text: str, io_type: IOType) -> None:
    name = f"{text}.marker.{io_type}"
    try:
        marker = parse_marker(name)
    except InvalidInput:
        return

    parts = marker.data_path.split("/")
    assert marker.name == name
    assert not {"", ".", "..", ".hoodie"} & set(parts)
    assert not set("*'\"%\\\n\r\x00") & set(name)


def long_name(length: int) -> str:
    """Of parts that a file system takes, as short as they may be for so many bytes."""
    parts = "/".join(["p" * 200] * 9)
    return f"{parts}/" + "f" * (length - len(parts) - len("/.marker.CREATE")) + ".marker.CREATE"


@pytest.mark.parametrize(
    ("longest", "grows_by"),
    [("f" * 241 + ".marker.CREATE", "f"), ("ø" * 120 + "f.marker.CREATE", "ø")],
)
def test_a_part_of_a_name_fits_a_file_system(longest: str, grows_by: str) -> None:
    assert len(longest.encode()) == 255
    assert parse_marker(f"p=1/{longest}").name == f"p=1/{longest}"

    with pytest.raises(InvalidInput):
        parse_marker(f"p=1/{grows_by}{longest}")


def test_a_name_as_a_whole_is_bounded() -> None:
    assert parse_marker(long_name(2_000)).partition.count("/") == 8

    with pytest.raises(InvalidInput):
        parse_marker(long_name(2_001))


def test_a_markers_directory_is_bounded() -> None:
    relative = "/" + markers_directory("20240101000000000")
    location = "/" + "t" * (4_000 - len(relative) - 1)
    assert parse_markers_directory(location + relative) == (location, "20240101000000000")

    with pytest.raises(InvalidInput):
        parse_markers_directory(f"{location}t{relative}")


def test_a_markers_directory_tells_table_and_instant() -> None:
    relative = markers_directory("20240101000000000")

    assert relative == ".hoodie/.temp/20240101000000000"
    for spelling in (
        f"/data/t/{relative}",
        f"file:/data/t/{relative}",
        f"file:///data/t/{relative}",
    ):
        assert parse_markers_directory(spelling) == ("/data/t", "20240101000000000")


@pytest.mark.parametrize(
    "path",
    [
        "",
        "data/t/.hoodie/.temp/20240101000000000",
        "/.hoodie/.temp/20240101000000000",
        "/data/../etc/.hoodie/.temp/20240101000000000",
        "/data/t/.hoodie/.temp/20240101000000000/",
        "/data/t/.hoodie/.temp/2024",
        "/data/t/.hoodie/.temp/..",
        "/data/t/.hoodie/timeline/20240101000000000",
        "/data/%2e%2e/t/.hoodie/.temp/20240101000000000",
        "s3:/bucket/t/.hoodie/.temp/20240101000000000",
        "s3://key:secret@bucket/t/.hoodie/.temp/20240101000000000",
        "gs://bucket/t/.hoodie/.temp/20240101000000000",
    ],
)
def test_a_directory_that_is_no_tables_markers_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        parse_markers_directory(path)


def test_an_instant_is_digits_before_it_is_a_path() -> None:
    with pytest.raises(InvalidInput):
        markers_directory("../../etc")
