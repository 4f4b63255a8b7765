"""The changes of a table's schema by an explicit alter: a pure function over a list of changes.

A dropped column stays in the data files, and every reader projects by name. So its name is stored
in the schema, as a property of every commit, and is not used again while files may contain it: old
values would appear as the new column's.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.avro_schema import Field, Place
from workers.schema.column_names import check_case, check_new_column
from workers.schema.from_arrow import DECIMAL_DIGITS_MAX, avro_field
from workers.schema.reconcile import check_still_ordered, update_field_type
from workers.schema.table_schema import DROPPED_KEY, TableSchema
from workers.schema.wider_types import can_hold

Default: TypeAlias = bool | int | float | str
_DEFAULTS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
}
"""Plain Avro types -> the values of Python that are their defaults."""


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A new column at the end. A required one has a default, which fills batches without the
    column. It can be added only while the table has no rows: other engines would show null in
    these.
    """

    name: str
    type: pa.DataType
    is_nullable: bool = True
    default: Default | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """The removal of a column; data files keep its values, which are no longer read."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Another name for a column. Rewrites the table."""

    name: str
    to: str


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """A wider type, which holds every old value; inside structs, lists and maps also with new
    fields.
    """

    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class RelaxColumn:
    """A required column becomes nullable."""

    name: str


@dataclass(frozen=True, slots=True)
class RequireColumn:
    """A nullable column becomes required; no stored row may have null there."""

    name: str


SchemaChange: TypeAlias = (
    AddColumn | DropColumn | RenameColumn | WidenColumn | RelaxColumn | RequireColumn
)


def apply_changes(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    pinned: Collection[str],
    ordering: Collection[str] = (),
) -> TableSchema:
    """Apply all `changes` to `schema`, in their order.

    `pinned` columns (key, partition) cannot change: rows would move. Those of `ordering` can only
    be widened, as `preserves_order` allows. Raises InvalidInput naming the column.
    """
    if not changes:
        raise InvalidInput("an alter needs at least one change")
    for change in changes:
        is_new, is_wider = isinstance(change, AddColumn), isinstance(change, WidenColumn)
        if change.name in pinned and not is_new:
            raise InvalidInput("key and partition columns stay as they are", column=change.name)
        if change.name in ordering and not (is_new or is_wider):
            raise InvalidInput("an ordering column stays, but for its width", column=change.name)
        schema = _apply_change(schema, change, ordering)
    if not schema.field_names:
        raise InvalidInput("a table needs at least one column")
    return schema


def widen_ordering(schema: TableSchema, ordering: Collection[str]) -> TableSchema:
    """Return the schema with columns of `ordering` as wide as any writer may make them, to read
    rows of other writers.
    """
    fields = [field for field in schema.arrow if field.name in ordering]
    changes = [
        WidenColumn(field.name, widest)
        for field in fields
        if (widest := _widest(field.type)) is not None and widest != field.type
    ]
    return apply_changes(schema, changes, pinned=()) if changes else schema


def _widest(column_type: Any) -> pa.DataType | None:
    """Return the widest type with the same order; None if there is no wider one."""
    if pa.types.is_decimal(column_type):
        return pa.decimal128(DECIMAL_DIGITS_MAX, column_type.scale)
    wider: dict[Any, pa.DataType] = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}
    return wider.get(column_type)


def get_renames(changes: Sequence[SchemaChange]) -> dict[str, str]:
    """Return old name -> new name over all of `changes`."""
    names: dict[str, str] = {}
    for change in changes:
        if isinstance(change, RenameColumn):
            first = next((old for old, new in names.items() if new == change.name), change.name)
            names[first] = change.to
    return names


def _apply_change(
    schema: TableSchema, change: SchemaChange, ordering: Collection[str]
) -> TableSchema:
    match change:
        case AddColumn():
            return _add_column(schema, change)
        case DropColumn(name):
            at = _find_position(schema, name)
            avro = schema.to_avro()
            del avro["fields"][at]
            avro[DROPPED_KEY] = sorted({*schema.dropped, name.lower()})
            return TableSchema.from_avro(avro)
        case RenameColumn(name, to):
            at = _find_position(schema, name)
            check_new_column(to)
            _check_free(schema, to, besides=name)
            avro = schema.to_avro()
            avro["fields"][at] = {**avro["fields"][at], "name": to}
            return TableSchema.from_avro(avro)
        case WidenColumn(name, kind):
            return _widen_column(schema, name, kind, ordering)
        case RelaxColumn(name):
            return _relax_column(schema, name)
        case RequireColumn(name):
            return _require_column(schema, name)


