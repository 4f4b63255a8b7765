"""The process that computes the rows of a write's statement: `python -m workers.sql.child`.

It is bounded as `workers.bounded_process` says, and writes the rows to one Parquet file. It knows
neither Django nor Spark, and its environment holds no secret but those that open the tables'
storage. `StatementDatabase` is also what computes the statement of a page.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import duckdb
import pyarrow as pa

from workers.bounded_process import failure, say, take_limits, write_file
from workers.errors import LakehouseError
from workers.ports import system_ports
from workers.read.scan import Scan
from workers.read.scan_plan import plan_scan
from workers.sandboxed_duckdb import open_sandboxed_duckdb
from workers.storage.opener import open_storage
from workers.table.table import open_

_THREADS: Final = 2
_OF_DUCKDB: Final = 0.6
"""Its share of the memory; the rest is for the rows that are read and for the answer."""
_BATCH_ROWS: Final = 10_000
_NO_TABLE_TYPES: Final = re.compile(r"\b(?:U?HUGEINT|UBIGINT|UINTEGER|USMALLINT|UTINYINT)\b")
"""Integers of DuckDB that no table holds; sums of integers are HUGEINT."""


@dataclass(slots=True)
class StatementDatabase:
    """A database that holds the tables of one job, and nothing else.

    The job has `text`, `tables` (relation, location, columns, times_read, hint, and `as_of` where
    it is a completion time), `memory_bytes`. `show` gets the rows that were read of a table and its
    entry of the job, and returns what the statement sees of them.
    """

    job: Mapping[str, Any]
    show: Callable[[pa.Table, Mapping[str, Any]], pa.Table] = lambda rows, _table: rows
    _failed: LakehouseError | None = None
    """What reading met: DuckDB hands on nothing but its text."""
    _database: duckdb.DuckDBPyConnection = field(init=False)

    def __post_init__(self) -> None:
        memory_bytes = int(self.job["memory_bytes"] * _OF_DUCKDB)
        self._database = open_sandboxed_duckdb(memory_bytes=memory_bytes, threads=_THREADS)

    def reader(self, batch_rows: int) -> pa.RecordBatchReader:
        """The statement's rows, computed as they are read. Integers that no table holds are BIGINT,
        as in Spark; one that does not fit is an error of DuckDB.
        """
        (statement,) = self._database.extract_statements(self.job["text"])
        if statement.type != duckdb.StatementType.SELECT:
            raise ValueError("no SELECT")
        for table in self.job["tables"]:
            self._bind(table)
        answer = self._database.sql(self.job["text"])
        types = [str(type_) for type_ in answer.types]
        if any(map(_NO_TABLE_TYPES.search, types)):
            answer = answer.project(
                ", ".join(
                    f"CAST(#{at} AS {_NO_TABLE_TYPES.sub('BIGINT', type_)})"
                    for at, type_ in enumerate(types, start=1)
                )
            )
        reader: pa.RecordBatchReader = answer.to_arrow_reader(batch_rows)
        return reader

    def run(self, compute: Callable[[], None]) -> None:
        """Call `compute`, which says the answer, and say what went wrong where it raises."""
        try:
            compute()
        except (MemoryError, duckdb.OutOfMemoryException):
            say({"failed": "memory"})
        except duckdb.Error as error:
            say(failure(self._failed or error))
        except (LakehouseError, pa.ArrowException, ValueError, KeyError) as error:
            say(failure(error))

    def _bind(self, wanted: Mapping[str, Any]) -> None:
        """Slice by slice where the statement reads the table once."""
        table = open_(open_storage(wanted["location"]), system_ports())
        scan = plan_scan(table, columns=wanted["columns"], as_of=wanted.get("as_of"))
        scan = scan.with_hint(wanted.get("hint"))
        schema = self.show(scan.schema.empty_table(), wanted).schema
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(scan, wanted))
        rows = reader if wanted["times_read"] == 1 else reader.read_all()
        self._database.register(wanted["relation"], rows)

    def _batches(self, scan: Scan, wanted: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yield one slice after the other: the process may hold little."""
        try:
            for batch in replace(scan, threads=1).to_batches():
                yield from self.show(pa.Table.from_batches([batch]), wanted).to_batches()
        except LakehouseError as error:
            self._failed = error
            raise


def _write_file(job: Mapping[str, Any], database: StatementDatabase) -> None:
    """All rows in the file that the job names, under the job's names of columns."""
    reader = database.reader(_BATCH_ROWS)
    schema = pa.schema(
        [column.with_name(name) for name, column in zip(job["names"], reader.schema, strict=True)]
    )
    write_file(job, schema, reader)


def main() -> None:
    """Compute the job and say what came of it; never an exit code but 0 of its own."""
    job = json.load(sys.stdin)
    take_limits(job)
    database = StatementDatabase(job)
    database.run(lambda: _write_file(job, database))
    os._exit(0)  # What the database still computes ends with it.


if __name__ == "__main__":
    main()
