"""The writer schema of a batch, and the conversion of the batch to it.

A writer schema is always the table's columns with the batch's new ones at the end; columns that a
batch lacks stay in the table (requirements 2.1). So a stream that writes three of twenty columns
never narrows a table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput, UnsupportedTable
from workers.files.avro_schema import AvroType, Field, ListOf, MapOf, Place, Struct, arrow_type
from workers.files.meta_columns import META_COLUMNS
from workers.schema.bad_rows import reject_rows
from workers.schema.column_names import check_new_columns
from workers.schema.conversion import can_fit, fit_column
from workers.schema.from_arrow import has_no_value, is_list, normal_type, optional, unwrap_type
from workers.schema.promotion import can_promote, promote
from workers.schema.table_schema import TableSchema
from workers.schema.to_avro import field_to_avro
from workers.schema.wider_types import can_add, can_hold, common_place, preserves_order


def reconcile(
    table: TableSchema | None,
    batch: TableSchema,
    *,
    evolution: bool = True,
    pinned: Collection[str] = (),
    ordering: Collection[str] = (),
) -> TableSchema:
    """Return the table's schema, widened and extended as `batch` needs; `table` itself if it fits
    already.

    `pinned` columns (key, partition) keep their type: a wider one would move rows. Columns of
    `ordering` can only get types that `preserves_order` allows. Raises InvalidInput naming the
    column.
    """
    if not batch.field_names:
        raise InvalidInput("refusing to commit a schema with no columns")
    check_new_columns(batch.field_names, table.field_names if table is not None else ())
    if table is None or not table.field_names:
        return batch
    avro = table.to_avro()
    parent = table.record_name
    changed = False
    for at, field in enumerate(table.tree.fields):
        other = batch.tree.field(field.name)
        if (
            other is not None
            and (wider := _find_wider(field, other, evolution, pinned)) is not None
        ):
            check_still_ordered(field, wider, ordering)
            avro["fields"][at] = update_field_type(avro["fields"][at], wider, parent)
            changed = True
    for other in batch.tree.fields:
        if table.tree.field(other.name) is None:
            avro["fields"].append(_build_new_field(other, parent, evolution, table.dropped))
            changed = True
    return TableSchema.from_avro(avro) if changed else table


def select_changed_columns(
    batch: pa.Schema,
    table: TableSchema,
    *,
    evolution: bool = True,
    pinned: Collection[str] = (),
    ordering: Collection[str] = (),
) -> pa.Schema:
    """Return the columns of `batch` that change the table's schema: new ones, and those that widen
    a column. All other columns are converted to the table's types, value by value.
    """
    fields_by_name = {field.name: field for field in table.tree.fields}
    fields: list[pa.Field[Any]] = []
    for column in batch:
        table_field = fields_by_name.get(column.name)
        if table_field is None:
            fields.append(column)
            continue

        def is_kept(wider: Place, field: Field = table_field) -> bool:
            if not evolution or field.name in pinned:
                return True
            return field.name in ordering and not preserves_order(field.place, wider)

        source_type = _settle_type(column.type, table_field.place, is_kept)
        if source_type != arrow_type(table_field.place.type):
            fields.append(column.with_type(source_type))
    return pa.schema(fields)


def _settle_type(source: Any, table: Place, is_kept: Callable[[Place], bool]) -> pa.DataType:
    """Return the table's type if values of the batch are converted to it one by one; the batch's
    own type if it widens the table's, or has no value in common with it. `is_kept` is True for a
    wider type that the column must not get.
    """
    source = unwrap_type(source)
    target: Any = arrow_type(table.type)
    if source == target:
        return cast("pa.DataType", target)
    match table.type:
        case Struct() as struct if pa.types.is_struct(source):
            fields = {field.name: field for field in struct.fields}
            children: list[pa.Field[Any]] = []
            for child in source:
                if (field := fields.get(child.name)) is not None:
                    children.append(child.with_type(_settle_type(child.type, field.place, is_kept)))
                elif not has_no_value(child.type):
                    children.append(child)
            types = {child.name: child.type for child in target}
            if any(child.type != types.get(child.name) for child in children):
                return pa.struct(children)
        case ListOf(element) if is_list(source):
            inner = _settle_type(source.value_type, element, is_kept)
            if inner != target.value_type:
                return pa.list_(pa.field("element", inner))
        case MapOf(value) if pa.types.is_map(source):
            inner = _settle_type(source.item_type, value, is_kept)
            if inner != target.item_type:
                return pa.map_(source.key_type, inner)
        case _ if can_fit(source, target) and not has_no_value(source):
            batch_schema = TableSchema.from_arrow(pa.schema([("n", source)]), table_name="batch")
            wider = common_place(table, batch_schema.tree.fields[0].place)
            if wider is not None and wider != table and not is_kept(wider):
                return cast("pa.DataType", source)
        case _:
            pass
    return cast("pa.DataType", target if can_fit(source, target) else source)


def _find_wider(
    table: Field, batch: Field, evolution: bool, pinned: Collection[str]
) -> Field | None:
    place = common_place(table.place, batch.place)
    if place is None:
        raise InvalidInput(
            "column has an incompatible type",
            column=table.name,
            table=table.place.type,
            batch=batch.place.type,
        )
    if place == table.place:
        return None
    if not evolution or table.name in pinned:
        reason = "column's type must not change" if evolution else "schema evolution is off"
        raise InvalidInput(
            reason, column=table.name, table=table.place.type, batch=batch.place.type
        )
    return Field(table.name, place, table.default, table.order)


def check_still_ordered(table: Field, wider: Field, ordering: Collection[str]) -> None:
    """Check that a wider type keeps the order of ordering values.

    Raises InvalidInput for an ordering column of another type that readers compare differently.
    """
    if table.name in ordering and not preserves_order(table.place, wider.place):
        raise InvalidInput(
            "an ordering column is widened from int to long and from float to double, and decimals "
            "by whole digits, only: hudi-rs compares values of other types in older files as they "
            "stand there, and takes the older row",
            column=table.name,
            table=table.place.type,
            wanted=wider.place.type,
        )


def _build_new_field(
    field: Field, parent: str, evolution: bool, dropped: Collection[str]
) -> dict[str, Any]:
    if not evolution:
        raise InvalidInput(
            "column is not in the table and schema evolution is off", column=field.name
        )
    if field.name.lower() in dropped:
        raise InvalidInput(
            "a column of this name was dropped, and data files may still hold its values; "
            "choose another name, or add it by an alter once they do not",
            column=field.name,
        )
    if not can_add(field):
        raise InvalidInput(
            "new column is required but has no default, and the rows that are there have no value "
            "for it; bring it as one that may be null",
            column=field.name,
        )
    if not field.place.is_nullable:
        raise InvalidInput("new column must be nullable", column=field.name)
    return field_to_avro(field, parent=parent)


def update_field_type(old: dict[str, Any], wider: Field, parent: str) -> dict[str, Any]:
    """Return the old field with its new type, its doc and custom properties kept."""
    required = Field(wider.name, Place(wider.place.type, is_nullable=False), None)
    avro = field_to_avro(required, parent=parent)["type"]
    if not wider.place.is_nullable:
        return {**old, "type": avro}
    is_null_first = "default" not in old or old["default"] is None
    return {**old, "type": ["null", avro] if is_null_first else [avro, "null"]}


def conform(
    table: pa.Table | pa.RecordBatch,
    schema: TableSchema,
    *,
    columns: Collection[str] | None = None,
    excused: pa.Array[Any] | None = None,
    are_stored: bool = False,
) -> pa.Table:
    """Return `table` in the schema's order and types, absent columns null; only `columns` if these
    are given.

    Meta columns are dropped, and unknown columns without any value. Raises InvalidInput naming
    another column that is not in the schema. Raises BadRows for rows with a value that does not
    fit, or without a value that the schema requires; `excused` rows, which are not kept, may lack
    it. Rows that `are_stored` may have types that another engine promoted since (`promotion`),
    UnsupportedTable for others. They may lack required values, because one of their versions may
    have been written with some columns only.
    """
    batch = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    all_names = {*schema.field_names, *META_COLUMNS}
    for new_column in batch.schema:
        if new_column.name not in all_names and not has_no_value(new_column.type):
            raise InvalidInput("table has no such column", column=new_column.name)
    chosen_names = all_names if columns is None else set(columns)
    if strange := chosen_names - all_names:
        raise InvalidInput("table has no such column", column=min(strange))
    present = dict(zip(batch.column_names, batch.columns, strict=True))
    pairs = zip(schema.tree.fields, schema.arrow, strict=True)
    chosen = [(field, target) for field, target in pairs if field.name in chosen_names]
    fields = [target for _, target in chosen]
    arrays = [
        _fill_column(batch.num_rows, field, target.type, are_stored)
        if (column := present.get(field.name)) is None
        else _conform_column(column, field, target.type, excused, are_stored)
        for field, target in chosen
    ]
    return pa.table(arrays, schema=pa.schema(fields))


def _conform_column(
    column: pa.ChunkedArray[Any],
    field: Field,
    target: pa.DataType,
    excused: pa.Array[Any] | None,
    are_stored: bool,
) -> pa.ChunkedArray[Any]:
    for path, lacking in () if are_stored else find_missing_required(field, column):
        is_bad = lacking if excused is None else pc.and_not(lacking, excused)
        reject_rows(is_bad, "required column holds null", path)
    if column.type == target:
        return column
    if pa.types.is_null(column.type):
        return _nulls(len(column), target)
    if are_stored:
        return _convert_stored(column, field, target)
    if not can_fit(column.type, target):
        raise InvalidInput(
            "column has an incompatible type",
            column=field.name,
            table=field.place.type,
            batch=column.type,
        )
    return fit_column(column, target, name=field.name)


def _convert_stored(
    column: pa.ChunkedArray[Any], field: Field, target: pa.DataType
) -> pa.ChunkedArray[Any]:
    """Convert values of a data file to the type that the column has now."""
    name = field.name
    if normal_type(column.type, column=name) == arrow_type(field.place.type):
        return column.cast(target)
    batch_schema = optional(pa.schema([(name, column.type)]))
    (source,) = TableSchema.from_arrow(batch_schema, table_name="batch").tree.fields
    if can_hold(field.place.type, source.place.type):
        return column.cast(target)
    if can_promote(field.place.type, source.place.type):
        return promote(column, target, name=name)
    raise UnsupportedTable(
        "files of the table hold a column as a type that is not read as what it is now",
        column=name,
        table=field.place.type,
        stored=source.place.type,
    )


def _fill_column(rows: int, field: Field, target: Any, are_stored: bool) -> pa.ChunkedArray[Any]:
    """Return an absent column: null, or the default that the schema has for older rows."""
    if field.place.is_nullable or (are_stored and field.default is None):
        return _nulls(rows, target)
    if field.default is None:
        raise InvalidInput("required column is missing", column=field.name)
    value = pa.array([json.loads(field.default)], target)[0]
    return pa.chunked_array([pa.repeat(value, rows)])


def _nulls(rows: int, target: Any) -> pa.ChunkedArray[Any]:
    return pa.chunked_array([pa.nulls(rows, target)])


def find_missing_required(field: Field, column: pa.ChunkedArray[Any]) -> Iterator[tuple[str, Any]]:
    """Yield (path, mask over the rows of the column) of each required place that is null.

    Below a null nothing is missing. Values are read only where the schema requires some.
    """
    lacks_none = field.place.is_nullable or not column.null_count
    if lacks_none and not _has_required_inside(field.place.type):
        return
    values = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    rows = np.arange(len(values))
    for path, lacking in _find_missing(field.place, field.name, values, rows):
        mask = np.zeros(len(values), np.bool_)
        mask[lacking] = True
        yield path, pa.array(mask)


def _has_required(place: Place) -> bool:
    return not place.is_nullable or _has_required_inside(place.type)


def _has_required_inside(kind: AvroType) -> bool:
    match kind:
        case Struct(fields):
            return any(_has_required(field.place) for field in fields)
        case ListOf(inner) | MapOf(inner):
            return _has_required(inner)
        case _:
            return False


def _find_missing(
    place: Place, path: str, values: Any, rows: np.ndarray[Any, Any]
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the paths and rows. `rows` has for each value its row in the column."""
    if not place.is_nullable and values.null_count:
        yield path, rows[_mask(pc.is_null(values))]
    if not _has_required_inside(place.type) or pa.types.is_null(values.type):
        return
    is_there = _mask(pc.is_valid(values))
    values, rows = values.filter(pa.array(is_there)), rows[is_there]
    match place.type:
        case Struct(fields):
            for field in fields:
                at = values.type.get_field_index(field.name)
                if at >= 0:
                    inner = pc.struct_field(values, at)
                    yield from _find_missing(field.place, f"{path}.{field.name}", inner, rows)
                elif not field.place.is_nullable and field.default is None:
                    yield f"{path}.{field.name}", rows
        case ListOf(inner_place):
            inner, parents = pc.list_flatten(values), pc.list_parent_indices(values)
            yield from _find_missing(
                inner_place, f"{path}.element", inner, rows[parents.to_numpy()]
            )
        case MapOf(inner_place):
            entries = values.cast(_as_list(values.type))
            inner = pc.struct_field(pc.list_flatten(entries), 1)
            parents = pc.list_parent_indices(entries).to_numpy()
            yield from _find_missing(inner_place, f"{path}.value", inner, rows[parents])
        case _:
            raise AssertionError(place)  # Nothing else has an inside.


def _as_list(map_type: Any) -> pa.DataType:
    """Return a map's type as a list of structs, which can be flattened."""
    key, value = pa.field("key", map_type.key_type), pa.field("value", map_type.item_type)
    return pa.list_(pa.field("entries", pa.struct([key, value])))


def _mask(is_true: Any) -> np.ndarray[Any, Any]:
    return np.asarray(is_true.to_numpy(zero_copy_only=False), np.bool_)
