"""The question to a schema strategy and its answer: values without storage.

Three schemas decide (RFC-82): the table's when the transaction started, the table's now, read under
the table lock, and the writer's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from workers.schema.equality import FieldDifference, equal, find_differences
from workers.schema.table_schema import TableSchema
from workers.schema.three_way import Clash

By = Literal["writer", "rival", "both"]
_SCENARIOS = {"1": 1, "4": 3, "5": 5, "6": 6, "7": 8}


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One path in which a side differs from the table's schema at the start."""

    path: str
    """`a.b` inside a struct, `a.element` inside a list, `a.value` inside a map."""
    kind: str
    """As in `equality.FieldDifference`: added | removed | case | type | nullability | default |
    order | position"""
    by: By
    before: str | None
    after: str | None

    def __str__(self) -> str:
        return str(FieldDifference(self.path, self.kind, self.before, self.after))


@dataclass(frozen=True, slots=True)
class SchemaVerdict:
    """The commit may continue, with this schema in its metadata."""

    case: str
    """The row of the decision table (requirements 2.1): 0a to 7."""
    schema: TableSchema | None
    """None only where neither the table nor the writer has one."""
    warning: str | None = None
    strategy: str = "simple"
    scenario: int | None = None
    """RFC-82's own number, 1 to 8; None where nothing was compared."""
    changes: tuple[SchemaChange, ...] = ()
    """What the two writers made of the schema at the start; the sources of the merged fields."""


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """The commit must not happen. Write again on the table's new schema, or evolve it first."""

    case: str
    at_start: TableSchema | None
    at_validation: TableSchema
    writer: TableSchema
    reason: str
    """Why, in a sentence without names."""
    strategy: str = "simple"
    scenario: int | None = None
    changes: tuple[SchemaChange, ...] = ()
    clashes: tuple[Clash, ...] = ()
    """Paths that no merge could have settled; none when `evolvability` would have merged."""


@dataclass(frozen=True, slots=True)
class SchemaQuestion:
    """A commit with a schema came between this transaction's start and its validation."""

    at_start: TableSchema | None
    at_validation: TableSchema
    writer: TableSchema
    pinned: frozenset[str] = frozenset()
    """Key and partition columns: another type would move rows."""
    written: frozenset[str] | None = None
    """Columns into which the writer's files bring values. None: it wrote no files at all."""
    strategy: str = "simple"
    """The name under which it is asked."""
    ordering: frozenset[str] = frozenset()
    """Columns that order versions: of another type they would have to compare alike."""

    @property
    def row(self) -> str:
        """The row of requirements 2.1 that describes the three."""
        if equal(self.writer, self.at_validation):
            return "3"
        if self.at_start is None:
            return "4"
        if equal(self.at_start, self.at_validation):
            return "5"
        return "6" if equal(self.writer, self.at_start) else "7"

    def accept(self, schema: TableSchema, *, warning: str | None = None) -> SchemaVerdict:
        """Accept the commit under `schema`, with the columns that either side dropped."""
        names = {name.lower() for name in schema.field_names}
        dropped = {*self.at_validation.dropped, *self.writer.dropped} - names
        return SchemaVerdict(
            self.row,
            schema.with_dropped(dropped),
            warning,
            self.strategy,
            self._scenario,
            self.changes,
        )

    def reject(self, reason: str, clashes: Collection[Clash] = ()) -> SchemaConflict:
        """Reject the commit for `reason`: a sentence without names."""
        return SchemaConflict(
            case=self.row,
            at_start=self.at_start,
            at_validation=self.at_validation,
            writer=self.writer,
            reason=reason,
            strategy=self.strategy,
            scenario=self._scenario,
            changes=self.changes,
            clashes=tuple(clashes),
        )

    @property
    def changes(self) -> tuple[SchemaChange, ...]:
        """The changes of either side since the start; those of this writer alone are last."""
        return changes_since(self.at_start, self.at_validation, self.writer)

    @property
    def _scenario(self) -> int:
        row = self.row
        if row != "3":
            return _SCENARIOS[row]
        if self.at_start is None:
            return 2
        return 4 if equal(self.at_start, self.at_validation) else 7


def changes_since(
    at_start: TableSchema | None, at_validation: TableSchema, writer: TableSchema
) -> tuple[SchemaChange, ...]:
    """Return the changes of the other commits and of the writer since the start, the others'
    first.
    """
    base = at_start or TableSchema.from_avro({**at_validation.to_avro(), "fields": []})
    theirs, ours = find_differences(base, at_validation), find_differences(base, writer)
    shared: By = "both"
    return (
        *(_change(difference, shared if difference in ours else "rival") for difference in theirs),
        *(_change(difference, "writer") for difference in ours if difference not in theirs),
    )


def _change(difference: FieldDifference, by: By) -> SchemaChange:
    return SchemaChange(difference.path, difference.kind, by, difference.left, difference.right)