def _add_column(schema: TableSchema, change: AddColumn) -> TableSchema:
    if change.is_nullable is not (change.default is None):
        raise InvalidInput(
            "a new column may be null, or it is required and has a default", column=change.name
        )
    check_new_column(change.name)
    _check_free(schema, change.name)
    if change.name.lower() in schema.dropped:
        raise InvalidInput(
            "a column of this name was dropped, and data files may still hold its values; "
            "rewrite the table or choose another name",
            column=change.name,
        )
    avro = schema.to_avro()
    spelling = avro_field(
        pa.field(change.name, change.type, change.is_nullable), parent=schema.record_name
    )
    if change.default is not None:
        spelling["default"] = _default(change, spelling["type"])
    avro["fields"].append(spelling)
    return TableSchema.from_avro(avro)


def _default(change: AddColumn, avro: Any) -> Default:
    """Return the value in Avro's spelling. Raises InvalidInput for one that the type cannot
    hold.
    """
    default_value: Any = change.default
    kinds = _DEFAULTS.get(avro, ()) if isinstance(avro, str) else ()
    fits = isinstance(default_value, kinds) and (
        bool in kinds or not isinstance(default_value, bool)
    )
    try:
        value = pa.scalar(default_value, change.type) if fits else None
    except (pa.ArrowException, OverflowError):
        value = None
    if value is None or (isinstance(default_value, float) and not math.isfinite(default_value)):
        raise InvalidInput(
            "a default is a boolean, a finite number or a text that the column's type holds",
            column=change.name,
            type=change.type,
            default=default_value,
        )
    default: Default = value.as_py()
    return default


def _require_column(schema: TableSchema, name: str) -> TableSchema:
    at = _find_position(schema, name)
    field = schema.tree.fields[at]
    if not field.place.is_nullable:
        raise InvalidInput("column is required already", column=name)
    avro = schema.to_avro()
    spelling: dict[str, Any] = update_field_type(
        avro["fields"][at],
        Field(name, Place(field.place.type, is_nullable=False), None),
        schema.record_name,
    )
    if spelling.get("default") is None:  # Null is not a value of it now.
        spelling.pop("default", None)
    avro["fields"][at] = spelling
    return TableSchema.from_avro(avro)


def _widen_column(
    schema: TableSchema, name: str, kind: pa.DataType, ordering: Collection[str]
) -> TableSchema:
    at = _find_position(schema, name)
    old = schema.tree.fields[at]
    wider_field = TableSchema.from_arrow(pa.schema([(name, kind)]), table_name="t").tree.fields[0]
    if not can_hold(wider_field.place.type, old.place.type):
        raise InvalidInput(
            "the new type does not hold every value of the old one",
            column=name,
            table=old.place.type,
            wanted=wider_field.place.type,
        )
    if wider_field.place.type == old.place.type:
        raise InvalidInput("column has this type already", column=name, type=old.place.type)
    avro = schema.to_avro()
    wider = type(old)(
        name, type(old.place)(wider_field.place.type, old.place.is_nullable), old.default
    )
    check_still_ordered(old, wider, ordering)
    avro["fields"][at] = update_field_type(avro["fields"][at], wider, schema.record_name)
    return TableSchema.from_avro(avro)


def _relax_column(schema: TableSchema, name: str) -> TableSchema:
    at = _find_position(schema, name)
    if schema.tree.fields[at].place.is_nullable:
        raise InvalidInput("column may be null already", column=name)
    avro = schema.to_avro()
    field: dict[str, Any] = avro["fields"][at]
    if "default" in field:  # Avro wants the default's type first.
        avro["fields"][at] = {**field, "type": [field["type"], "null"]}
    else:
        avro["fields"][at] = {**field, "type": ["null", field["type"]], "default": None}
    return TableSchema.from_avro(avro)


def _find_position(schema: TableSchema, name: str) -> int:
    if name not in schema.field_names:
        raise InvalidInput("table has no such column", column=name, columns=schema.field_names)
    return schema.field_names.index(name)


def _check_free(schema: TableSchema, name: str, *, besides: str = "") -> None:
    others = [other for other in schema.field_names if other != besides]
    if name in others:
        raise InvalidInput("table has this column already", column=name)
    check_case([*others, name])
