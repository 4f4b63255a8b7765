"""The process that computes one statement: `python -m controlplane.sql.child`.

It is bounded as `bounded` says. Masked columns come into the database as the mark: what they hold
is not in there.

It knows neither Django nor the register, and its environment holds no secret but those that open
the tables' storage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import pyarrow as pa

from controlplane.sql.bounded import CutRows, cut_rows, failure, say, take_limits
from controlplane.tables.masks import masked_rows
from workers.closed_database import closed_database
from workers.errors import LakehouseError
from workers.ports import system_ports
from workers.read.file_slice import read_slice
from workers.read.snapshot import SnapshotPlan, plan_snapshot
from workers.storage.opening import open_storage
from workers.table.table import Table, open_

_THREADS: Final = 2
_OF_DUCKDB: Final = 0.6
"""Its share of the memory; the rest is for the rows that are read and for the answer."""
_BATCH_ROWS: Final = 1_000


@dataclass(slots=True)
class _Database:
    job: Mapping[str, Any]
    failed: LakehouseError | None = None
    """What reading met: DuckDB hands on nothing but its text."""
    database: duckdb.DuckDBPyConnection = field(init=False)

    def __post_init__(self) -> None:
        memory_bytes = int(self.job["memory_bytes"] * _OF_DUCKDB)
        self.database = closed_database(memory_bytes=memory_bytes, threads=_THREADS)

    def answer(self) -> CutRows:
        (statement,) = self.database.extract_statements(self.job["text"])
        if statement.type != duckdb.StatementType.SELECT:
            raise ValueError("no SELECT")
        for table in self.job["tables"]:
            self._bind(table)
        reader = self.database.sql(self.job["text"]).to_arrow_reader(_BATCH_ROWS)
        return cut_rows(reader, rows_max=self.job["rows_max"], bytes_max=self.job["answer_bytes"])

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
    take_limits(job)
    database = _Database(job)
    try:
        answer = database.answer()
        head: dict[str, Any] = {"cut_by": answer.cut_by}
        say(head, answer.rows)
    except (MemoryError, duckdb.OutOfMemoryException):
        say({"failed": "memory"})
    except duckdb.Error as error:
        say(failure(database.failed or error))
    except (LakehouseError, ValueError, KeyError) as error:
        say(failure(error))
    os._exit(0)  # What the database still computes ends with it.


if __name__ == "__main__":
    main()
