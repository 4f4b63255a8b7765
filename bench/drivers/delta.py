"""delta-rs's side, without Spark. It has neither merge-on-read nor an index of keys."""

from __future__ import annotations

import shutil
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from bench.dataset import SCHEMA
from bench.drivers.serving import Job, serve

AGGREGATION = (
    "select part, count(*), round(sum(amount), 0), max(ts), count(distinct cat) "
    "from s1 group by part order by part"
)
ROWS = "select key, ts, part, cast(round(amount * 100) as bigint) as cents, name, cat, u from s1"


def load(table: str, rows: str) -> None:
    shutil.rmtree(table, ignore_errors=True)
    write_deltalake(table, pq.read_table(rows), partition_by=["part"])


def upsert(table: str, rows: str) -> None:
    _merge(table, pq.read_table(rows))


def upsert_one(table: str, row: list[Any]) -> None:
    columns = [pa.array([value], field.type) for value, field in zip(row, SCHEMA, strict=True)]
    _merge(table, pa.table(columns, schema=SCHEMA))


def _merge(table: str, rows: pa.Table) -> None:
    merging = DeltaTable(table).merge(
        rows,
        predicate="t.part = s.part and t.key = s.key",
        source_alias="s",
        target_alias="t",
    )
    newer = merging.when_matched_update_all(predicate="s.ts >= t.ts")
    newer.when_not_matched_insert_all().execute()


def aggregate(table: str) -> list[Any]:
    query = QueryBuilder().register("s1", DeltaTable(table)).execute(AGGREGATION)
    return [list(row.values()) for row in pa.table(query.read_all()).to_pylist()]


def compact(table: str) -> None:
    DeltaTable(table).optimize.compact()


def content(table: str) -> list[int]:
    """As Spark's `content_of` has it."""
    query = QueryBuilder().register("s1", DeltaTable(table)).execute(ROWS)
    columns = [column.to_pylist() for column in pa.table(query.read_all()).columns]
    checksums = [zlib.crc32("|".join(map(str, row)).encode()) for row in zip(*columns, strict=True)]
    return [len(checksums), sum(checksums)]


def jobs() -> dict[str, Job]:
    return {
        "load": load,
        "upsert": upsert,
        "upsert_one": upsert_one,
        "aggregate": aggregate,
        "compact": compact,
        "content": content,
    }


if __name__ == "__main__":
    serve(jobs)
