"""`ALTER TABLE` as the changes of a schema that `table.alter` makes, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from workers.errors import InvalidInput
from workers.schema.alter import (
    AddColumn,
    DropColumn,
    RelaxColumn,
    RenameColumn,
    SchemaChange,
    WidenColumn,
)
from workers.sql.statements import DIALECT, Alter

_KNOWN = (
    "ADD COLUMN, ADD COLUMNS (...), DROP COLUMN, RENAME COLUMN a TO b, ALTER COLUMN a TYPE t, "
    "ALTER COLUMN a DROP NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Altering:
    statement: Alter
    type_of: Callable[[exp.DataType, str], pa.DataType]
    """Of a column's type as it is written, and its name."""

    def changes(self) -> list[SchemaChange]:
        """Raises InvalidInput for what is no change of columns."""
        return [change for action in self.statement.actions for change in self._of(action)]

    def _of(self, action: exp.Expr) -> Iterator[SchemaChange]:
        match action:
            case exp.ColumnDef():
                yield self._added(action)
            case exp.Schema():
                for column in action.expressions:
                    yield self._added(column)
            case exp.Drop() if str(action.args.get("kind")).startswith("COLUMN"):
                for name in _names(action):
                    yield DropColumn(name)
            case exp.RenameColumn():
                yield RenameColumn(action.this.name, action.args["to"].name)
            case exp.AlterColumn():
                yield self._altered(action)
            case _:
                raise _unknown(action)

    def _added(self, node: exp.Expr) -> AddColumn:
        if not isinstance(node, exp.ColumnDef) or node.args.get("exists"):
            raise _unknown(node)
        for one in node.args.get("constraints") or ():
            kind = one.args.get("kind")
            if isinstance(kind, exp.NotNullColumnConstraint) and kind.args.get("allow_null"):
                continue
            raise InvalidInput(
                "an added column is nullable and says nothing but its type",
                column=node.name,
                given=one.sql(dialect=DIALECT),
            )
        return AddColumn(node.name, self.type_of(node.args["kind"], node.name))

    def _altered(self, action: exp.AlterColumn) -> SchemaChange:
        name, kind = action.this.name, action.args.get("dtype")
        renamed = action.args.get("rename_to")
        if renamed is not None and renamed.name != name:
            raise InvalidInput(
                "a column is renamed by RENAME COLUMN, in a change of its own", column=name
            )
        told = {key for key, value in action.args.items() if value} - {"this", "rename_to"}
        if kind is not None and told == {"dtype"}:
            return WidenColumn(name, self.type_of(kind, name))
        if told == {"drop", "allow_null"}:
            return RelaxColumn(name)
        raise _unknown(action)


def _names(action: exp.Drop) -> list[str]:
    listed = action.args.get("tables") or [action.this]
    parts = [
        part
        for one in listed
        for part in (one.expressions if isinstance(one, exp.Schema) else [one])
    ]
    return [part.name for part in parts]


def _unknown(node: exp.Expr) -> InvalidInput:
    return InvalidInput(
        "this change of a table is not supported", given=node.sql(dialect=DIALECT), known=_KNOWN
    )
