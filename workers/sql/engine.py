"""What computes the expressions of a statement, and what it is given to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome
from workers.lakehouse import LakehouseTable
from workers.options.write_options import WriteOptions
from workers.read.predicate import Predicate
from workers.schema.table_schema import TableSchema
from workers.sql.conversion import Conversion
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.write.context import WriteContext
from workers.write.request import WriteRequest


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The target as the write found it when it began."""

    table: Table
    schema: TableSchema
    slices: tuple[FileSlice, ...]
    columns: tuple[str, ...] | None
    """Those that are read; None for all."""
    is_read_once: bool
    hint: Predicate | None = None
    """What rows that matter must hold; others may be left unread."""

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns that are read, in their order."""
        names = self.schema.field_names if self.columns is None else self.columns
        return pa.schema([self.schema.arrow.field(name) for name in names])


class Engine(Protocol):
    """All of its methods raise InvalidInput for what it cannot compute."""

    @property
    def dialect(self) -> str:
        """As sqlglot calls it."""
        ...

    def bind_empty(self, name: str, schema: pa.Schema) -> None:
        """A relation without rows, for looking at types."""
        ...

    def bind_table(
        self,
        name: str,
        table: LakehouseTable,
        columns: tuple[str, ...] | None,
        hint: str | None = None,
    ) -> None:
        """The table's rows as of now; those that do not meet the `hint` may be missing."""
        ...

    def bind_rows(self, name: str, rows: pa.Table) -> None:
        """A relation of Arrow rows that the caller gave."""

    def bind_snapshot(self, name: str, snapshot: Snapshot) -> None:
        """The target's rows as its write found them, read now or when a query asks for them."""

    def define(self, name: str, query: str) -> None:
        """A relation that holds what the query answers, computed once."""
        ...

    def schema_of(self, query: str) -> pa.Schema:
        """Under the names that the query gives; two of them may be the same."""
        ...

    def first(self, query: str) -> dict[str, Any] | None:
        """The first row that the query answers, by its names; None without a row."""

    def answer(self, query: str) -> Any:
        """All rows: an Arrow table, or Spark's DataFrame."""
        ...

    def write(
        self,
        table: Table,
        schema: pa.Schema,
        request: WriteRequest,
        options: WriteOptions,
        query_of: Callable[[WriteContext], tuple[str, Conversion]],
    ) -> CommitOutcome:
        """Make one attempt: begin, ask for the query and what its answer becomes, write, commit."""
        ...

    def close(self) -> None:
        """Let go of what was bound. The engine is not used again."""
