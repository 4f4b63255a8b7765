"""Random tables, written as CSV, JSON lines and Parquet by Python, are the same rows by each entry
point.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.controlplane.loading.entry_points import (
    IN_PROCESS,
    SPARK,
    EntryPoint,
    FileLoad,
    Node,
    delete_by_rest,
    load_by_driver_process,
    preview_by_rest,
)
from tests.scenarios.test_same_rows_of_formats import (
    NESTED,
    SCALARS,
    draw_rows,
    write_csv,
    write_json,
)
from tests.support.sampling import story_seed
from workers.lakehouse import open_table
from workers.sql.type_names import name_of_type

Rows = list[dict[str, Any]]


def write_parquet(path: Path, rows: Rows) -> None:
    schema = ALL if "list" in rows[0] else FLAT
    pq.write_table(pa.Table.from_pylist(rows, schema), path)


ID: Final = pa.field("id", pa.string())
FLAT: Final = pa.schema([ID, *(pa.field(name, kind) for name, kind in SCALARS.items())])
ALL: Final = pa.schema([*FLAT, *(pa.field(name, kind) for name, kind in NESTED.items())])
WRITERS: Final[Mapping[str, Callable[[Path, Rows], None]]] = {
    "csv": write_csv,
    "jsonl": write_json,
    "parquet": write_parquet,
}
EVERY_FORMAT = pytest.mark.parametrize("suffix", WRITERS)


def draw(suffix: str, seed: int, count: int) -> tuple[pa.Schema, Rows]:
    """A CSV has no nested values."""
    schema = FLAT if suffix == "csv" else ALL
    return schema, draw_rows(schema, random.Random(story_seed(seed)), count)


def write(node: Node, suffix: str, seed: int, count: int) -> tuple[FileLoad, Rows]:
    """Write a file, and return its load with the rows that are expected of it."""
    schema, rows = draw(suffix, seed, count)
    file = node.drop / f"rows.{suffix}"
    WRITERS[suffix](file, rows)
    if suffix == "csv":  # An empty text and a missing one are spelled alike in a CSV of Python.
        rows = [{**row, "text": row["text"] or None} for row in rows]
    return FileLoad(file, {"null_words": "none"}, schema), rows


def read(node: Node, schema: pa.Schema) -> Rows:
    rows = open_table(str(node.location)).read(columns=schema.names).to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def check(node: Node, enter: EntryPoint, suffix: str, seed: int, count: int) -> None:
    load, rows = write(node, suffix, seed, count)
    node.create(load)

    enter(load, node)

    assert read(node, load.table or ALL) == rows


@EVERY_FORMAT
@pytest.mark.parametrize("name", IN_PROCESS)
def test_entry_point_stores_the_rows(node: Node, name: str, suffix: str) -> None:
    check(node, IN_PROCESS[name], suffix, 11, 40)


@pytest.mark.slow
@EVERY_FORMAT
@pytest.mark.parametrize("name", IN_PROCESS)
def test_entry_point_stores_many_rows(node: Node, name: str, suffix: str) -> None:
    check(node, IN_PROCESS[name], suffix, 12, 5_000)


@pytest.mark.spark
@pytest.mark.sampled(every=6)
@EVERY_FORMAT
@pytest.mark.parametrize("name", SPARK)
def test_entry_point_with_spark_stores_the_rows(node: Node, name: str, suffix: str) -> None:
    check(node, SPARK[name], suffix, 13, 200)


@pytest.mark.soak
@pytest.mark.process
@EVERY_FORMAT
def test_command_with_a_driver_process_stores_the_rows(node: Node, suffix: str) -> None:
    check(node, load_by_driver_process, suffix, 14, 200)


@EVERY_FORMAT
def test_preview_shows_the_types_and_the_delete_takes_all_rows(node: Node, suffix: str) -> None:
    load, rows = write(node, suffix, 15, 40)
    node.create(load)

    answer = preview_by_rest(load, node)

    assert (answer["rows_sampled"], answer["is_whole"], answer["problem"]) == (len(rows), True, "")
    types = {field.name: name_of_type(field.type) for field in load.table or ALL}
    assert {column["name"]: column["type"] for column in answer["columns"]} == types
    IN_PROCESS["overwrite"](load, node)
    delete_by_rest(load, node)
    assert read(node, load.table or ALL) == []


@EVERY_FORMAT
def test_new_table_of_a_file_has_the_rows(node: Node, suffix: str) -> None:
    """Without a table the values decide, so some columns are compared alone."""
    load, rows = write(node, suffix, 16, 60)
    node.create_by_file(load)

    IN_PROCESS["overwrite"](load, node)

    stored = open_table(str(node.location)).read(columns=["id", "whole", "day", "text"])
    names = ("id", "whole", "day", "text")
    expected = [{name: row[name] for name in names} for row in rows]
    assert sorted(stored.to_pylist(), key=lambda row: str(row["id"])) == expected
