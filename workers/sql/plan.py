"""What a statement writes: the columns, and the query that answers them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from workers.options.table_options import TableConfig
from workers.read.log_versions import IS_DELETED
from workers.sql.changes import ComparedColumns
from workers.sql.conversion import Conversion


@dataclass(frozen=True, slots=True)
class Plan:
    """What a statement computes and writes, with how the answer is to be taken."""

    columns: tuple[str, ...]
    """The columns that are written, in the order in which the query answers them."""
    query: exp.Query
    operation: str = "upsert"
    source: exp.Query | None = None
    """Computed once, as the relation `SOURCE`."""
    source_key: tuple[exp.Expr, ...] = ()
    """The source's part of ON, over that relation by its alias; no two of its rows may have the
    same.
    """
    source_alias: str = ""
    where: exp.Expr | None = None
    """What rows of the target must hold to be looked at; None where that is not known."""
    ages: tuple[tuple[str, ...], ...] = ()
    outspoken: tuple[str, ...] = ()
    marks_matched: bool = False
    marks_deletes: bool = False
    """One column more, after those that are written, says which rows go."""
    is_ordered: bool = False
    """A delete that leaves newer rows alone."""
    takes_along: bool = False
    """See `WriteRequest.takes_along`."""
    needs_rows: bool = False
    """See `WriteRequest.needs_rows`."""
    compared: tuple[ComparedColumns, ...] = ()
    """What rows hold already is not written again."""

    @property
    def queries(self) -> list[exp.Query]:
        """All that is computed for it."""
        return [self.query] if self.source is None else [self.query, self.source]

    def conversion(self, config: TableConfig, schema: pa.Schema) -> Conversion:
        """What the query's answer becomes, in a table of these settings and this schema."""
        mark = [pa.field(IS_DELETED, pa.bool_())] if self.marks_deletes else []
        return Conversion(
            pa.schema([*(schema.field(name) for name in self.columns), *mark]),
            self.ages,
            self.outspoken,
            self.marks_matched,
            config if self.is_ordered else None,
            self.compared,
        )
