"""Our own side, in this project's Python: through Spark, and without it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bench.drivers.early_conflict import early_conflict
from bench.drivers.index_options import BUCKET, index_options
from bench.drivers.queries import ROW_TYPE, aggregated, content_of
from bench.drivers.serving import Job, serve
from bench.drivers.sessions import spark_session
from workers.concurrency.outcome import Committed
from workers.lakehouse import create_table, open_table
from workers.options.write_options import write_options
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest

TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
OPTIONS: Final = {"hoodie.write.markers.type": "direct", "sluice.writer.name": "bench"}


class Sluice:
    def __init__(self) -> None:
        self._spark = spark_session({})

    def load(self, table: str, rows: str, kind: str, buckets: int, index: str = BUCKET) -> None:
        """A new table by bulk insert from a DataFrame."""
        shutil.rmtree(table, ignore_errors=True)
        frame = self._spark.read.parquet(rows)
        created = create_table(
            table,
            name="s1",
            schema=frame.schema,
            record_key=["key"],
            partition_by=["part"],
            ordering=["ts"],
            table_type=TYPES[kind],
            options=index_options(index, buckets),
        )
        _committed(created.write(frame, "bulk_insert", options=OPTIONS))

    def upsert(self, table: str, rows: str) -> None:
        frame = self._spark.read.parquet(rows)
        _committed(open_table(table).write(frame, options=OPTIONS))

    def upsert_one(self, table: str, row: list[Any]) -> None:
        frame = self._spark.createDataFrame([tuple(row)], ROW_TYPE)
        _committed(open_table(table).write(frame, options=OPTIONS))

    def aggregate(self, table: str) -> list[Any]:
        return aggregated(open_table(table).read(self._spark))

    def aggregate_files(self, table: str) -> list[Any]:
        """Spark's own scan of the newest base files, with no table in between."""
        slices = open_table(table).file_groups()
        assert all(one.base_file and not one.log_files for one in slices), "not compacted"
        paths = [f"{table}/{one.base_file}" for one in slices]
        return aggregated(self._spark.read.parquet(*paths))

    def content(self, table: str) -> list[int]:
        return content_of(open_table(table).read(self._spark))

    def early_conflict(self, table: str, rows: str, when: str) -> dict[str, Any]:
        return early_conflict(self._spark, table, rows, when)


def upsert_one_arrow(table: str, row: list[Any]) -> None:
    opened = open_table(table)
    schema = opened.schema()
    assert schema is not None
    columns = [pa.array([value], field.type) for value, field in zip(row, schema, strict=True)]
    _committed(opened.write(pa.table(columns, schema=schema), options=OPTIONS))


def delete(table: str, rows: str) -> int:
    """Bytes of the data files that deleting these rows' keys wrote."""
    opened = open_table(table)
    before = _data_bytes(table)
    _committed(opened.delete(pq.read_table(rows, columns=["key", "part"]), options=OPTIONS))
    return _data_bytes(table) - before


def compact(table: str) -> None:
    """Schedule and execute, in this process."""
    request = ServiceRequest(by="bench", parameters={})
    done = get_service("compaction").run(open_table(table).table, request, write_options({}))
    assert done.instant is not None, "there was nothing to compact"


def _data_bytes(table: str) -> int:
    paths = (path for path in Path(table).rglob("*") if ".hoodie" not in path.parts)
    return sum(path.stat().st_size for path in paths if path.is_file())


def _committed(outcome: object) -> None:
    assert isinstance(outcome, Committed), outcome


def jobs() -> dict[str, Job]:
    sluice = Sluice()
    return {
        "load": sluice.load,
        "upsert": sluice.upsert,
        "upsert_one": sluice.upsert_one,
        "upsert_one_arrow": upsert_one_arrow,
        "aggregate": sluice.aggregate,
        "aggregate_files": sluice.aggregate_files,
        "delete": delete,
        "compact": compact,
        "content": sluice.content,
        "early_conflict": sluice.early_conflict,
    }


if __name__ == "__main__":
    serve(jobs)
