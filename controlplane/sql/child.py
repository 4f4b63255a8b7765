"""The process that computes one statement: `python -m controlplane.sql.child`.

It takes a job as JSON on its standard input, and gives one line of JSON on its standard output,
with an Arrow stream behind it where there are rows. Before it reads a table it takes its own
limits, on memory, processor time, files and open files, and an alarm that ends it should nobody
else. Masked columns come into the database as the mark: what they hold is not in there.

It knows neither Django nor the register, and its environment holds no secret but those that open
the tables' storage.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from controlplane.tables.masks import masked_rows
from workers.closed_database import closed_database
from workers.errors import LakehouseError
from workers.ports import system_ports
from workers.read.file_slice import read_slice
from workers.read.snapshot import SnapshotPlan, plan_snapshot
from workers.storage.opening import open_storage
from workers.table.table import Table, open_

_THREADS: Final = 2
_OPEN_FILES_MAX: Final = 256
_OF_DUCKDB: Final = 0.6
"""Its share of the memory; the rest is for the rows that are read and for the answer."""
_BATCH_ROWS: Final = 1_000
_SPARE_S: Final = 2
"""Between the time at which the parent ends it and the one at which it ends itself."""


@dataclass(frozen=True, slots=True)
class _Answer:
    rows: pa.Table
    cut_by: str
    """`rows`, `bytes`; empty for a whole answer."""


@dataclass(slots=True)
class _Database:
    job: Mapping[str, Any]
    failed: LakehouseError | None = None
    """What reading met: DuckDB hands on nothing but its text."""
    database: duckdb.DuckDBPyConnection = field(init=False)

    def __post_init__(self) -> None:
        memory_bytes = int(self.job["memory_bytes"] * _OF_DUCKDB)
        self.database = closed_database(memory_bytes=memory_bytes, threads=_THREADS)

    def answer(self) -> _Answer:
        (statement,) = self.database.extract_statements(self.job["text"])
        if statement.type != duckdb.StatementType.SELECT:
            raise ValueError("no SELECT")
        for table in self.job["tables"]:
            self._bind(table)
        reader = self.database.sql(self.job["text"]).to_arrow_reader(_BATCH_ROWS)
        return _cut(reader, self.job["rows_max"], self.job["answer_bytes"])

    def _bind(self, wanted: Mapping[str, Any]) -> None:
        """Slice by slice where the statement reads the table once."""
        table = open_(open_storage(wanted["location"]), system_ports())
        plan = plan_snapshot(table)
        columns, masked = wanted["columns"], frozenset(wanted["masked"])
        empty = plan.schema.arrow.empty_table().select(columns)
        schema = masked_rows(empty, masked).schema
        batches = self._batches(table, plan, columns, masked)
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        rows = reader if wanted["times_read"] == 1 else reader.read_all()
        self.database.register(wanted["relation"], rows)

    def _batches(
        self, table: Table, plan: SnapshotPlan, columns: list[str], masked: frozenset[str]
    ) -> Iterator[pa.RecordBatch]:
        for slice_ in plan.slices:
            try:
                rows = read_slice(table.storage, table.config, plan.schema, slice_, columns=columns)
            except LakehouseError as error:
                self.failed = error
                raise
            yield from masked_rows(rows.select(columns), masked).to_batches()


def main() -> None:
    """Compute the job and say what came of it; never an exit code but 0 of its own."""
    job = json.load(sys.stdin)
    _take_limits(job)
    database = _Database(job)
    try:
        answer = database.answer()
        head: dict[str, Any] = {"cut_by": answer.cut_by}
        _say(head, answer.rows)
    except (MemoryError, duckdb.OutOfMemoryException):
        _say({"failed": "memory"})
    except duckdb.Error as error:
        _say(_failure(database.failed or error))
    except (LakehouseError, ValueError, KeyError) as error:
        _say(_failure(error))
    os._exit(0)  # What the database still computes ends with it.


def _take_limits(job: Mapping[str, Any]) -> None:
    memory_bytes = _mapped_bytes() + int(job["memory_bytes"])
    cpu_s = int(job["cpu_s"])
    for kind, soft, hard in (
        (resource.RLIMIT_AS, memory_bytes, memory_bytes),
        (resource.RLIMIT_CPU, cpu_s, cpu_s + 1),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES_MAX, _OPEN_FILES_MAX),
    ):
        _, inherited = resource.getrlimit(kind)
        most = hard if inherited == resource.RLIM_INFINITY else min(hard, inherited)
        resource.setrlimit(kind, (min(soft, most), most))
    signal.alarm(int(job["wall_s"]) + _SPARE_S)


def _mapped_bytes() -> int:
    pages, *_ = Path("/proc/self/statm").read_text().split()
    return int(pages) * resource.getpagesize()


def _cut(reader: pa.RecordBatchReader, rows_max: int, bytes_max: int) -> _Answer:
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    cut_by = ""
    for batch in reader:
        if rows + batch.num_rows > rows_max:
            batch, cut_by = batch.slice(0, rows_max - rows), "rows"
        if size + batch.nbytes > bytes_max:
            batch, cut_by = _fitting(batch, bytes_max - size), "bytes"
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if cut_by:
            break
    return _Answer(pa.Table.from_batches(batches, reader.schema), cut_by)


def _fitting(batch: pa.RecordBatch, bytes_max: int) -> pa.RecordBatch:
    fitting, over = 0, batch.num_rows
    while over - fitting > 1:
        middle = (fitting + over) // 2
        if batch.slice(0, middle).nbytes <= bytes_max:
            fitting = middle
        else:
            over = middle
    return batch.slice(0, fitting)


def _failure(error: Exception) -> dict[str, Any]:
    first, *_ = str(error).splitlines() or [""]
    is_memory = "bad_alloc" in first or "llocation failure" in first or "malloc" in first
    return {"failed": "memory" if is_memory else "statement", "why": first[:500]}


def _say(head: Mapping[str, Any], rows: pa.Table | None = None) -> None:
    with os.fdopen(sys.stdout.fileno(), "wb", closefd=False) as stream:
        stream.write(json.dumps(head).encode() + b"\n")
        if rows is not None:
            with pa.ipc.new_stream(stream, rows.schema) as writer:
                writer.write_table(rows)


if __name__ == "__main__":
    main()
