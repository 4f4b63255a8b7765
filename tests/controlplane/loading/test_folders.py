"""Folders and patterns of names as sources of requests: each file is checked, answer and loaded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pytest_django import Settings

from bench.support.s3_server import BUCKET
from tests.controlplane.loading.entry_points import (
    SLUG,
    TABLES,
    FileLoad,
    Node,
    Refused,
    delete_by_rest,
    load_by_rest,
    overwrite_by_rest,
)
from tests.support.storages import use_bucket
from workers.lakehouse import open_table
from workers.storage.opener import open_storage

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64()}
SCHEMA = pa.schema(_TYPES)
PREVIEW = f"{TABLES}{SLUG}/sources/preview/"


@pytest.fixture
def days(node: Node) -> Path:
    """A folder with two days, and what no load of it takes."""
    folder = node.drop / "days"
    folder.mkdir()
    (folder / "2.csv").write_text("id,n\nb,20\nc,3\n")
    (folder / "1.csv").write_text("n,id\n1,a\n2,b\n")
    (folder / ".hidden.csv").write_text("id,n\nx,1\n")
    (folder / "_part.csv").write_text("id,n\nx,1\n")
    (folder / "notes.md").write_text("no rows\n")
    (folder / "more.csv").mkdir()
    node.create(FileLoad(folder, table=SCHEMA))
    return folder


def read(node: Node) -> list[tuple[str, int]]:
    rows = open_table(str(node.location)).read(columns=["id", "n"]).to_pylist()
    return sorted((row["id"], row["n"]) for row in rows)


def build_load(path: object, **options: str) -> FileLoad:
    return FileLoad(Path(str(path)), {"format": "csv", **options}, SCHEMA)


@pytest.mark.parametrize("name", ["", "/", "/*.csv", "/[12].*", "/?.csv"])
def test_preview_shows_the_files_in_the_order_of_their_load(
    days: Path, node: Node, name: str
) -> None:
    answer = node.post(PREVIEW, {"source": {"kind": "csv", "path": f"{days}{name}"}})

    assert (answer["files"], answer["rows_sampled"]) == (["1.csv", "2.csv"], 4)
    assert answer["problem"] == ""


def test_folder_overwrites_and_deletes_in_one_commit(days: Path, node: Node) -> None:
    overwrite_by_rest(build_load(days), node)
    assert [key for key, _ in read(node)] == ["a", "b", "c"]

    delete_by_rest(build_load(days / "1*"), node)
    assert read(node) == [("c", 3)]


def test_plan_of_a_folder_is_void_once_a_file_is_added(days: Path, node: Node) -> None:
    address = f"{TABLES}{SLUG}/services/insert_overwrite_table/plan/"
    body = {"parameters": {"path": str(days), "format": "csv"}}
    before = node.post(address, body)["plan_hash"]
    assert node.post(address, body)["plan_hash"] == before

    (days / "3.csv").write_text("id,n\n")

    assert node.post(address, body)["plan_hash"] != before


def test_suggestion_reads_all_files_of_a_pattern(days: Path, node: Node) -> None:
    answer = node.post("/api/v1/new-tables/suggestion/", {"path": f"{days}/*.csv"})

    assert (answer["files"], answer["rows_sampled"]) == (["1.csv", "2.csv"], 4)
    assert [column["name"] for column in answer["columns"]] == ["n", "id"]


@pytest.mark.spark
def test_write_over_rest_loads_a_folder_in_one_commit(days: Path, node: Node) -> None:
    load_by_rest(build_load(days), node)

    # The later row of a key stays.
    assert read(node) == [("a", 1), ("b", 20), ("c", 3)]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("*.tsv", "no source file matches"),
        (".*", "no source file matches"),
        ("empty", "the source folder has no file of rows"),
        ("none/*.csv", "source folder not found"),
        ("*", "the files differ in format; name those of one format by a pattern such as"),
        ("*.jsonl", "the files differ in format"),
        ("*/1.csv", "without any of"),
        ("link*", "outside the configured roots"),
        ("inner.csv", "must not be in a table or below a table root"),
    ],
)
def test_source_is_refused_in_one_sentence(
    days: Path, node: Node, tmp_path: Path, name: str, message: str
) -> None:
    (days / "empty").mkdir()
    if name in ("*", "*.jsonl"):
        (days / "notes.jsonl").write_text('{"id": "x"}\n')
    if name == "link*":
        (tmp_path / "outside.csv").write_text("id,n\nx,1\n")
        (days / "link.csv").symlink_to(tmp_path / "outside.csv")
    if name == "inner.csv":
        (days / "inner.csv").mkdir()
        (days / "inner.csv" / ".hoodie").mkdir()
        (days / "inner.csv" / "x.csv").write_text("id,n\nx,1\n")
    source = {"kind": "csv", "path": f"{days}/{name}"}

    with pytest.raises(Refused, match=message) as refusal:
        node.post(PREVIEW, {"source": source})

    assert f"path={days}/{name[:4]}" in str(refusal.value)
    if name not in ("*", "*.jsonl"):
        with pytest.raises(Refused, match=message):
            overwrite_by_rest(build_load(f"{days}/{name}"), node)


@pytest.mark.parametrize("path", ["/etc/*.conf", "/etc", "/nowhere/*.csv", "../*.csv"])
def test_refused_folder_reveals_no_name(days: Path, node: Node, path: str) -> None:
    with pytest.raises(Refused, match=r"outside the configured|absolute path") as refusal:
        node.post(PREVIEW, {"source": {"kind": "csv", "path": path}})

    assert "host.conf" not in str(refusal.value)


def test_folder_of_a_bucket_is_listed_below_a_source_root_alone(
    node: Node, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bucket(monkeypatch)
    settings.SLUICE_SOURCE_ROOTS = (f"s3://{BUCKET}/folders",)
    bucket = open_storage(f"s3://{BUCKET}/folders/day")
    bucket.put("b.csv", b"id,n\nb,2\n")
    bucket.put("a.csv", b"id,n\na,1\n")
    bucket.put("_c.csv", b"id,n\nc,1\n")
    node.create(build_load("x"))

    def preview(path: str) -> dict[str, object]:
        return node.post(PREVIEW, {"source": {"kind": "csv", "path": f"s3://{BUCKET}/{path}"}})

    assert preview("folders/day/")["files"] == ["a.csv", "b.csv"]
    assert preview("folders/day/[b-z]*")["files"] == ["b.csv"]
    with pytest.raises(Refused, match="no source file matches"):
        preview("folders/day/*.json")
    with pytest.raises(Refused, match="outside the configured roots"):
        preview("other/*.csv")
