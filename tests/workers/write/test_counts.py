"""What a commit says of its rows: how many were inserted, updated and deleted, file by file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from workers.lakehouse import LakehouseTable, create_table
from workers.timeline.metadata import WriteStat, read_commit_metadata

DIRECT = {"hoodie.write.markers.type": "direct"}
TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64()}
SCHEMA = pa.schema(TYPES)


def rows(ids: list[int], ts: int, deletes: list[bool] | None = None) -> pa.Table:
    table = pa.table(
        {"id": [f"key_{number}" for number in ids], "ts": [ts] * len(ids)}, schema=SCHEMA
    )
    if deletes is None:
        return table
    return table.append_column("_hoodie_is_deleted", pa.array(deletes))


def a_table(root: Path, before: pa.Table, **more: str) -> LakehouseTable:
    table = create_table(
        root / "t", name="t", schema=SCHEMA, record_key=["id"], ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "1"} | more,
    )  # fmt: skip
    table.write(before, options=DIRECT)
    return table


def last_stat(table: LakehouseTable) -> WriteStat:
    last = table.table.timeline().list_completed_writes()[-1]
    content = table.table.storage.read(table.table.layout.path(last))
    (stat,) = read_commit_metadata(content).stats
    return stat


@pytest.mark.parametrize("before", [4, 400])
def test_an_upsert_counts_what_it_updates_and_inserts_whichever_side_is_larger(
    tmp_path: Path, before: int
) -> None:
    table = a_table(tmp_path, rows(list(range(before)), 1))

    table.write(rows([3, 1, 1000, 1, *range(2000, 2010)], 2), options=DIRECT)

    stat = last_stat(table)
    assert (stat.num_updates, stat.num_inserts, stat.num_deletes) == (2, 11, 0)
    assert stat.num_writes == before + 11 == table.read().num_rows


@pytest.mark.parametrize("before", [4, 400])
def test_marked_deletes_of_known_keys_count_as_deletes(tmp_path: Path, before: int) -> None:
    table = a_table(tmp_path, rows(list(range(before)), 1))

    table.write(rows([3, 1, 77_777], 2, [True, False, True]), options=DIRECT)

    stat = last_stat(table)
    assert (stat.num_updates, stat.num_inserts, stat.num_deletes) == (1, 0, 1)
    assert stat.num_writes == before - 1


@pytest.mark.parametrize("order", [[1, 2, 3, 4], [4, 2, 3, 1], [1, 2, 2, 4, 1]])
def test_a_new_file_has_each_key_once_in_the_order_of_arrival(
    tmp_path: Path, order: list[int]
) -> None:
    table = a_table(tmp_path, rows(order, 1))

    assert last_stat(table).num_inserts == len(set(order))
    assert table.read().column("id").to_pylist() == [
        f"key_{number}" for number in dict.fromkeys(order)
    ]
