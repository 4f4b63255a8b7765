"""Queries computed by DuckDB in this process, over Arrow. It sees the tables that it is given and
neither files nor the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import duckdb
import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome
from workers.errors import InvalidInput, LakehouseError
from workers.lakehouse import LakehouseTable
from workers.options.write_options import WriteOptions
from workers.read.slice_scan import SliceScan
from workers.sandboxed_duckdb import open_sandboxed_duckdb
from workers.sql.conversion import Conversion
from workers.sql.engine import Snapshot
from workers.table.table import Table
from workers.write.context import WriteContext
from workers.write.local import write_once
from workers.write.request import WriteRequest

_Computed = TypeVar("_Computed")


class DuckEngine:
    """Computes in this process, in a database in memory that reaches no file and no network."""

    dialect: Final = "duckdb"

    def __init__(self) -> None:
        self._database = open_sandboxed_duckdb()
        self._failed: LakehouseError | None = None

    def bind_empty(self, name: str, schema: pa.Schema) -> None:
        """A relation without rows."""
        self._database.register(name, schema.empty_table())

    def bind_table(
        self,
        name: str,
        table: LakehouseTable,
        columns: tuple[str, ...] | None,
        hint: str | None = None,
    ) -> None:
        """The table's rows as of now in memory, without slices and row groups that the hint
        refutes.
        """
        self._database.register(name, table.scan(columns).with_hint(hint).to_arrow())

    def bind_snapshot(self, name: str, snapshot: Snapshot) -> None:
        """Slice by slice where the query reads it once."""
        self._failed = None
        schema = snapshot.arrow_schema
        reader = pa.RecordBatchReader.from_batches(schema, self._batches(snapshot))
        self._database.register(name, reader if snapshot.is_read_once else reader.read_all())

    def _batches(self, snapshot: Snapshot) -> Iterator[pa.RecordBatch]:
        table = snapshot.table
        reading = SliceScan(
            table.storage,
            table.config,
            snapshot.schema,
            tuple(snapshot.arrow_schema.names),
            snapshot.hint,
        )
        for slice_ in snapshot.slices:
            try:
                yield from reading.batches(slice_)
            except LakehouseError as error:
                self._failed = error  # DuckDB hands on nothing but its text.
                raise

    def bind_rows(self, name: str, rows: pa.Table) -> None:
        """The rows where they are, without a copy."""
        self._database.register(name, rows)

    def define(self, name: str, query: str) -> None:
        """A temporary table of the query's rows."""
        self._run(
            lambda: self._database.execute(f'CREATE OR REPLACE TEMP TABLE "{name}" AS {query}')
        )

    def schema_of(self, query: str) -> pa.Schema:
        """By running the query; what is bound by `bind_empty` costs nothing."""
        return self.rows(query).schema

    def first(self, query: str) -> dict[str, Any] | None:
        """The query's first row by its names, or None."""
        return next(iter(self.rows(query).to_pylist()), None)

    def answer(self, query: str) -> pa.Table:
        """All rows in memory. Raises as `rows`."""
        return self.rows(query)

    def rows(self, query: str) -> pa.Table:
        """The rows that DuckDB finds for a query. Raises InvalidInput for what DuckDB refuses, and
        what the reading of a table raises.
        """
        rows: pa.Table = self._run(lambda: self._database.sql(query).to_arrow_table())
        return rows

    def write(
        self,
        table: Table,
        schema: pa.Schema,
        request: WriteRequest,
        options: WriteOptions,
        query_of: Callable[[WriteContext], tuple[str, Conversion]],
    ) -> CommitOutcome:
        """In this process, as `workers.write.local.write_once`."""

        def batch_of(context: WriteContext) -> pa.Table:
            query, conversion = query_of(context)
            return conversion.of(self.rows(query))

        return write_once(table, schema, request, options, batch_of)

    def close(self) -> None:
        """What was bound and defined is gone."""
        self._database.close()

    def _run(self, compute: Callable[[], _Computed]) -> _Computed:
        try:
            return compute()
        except duckdb.Error as error:
            if self._failed is not None:
                raise self._failed from error
            first, *_ = str(error).splitlines()
            raise InvalidInput("the statement cannot be computed", why=first) from error
