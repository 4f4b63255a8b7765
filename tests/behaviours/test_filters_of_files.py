"""Tables whose base files keep filters of their keys: however a file comes to be, it has one that
knows all of its keys and hardly any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.behaviours.setups import reading
from tests.scenarios.services import run
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from workers.files.base_file import read_base_file
from workers.files.key_range import KeyRange
from workers.files.meta_columns import RECORD_KEY
from workers.index.bloom_filter import HashedKeys
from workers.index.file_keys import FileKeys, read_file_keys
from workers.lakehouse import open_table
from workers.options.bloom_options import BloomOptions, FilterType
from workers.schema.alter import RenameColumn
from workers.table.view import FileSystemView

ALONE = {"hoodie.write.markers.type": "direct"}
INDEX = "hoodie.index.type"
FILTERS = {
    INDEX: "BLOOM",
    "hoodie.index.bloom.num_entries": "40",
    "hoodie.index.bloom.fpp": "0.0001",
    "hoodie.bloom.index.filter.dynamic.max.entries": "80",
}
ABSENT = pa.array([f"k{number:03}x" for number in range(500)])


def many(start: int, count: int, ts: int = 1) -> list[Row]:
    return [reading(f"k{number:03}", ts, number) for number in range(start, start + count)]


def write(table: ScenarioTable, rows: list[Row], operation: str = "upsert") -> None:
    table.lakehouse.write(table.batch(rows), operation=operation, options=ALONE)


def nothing(_: ScenarioTable) -> None: ...


def upserted(table: ScenarioTable) -> None:
    write(table, many(20, 40, ts=2))


def deleted(table: ScenarioTable) -> None:
    gone = [{"id": f"k{number:03}", "place": "oslo"} for number in range(20)]
    table.lakehouse.delete(pa.Table.from_pylist(gone), options=ALONE)


def emptied(table: ScenarioTable) -> None:
    table.lakehouse.delete(predicate="value >= 0", options=ALONE)


def overwritten(table: ScenarioTable) -> None:
    write(table, many(100, 30), "insert_overwrite")


def compacted(table: ScenarioTable) -> None:
    upserted(table)
    run(table, "compaction")


def clustered(table: ScenarioTable) -> None:
    run(table, "clustering", {"hoodie.clustering.plan.strategy.sort.columns": "value"})


def renamed(table: ScenarioTable) -> None:
    table.lakehouse.alter(RenameColumn("note", "remark"), options=ALONE)


WAYS: list[tuple[str, Callable[[ScenarioTable], None]]] = [
    *(
        ("COPY_ON_WRITE", way)
        for way in (nothing, upserted, deleted, emptied, overwritten, clustered, renamed)
    ),
    *(("MERGE_ON_READ", way) for way in (nothing, compacted, overwritten, clustered, renamed)),
]


def base_files(table: ScenarioTable) -> Iterator[tuple[FileKeys, Any]]:
    """What the footer of each visible base file tells, and its keys."""
    opened = open_table(table.location).table
    for slice_ in FileSystemView.load(opened).slices:
        assert slice_.base_file is not None
        keys = read_base_file(opened.storage, slice_.base_file, [RECORD_KEY]).column(RECORD_KEY)
        yield read_file_keys(opened.storage, slice_.base_file), keys


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_every_base_file_has_a_filter_of_its_keys(
    tables: ScenarioTables, kind: str, way: Callable[[ScenarioTable], None]
) -> None:
    table = tables(
        table_type=kind,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
        options=FILTERS,
    )
    write(table, many(0, 50))

    way(table)

    [(file_keys, keys)] = base_files(table)
    texts = keys.to_pylist()
    assert file_keys.filter is not None
    assert file_keys.filter.kind is FilterType.DYNAMIC_V0
    assert file_keys.filter.bits == BloomOptions(40, 0.0001).bits
    assert len(file_keys.filter.rows) == (1 if len(texts) <= 40 else 2)
    assert file_keys.might_contain(HashedKeys(keys)).all()
    assert file_keys.filter.might_contain(ABSENT).sum() < 5
    assert file_keys.range == (KeyRange(min(texts), max(texts)) if texts else None)


@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE", "GLOBAL_SIMPLE"])
def test_other_indexes_keep_ranges_and_no_filters(tables: ScenarioTables, index: str) -> None:
    buckets = {"hoodie.bucket.index.num.buckets": "1"} if index == "BUCKET" else {}
    table = tables(schema=READINGS, partition_by=["place"], options={INDEX: index} | buckets)

    write(table, many(0, 5))

    [(file_keys, _)] = base_files(table)
    assert file_keys.filter is None
    assert file_keys.range == KeyRange("k000", "k004")
