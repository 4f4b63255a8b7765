"""`ALTER TABLE` as the changes of a schema that `table.alter` makes, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from workers.errors import InvalidInput
from workers.schema.alter import (
    AddColumn,
    Default,
    DropColumn,
    RelaxColumn,
    RenameColumn,
    RequireColumn,
    SchemaChange,
    WidenColumn,
)
from workers.sql.statements import DIALECT, Alter

_KNOWN = (
    "ADD COLUMN, ADD COLUMNS (...), DROP COLUMN, RENAME COLUMN a TO b, ALTER COLUMN a TYPE t, "
    "ALTER COLUMN a SET NOT NULL, ALTER COLUMN a DROP NOT NULL"
)


@dataclass(frozen=True, slots=True)
class Altering:
    """An ALTER TABLE as the changes of columns that it names, one after the other."""

    statement: Alter
    type_of: Callable[[exp.DataType, str], pa.DataType]
    """Takes a column's type as it is written, and its name."""

    def changes(self) -> list[SchemaChange]:
        """The changes in their order. Raises InvalidInput for what is no change of columns."""
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
        if position := node.args.get("position"):
            raise InvalidInput(
                "an added column comes last in the table: say no place",
                column=node.name,
                given=position.sql(dialect=DIALECT),
            )
        is_nullable, default = True, None
        for constraint in node.args.get("constraints") or ():
            match constraint.args.get("kind"):
                case exp.NotNullColumnConstraint() as null:
                    is_nullable = bool(null.args.get("allow_null"))
                case exp.DefaultColumnConstraint() as said:
                    default = _constant(said.this, node.name)
                case _:
                    raise InvalidInput(
                        "an added column says nothing but its type, NOT NULL and DEFAULT",
                        column=node.name,
                        given=constraint.sql(dialect=DIALECT),
                    )
        kind = self.type_of(node.args["kind"], node.name)
        return AddColumn(node.name, kind, is_nullable, default)

    def _altered(self, action: exp.AlterColumn) -> SchemaChange:
        name, kind = action.this.name, action.args.get("dtype")
        renamed = action.args.get("rename_to")
        if renamed is not None and renamed.name != name:
            raise InvalidInput(
                "a column is renamed by RENAME COLUMN, in a change of its own", column=name
            )
        clauses = {key for key, value in action.args.items() if value} - {"this", "rename_to"}
        if not clauses and action.args.get("allow_null") is False:
            return RequireColumn(name)
        if kind is not None and clauses == {"dtype"}:
            return WidenColumn(name, self.type_of(kind, name))
        if clauses == {"drop", "allow_null"}:
            return RelaxColumn(name)
        raise _unknown(action)


def _constant(node: exp.Expr, column: str) -> Default:
    sign = -1 if isinstance(node, exp.Neg) else 1
    match node.this if isinstance(node, exp.Neg) else node:
        case exp.Boolean() as boolean if sign == 1:
            return bool(boolean.this)
        case exp.Literal(is_string=True) as text if sign == 1:
            return str(text.this)
        case exp.Literal(is_string=False) as number:
            try:
                return sign * int(number.this)
            except ValueError:
                return sign * float(number.this)
        case _:
            raise InvalidInput(
                "a default is a number, a text, true or false",
                column=column,
                given=node.sql(dialect=DIALECT),
            )


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
