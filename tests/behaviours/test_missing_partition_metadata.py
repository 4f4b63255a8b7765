"""A partition whose metadata file is gone, as after a copy that leaves dot files out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from controlplane.mirror.file_facts import list_file_groups
from tests.support.referee import assert_referee_agrees
from tests.support.scenario_table import schema_of
from tests.support.table_services import plan, run
from workers.concurrency.outcome import Committed
from workers.files.partition import METADATA_NAME
from workers.lakehouse import LakehouseTable, create_table, open_table

SCHEMA = schema_of(id=pa.string(), place=pa.string(), n=pa.int64())
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")


def made(tmp_path: Path, table_type: str, *, is_partitioned: bool = True) -> LakehouseTable:
    return create_table(
        tmp_path / "table",
        name="copied",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["place"] if is_partitioned else [],
        table_type=table_type,
    )


def write(table: LakehouseTable, *ids: str, n: int = 1) -> None:
    rows = [{"id": one, "place": "oslo" if one < "m" else "rome", "n": n} for one in ids]
    assert isinstance(table.write(pa.Table.from_pylist(rows, schema=SCHEMA)), Committed)


def forget(table: LakehouseTable, partition: str = "oslo") -> Path:
    mark = Path(table.table.storage.location, partition, METADATA_NAME)
    mark.unlink()
    return mark


def read(table: LakehouseTable) -> dict[str, int]:
    rows = open_table(table.table.storage.location).read()
    return dict(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))


@pytest.mark.parametrize("is_partitioned", [True, False])
@pytest.mark.parametrize("table_type", TYPES)
def test_rows_are_read_updated_and_deleted(
    tmp_path: Path, table_type: str, is_partitioned: bool
) -> None:
    table = made(tmp_path, table_type, is_partitioned=is_partitioned)
    write(table, "a", "b", "z")
    write(table, "a", n=2)
    forget(table, "oslo" if is_partitioned else "")

    assert read(table) == {"a": 2, "b": 1, "z": 1}
    assert table.read(since="0").num_rows == 3
    table.delete(predicate="id = 'b'")
    assert read(table) == {"a": 2, "z": 1}


def test_a_write_to_the_partition_restores_the_file(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE")
    write(table, "a", "z")
    mark = forget(table)

    write(table, "b")

    assert mark.exists()
    assert_referee_agrees(table.table.storage.location)


def test_the_partition_is_deleted_when_asked(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE")
    write(table, "a", "z")
    forget(table)

    table.delete_partition(["oslo"])

    assert read(table) == {"z": 1}


def test_savepoint_and_clean_see_its_files(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE")
    write(table, "a", "z")
    saved = table.table.timeline().list_completed_writes()[-1]
    mark = forget(table)
    run(table.table, "savepoint")
    mark.write_bytes(b"#partition metadata\n")
    for n in range(2, 6):
        write(table, "a", "z", n=n)

    run(table.table, "clean", commits="1")

    assert table.read(as_of=saved.completed_at)["n"].to_pylist() == [1, 1]


@pytest.mark.parametrize("table_type", TYPES)
def test_services_meanwhile_keep_its_rows(tmp_path: Path, table_type: str) -> None:
    table = made(tmp_path, table_type)
    for n in range(6):
        write(table, "a", "z", n=n)
    table.write(table.read(), operation="insert_overwrite")
    mark = forget(table)

    run(table.table, "clean", commits="2")
    run(table.table, "archive", min_commits="3", max_commits="4")
    assert read(table) == {"a": 5, "z": 5}
    mark.write_bytes(b"#partition metadata\n")
    run(table.table, "clean", commits="1")
    run(table.table, "archive", min_commits="1", max_commits="1")

    assert read(table) == {"a": 5, "z": 5}
    assert_referee_agrees(table.table.storage.location)


def test_archived_commits_name_their_files_too(tmp_path: Path) -> None:
    table = made(tmp_path, "COPY_ON_WRITE")
    write(table, "a")
    for n in range(6):
        write(table, "z", n=n)
    run(table.table, "archive", min_commits="2", max_commits="3")
    where = Path(table.table.storage.location)
    shutil.copytree(where / "oslo", where / "backup")
    forget(table)
    forget(table, "backup")

    assert read(table) == {"a": 1, "z": 5}


def test_copies_in_other_directories_do_not_count(tmp_path: Path) -> None:
    table = made(tmp_path, "MERGE_ON_READ")
    write(table, "a", "z")
    where = Path(table.table.storage.location)
    shutil.copytree(where / "oslo", where / "backup")
    forget(table, "backup")

    assert read(table) == {"a": 1, "z": 1}
    assert plan(table.table, "repair").is_empty


def test_it_is_found_and_repaired(tmp_path: Path) -> None:
    table = made(tmp_path, "MERGE_ON_READ")
    write(table, "a", "z")
    mark = forget(table)
    listing = list_file_groups(table.table, table.table.timeline())
    assert listing.unmarked == ("oslo",)

    shown = plan(table.table, "repair")
    assert [(one.what, one.effect) for one in shown.items] == [(f"oslo/{METADATA_NAME}", "lay")]
    run(table.table, "repair", expected_plan_hash=shown.plan_hash)

    written = table.table.timeline().list_completed_writes()[-1].requested_at
    assert f"commitTime={written}\npartitionDepth=1\n" in mark.read_text()
    assert list_file_groups(table.table, table.table.timeline()).unmarked == ()
    assert_referee_agrees(table.table.storage.location)
