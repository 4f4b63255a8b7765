"""Names on storage: what Hudi writes is understood, what could harm is refused."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.files.names import (
    DEFAULT_PARTITION,
    BaseFileName,
    LogFileName,
    bucket_file_id,
    check_partition_path,
    check_table_name,
    parse_base_file,
    parse_bucket_number,
    parse_log_file,
    partition_path,
    write_token,
)
from workers.storage.base import validate_path

INSTANT = "20260101000000001"


def test_a_base_file_that_hudi_wrote_is_taken_apart_and_put_together_again() -> None:
    name = "742a4f26-7e5c-4b1c-bb9a-d13433f75557-0_0-10-23_20260307135700696.parquet"

    parsed_name = parse_base_file(name)

    assert parsed_name == BaseFileName(
        "742a4f26-7e5c-4b1c-bb9a-d13433f75557-0", "0-10-23", "20260307135700696"
    )
    assert parsed_name.text == name


@pytest.mark.parametrize("suffix", ["", ".cdc"])
def test_a_log_file_that_hudi_wrote_is_taken_apart_and_put_together_again(suffix: str) -> None:
    name = f".1900ff60-ed76-4f51-823b-dbcb27f05a0c-0_20260307135933863.log.12_0-28-31{suffix}"

    parsed_name = parse_log_file(name)

    assert parsed_name == LogFileName(
        "1900ff60-ed76-4f51-823b-dbcb27f05a0c-0",
        "20260307135933863",
        12,
        "0-28-31",
        is_cdc=bool(suffix),
    )
    assert parsed_name.text == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".hoodie_partition_metadata",
        f"a_b_0-0-0_{INSTANT}.parquet",
        f"../a_0-0-0_{INSTANT}.parquet",
        f"a/b_0-0-0_{INSTANT}.parquet",
        f"a_0-0_{INSTANT}.parquet",
        f"a_0-0-0_{INSTANT}9.parquet",
        f"a_0-0-0_{INSTANT}.parquet\n",
        f"a_0-0-0_{INSTANT}.parquet.crc",
        "a_0-0-0_٢٠٢٦٠١٠١٠٠٠٠٠٠٠٠١.parquet",
        f".a_{INSTANT}.log.1",
        f".a_{INSTANT}.log.x_0-0-0",
        f"a_{INSTANT}.log.1_0-0-0",
    ],
)
def test_other_files_in_a_partition_are_nobodys_data(name: str) -> None:
    assert parse_base_file(name) is None
    assert parse_log_file(name) is None


def test_two_writers_meet_in_one_file_group_of_a_bucket() -> None:
    assert bucket_file_id(3) == "00000003-0000-0000-0000-000000000000-0"
    assert parse_bucket_number(bucket_file_id(3)) == 3
    assert parse_bucket_number("00000003-3606-4c39-ba3b-341c584f38d4") == 3
    assert parse_bucket_number("be2ddd3b-449a-4eda-b31d-7801310fc9d2-0") is None
    assert write_token(7, 0, 2) == "7-0-2"


def test_a_name_that_breaks_the_grammar_is_never_built() -> None:
    with pytest.raises(InvalidInput):
        BaseFileName("../x", "0-0-0", INSTANT)
    with pytest.raises(InvalidInput):
        BaseFileName("x", "0-0", INSTANT)
    with pytest.raises(InvalidInput):
        LogFileName("x", "today", 1, "0-0-0")
    with pytest.raises(InvalidInput):
        bucket_file_id(100_000_000)


@pytest.mark.parametrize(
    ("values", "hive_style", "url_encode", "expected"),
    [
        (["A"], False, False, "A"),
        (["A"], True, False, "region=A"),
        (["P/1"], True, True, "region=P%2F1"),
        (["a b=c%"], False, True, "a b%3Dc%25"),
        (["2026/01/02"], False, False, "2026/01/02"),
        ([None], True, False, f"region={DEFAULT_PARTITION}"),
        ([""], False, True, DEFAULT_PARTITION),
        ([dt.date(2026, 1, 2)], True, True, "region=2026-01-02"),
        ([-7], False, False, "-7"),
        ([True], False, False, "true"),
        (["Ærø"], False, True, "Ærø"),
    ],
)
def test_partition_values_are_spelled_as_hudi_spells_them(
    values: list[object], hive_style: bool, url_encode: bool, expected: str
) -> None:
    path = partition_path(["region"], values, hive_style=hive_style, url_encode=url_encode)

    assert path == expected


def test_several_partition_columns_nest() -> None:
    path = partition_path(["a", "b"], ["x", 1], hive_style=True, url_encode=False)

    assert path == "a=x/b=1"
    assert partition_path([], [], hive_style=True, url_encode=False) == ""


@pytest.mark.parametrize(
    "value",
    [
        *("..", "a/../b", "/a", "a/", "a//b", ".hoodie", "a/.hidden"),
        *("a\\b", 'a"b', "a'b", "a*", "50%", "a\x00b", "a\nb", "\ud800"),
        *("é" * 128, "x/" * 600 + "x"),
        *(1.5, b"a", dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
    ],
)
def test_a_partition_value_without_a_safe_spelling_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        partition_path(["region"], [value], hive_style=False, url_encode=False)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_no_partition_value_leaves_the_table_or_hides_in_it(value: str) -> None:
    for url_encode in (False, True):
        try:
            path = partition_path(["p"], [value], hive_style=False, url_encode=url_encode)
        except InvalidInput:
            continue
        assert validate_path(path) == path
        assert not any(part.startswith(".") for part in path.split("/"))
        assert not url_encode or "/" not in path


@settings(deadline=None)
@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_two_encoded_values_never_share_a_directory(left: str, right: str) -> None:
    try:
        paths = [
            partition_path(["p"], [value], hive_style=True, url_encode=True)
            for value in (left, right)
        ]
    except InvalidInput:
        return

    assert (paths[0] == paths[1]) == (left == right)


def test_a_stray_percent_sign_is_no_encoding() -> None:
    assert check_partition_path("a%2Fb", url_encode=True) == "a%2Fb"
    for path, url_encode in [("a%2Fb", False), ("a%2fb", True), ("a%", True), ("%%41", True)]:
        with pytest.raises(InvalidInput):
            check_partition_path(path, url_encode=url_encode)


@pytest.mark.parametrize(
    "name", ["", "a b", "1a", "a.b", "a/b", "a*", "a'b", "ä", "a\n", "x" * 129]
)
def test_a_table_name_is_plain(name: str) -> None:
    assert check_table_name("ad_requests-2") == "ad_requests-2"
    with pytest.raises(InvalidInput):
        check_table_name(name)
