"""CREATE TABLE: a join table, or any other, from one statement."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from workers.errors import InvalidInput, TableExists
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.sql.relations import Tables
from workers.sql.statements import DIALECT, Create

_FORMATS = ("hudi", "sluice")
_TYPES = {"mor": "MERGE_ON_READ", "cow": "COPY_ON_WRITE"}
_Type = exp.DataType.Type
_SCALARS: Mapping[Any, pa.DataType] = {
    _Type.BOOLEAN: pa.bool_(),
    _Type.TINYINT: pa.int32(),
    _Type.SMALLINT: pa.int32(),
    _Type.INT: pa.int32(),
    _Type.BIGINT: pa.int64(),
    _Type.FLOAT: pa.float32(),
    _Type.DOUBLE: pa.float64(),
    _Type.TEXT: pa.string(),
    _Type.VARCHAR: pa.string(),
    _Type.CHAR: pa.string(),
    _Type.BINARY: pa.binary(),
    _Type.DATE: pa.date32(),
    _Type.TIMESTAMP: pa.timestamp("us", "UTC"),
    _Type.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
    _Type.TIMESTAMPLTZ: pa.timestamp("us", "UTC"),
    _Type.TIMESTAMPNTZ: pa.timestamp("us"),
}


def create(statement: Create, tables: Tables) -> LakehouseTable:
    """The new table, or with IF NOT EXISTS the one that is there. Raises InvalidInput for what is
    not supported, TableExists.
    """
    name, node = statement.target.name, statement.node
    fields, key = _columns(node.this.expressions)
    clauses = _Clauses.of(node)
    location = clauses.location or tables.get(name)
    if not isinstance(location, str | Path):
        raise InvalidInput(
            "a new table needs a place: say LOCATION '...', or give its name one", table=name
        )
    if clauses.location and name in tables and str(tables[name]) != clauses.location:
        raise InvalidInput("the table was given two places", table=name, location=clauses.location)
    options = dict(clauses.properties)
    key = _one_of(key, _listed(options.pop("primaryKey", "")), "primaryKey")
    named = [options.pop(one, "") for one in ("preCombineField", "orderingFields")]
    kind = options.pop("type", "cow")
    try:
        return create_table(
            location,
            name=name.rpartition(".")[2],
            schema=pa.schema(fields),
            record_key=key,
            partition_by=clauses.partition_by,
            ordering=_one_of(_listed(named[0]), _listed(named[1]), "orderingFields"),
            table_type=_TYPES.get(kind.lower(), kind),
            options=options,
        )
    except TableExists:
        if not node.args.get("exists"):
            raise
        return open_table(location)


class _Clauses:
    """The clauses behind the columns."""

    def __init__(self) -> None:
        self.location = ""
        self.partition_by: list[str] = []
        self.properties: dict[str, str] = {}

    @classmethod
    def of(cls, node: exp.Create) -> _Clauses:
        clauses = cls()
        properties = node.args.get("properties")
        for clause in properties.expressions if properties else ():
            clauses._take(clause)
        return clauses

    def _take(self, clause: exp.Expr) -> None:
        match clause:
            case exp.FileFormatProperty() if clause.name.lower() in _FORMATS:
                return
            case exp.PartitionedByProperty():
                self.partition_by = [_plain_name(part) for part in clause.this.expressions]
            case exp.LocationProperty():
                self.location = clause.this.name
            case exp.Property() if type(clause) is exp.Property:
                key = (
                    clause.this.name if isinstance(clause.this, exp.Literal) else clause.this.sql()
                )
                if key in self.properties:
                    raise InvalidInput("a property is given twice", key=key)
                self.properties[key] = clause.args["value"].name
            case _:
                raise InvalidInput(
                    "this part of CREATE TABLE is not supported",
                    part=clause.sql(dialect=DIALECT),
                    known="USING hudi, PARTITIONED BY (columns), LOCATION, TBLPROPERTIES",
                )


def _columns(listed: list[exp.Expr]) -> tuple[list[pa.Field[Any]], list[str]]:
    """The columns, and the key that a PRIMARY KEY names."""
    fields: list[pa.Field[Any]] = []
    key: list[str] = []
    for node in listed:
        match node:
            case exp.ColumnDef():
                field, is_key = _column(node)
                fields.append(field)
                key += [node.name] if is_key else []
            case exp.PrimaryKey():
                key += [_plain_name(part) for part in node.expressions]
            case _:
                raise InvalidInput(
                    "a table has columns and a PRIMARY KEY", given=node.sql(dialect=DIALECT)
                )
    return fields, key


def _column(node: exp.ColumnDef) -> tuple[pa.Field[Any], bool]:
    is_key = is_required = False
    for constraint in node.args.get("constraints") or ():
        match constraint.args["kind"]:
            case exp.NotNullColumnConstraint(args=args) if not args.get("allow_null"):
                is_required = True
            case exp.PrimaryKeyColumnConstraint():
                is_key = True
            case kind:
                raise InvalidInput(
                    "a column has a type and nothing more; defaults go into "
                    "hoodie.multistream.groups",
                    column=node.name,
                    given=kind.sql(dialect=DIALECT),
                )
    if node.args.get("kind") is None:
        raise InvalidInput("a column needs a type", column=node.name)
    return pa.field(node.name, column_type(node.args["kind"], node.name), not is_required), is_key


def column_type(node: exp.DataType, column: str) -> pa.DataType:
    """The Arrow type that a column's type stands for. Raises InvalidInput where none does."""
    inner = node.expressions
    match node.this:
        case _Type.DECIMAL:
            digits = [int(one.name) for one in inner] or [10, 0]
            return pa.decimal128(digits[0], digits[1] if len(digits) > 1 else 0)
        case _Type.ARRAY | _Type.LIST if len(inner) == 1:
            return pa.list_(pa.field("element", column_type(inner[0], column)))
        case _Type.MAP if len(inner) == 2:
            return pa.map_(column_type(inner[0], column), column_type(inner[1], column))
        case _Type.STRUCT if inner:
            return pa.struct([(one.name, column_type(one.args["kind"], column)) for one in inner])
        case kind if kind in _SCALARS:
            return _SCALARS[kind]
        case _:
            raise InvalidInput(
                "a column of this type cannot be made", column=column, type=node.sql(DIALECT)
            )


def _plain_name(node: exp.Expr) -> str:
    inner = node.this if isinstance(node, exp.Ordered) else node
    if isinstance(inner, exp.Identifier | exp.Column):
        return inner.name
    raise InvalidInput("a column was expected", given=node.sql(dialect=DIALECT))


def _one_of(first: list[str], second: list[str], key: str) -> list[str]:
    if first and second and first != second:
        raise InvalidInput("the statement says it twice, differently", key=key)
    return first or second


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
