"""Checks of column groups against the types of a table: a group that no merge can implement is
rejected.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import pyarrow as pa

from workers.errors import InvalidInput
from workers.options.aggregates import Aggregate, ColumnAggregate
from workers.options.column_groups import GroupRule
from workers.options.group_settings import DeleteScope

_WIDENED: Final[dict[Any, pa.DataType]] = {pa.int32(): pa.int64(), pa.float32(): pa.float64()}
"""Ordering columns of both types compare: one of them may have been widened already."""


def check_group_columns(rule: GroupRule, schema: Any) -> None:
    """Check the groups against an Arrow schema of the whole table. Raises InvalidInput."""
    groups, all_names = rule.groups(schema.names), set(schema.names)
    missing = [name for group in groups for name in group.all_columns if name not in all_names]
    if missing:
        raise InvalidInput("columns of groups are not in the schema", missing=missing)
    required = [n for group in groups for n in group.all_columns if not schema.field(n).nullable]
    if required:
        raise InvalidInput(
            "columns of groups may be null: a row may lack a group", columns=required
        )
    for group in groups:
        for column, aggregate in group.aggregates.items():
            _check_aggregate(column, aggregate, schema.field(column).type)
        for column, value in group.defaults.items():
            default_scalar(value, schema.field(column))
        for column in group.ordering:
            if pa.types.is_nested(schema.field(column).type):
                raise InvalidInput("an ordering column has values that compare", column=column)
    if all(group.delete is DeleteScope.GROUP for group in groups):
        return
    check_ordering_columns(rule, schema.names)
    types = [schema.field(name).type for group in groups for name in group.ordering]
    used = {str(_WIDENED.get(ordering_type, ordering_type)) for ordering_type in types}
    if any(len(group.ordering) > 1 for group in groups):
        raise InvalidInput(
            "delete=row compares one age per group, and the table has several ordering fields",
            ordering=groups[0].ordering,
        )
    if len(used) > 1:
        raise InvalidInput("delete=row needs ordering columns of one type", types=sorted(used))


def check_ordering_columns(rule: GroupRule, columns: Collection[str]) -> None:
    """Check that these columns have an ordering value where whole rows are deleted: without one
    they would be older than every delete, so their values would never be visible. Raises
    InvalidInput.
    """
    default, *declared = rule.groups(columns)
    if default.ordering or all(group.delete is DeleteScope.GROUP for group in declared):
        return
    if default.columns:
        raise InvalidInput(
            "delete=row compares ages, and columns in no group have none: name an ordering field "
            "of the table, or put them in a group",
            columns=default.columns,
        )


def default_scalar(value: Any, column: pa.Field[Any]) -> pa.Scalar[Any]:
    """Convert a JSON value to a column's type; text is used for types that JSON lacks.

    Raises InvalidInput.
    """
    try:
        if isinstance(value, str | float):  # A cast reads text, and refuses to cut a number off.
            default: pa.Scalar[Any] = pa.scalar(value).cast(column.type)
        else:
            default = pa.scalar(value, column.type)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidInput(
            "a default must be a value of its column",
            column=column.name,
            type=column.type,
            given=value,
        ) from error
    return default


def _check_aggregate(column: str, aggregate: ColumnAggregate, column_type: pa.DataType) -> None:
    match aggregate.kind:
        case Aggregate.SUM if not _has_room(column_type):
            raise InvalidInput(
                "a sum must be able to grow: declare the column as a long, a double, or a decimal "
                "of precision 38",
                column=column,
                type=column_type,
            )
        case Aggregate.MAX | Aggregate.MIN if pa.types.is_nested(column_type):
            raise InvalidInput(
                "max and min are of values that compare", column=column, type=column_type
            )
        case Aggregate.COLLECT_TOP_N if not _is_list_of_flat_structs(column_type):
            raise InvalidInput(
                "collect_topn keeps a list of structs of plain fields, the first of which is "
                "compared first",
                column=column,
                type=column_type,
            )


def _has_room(column_type: pa.DataType) -> bool:
    if isinstance(column_type, pa.Decimal128Type):
        return bool(column_type.precision == 38)
    return bool(pa.types.is_int64(column_type) or pa.types.is_float64(column_type))


def _is_list_of_flat_structs(column_type: pa.DataType) -> bool:
    if not isinstance(column_type, pa.ListType) or not isinstance(
        column_type.value_type, pa.StructType
    ):
        return False
    fields = list(column_type.value_type)
    return bool(fields) and not any(pa.types.is_nested(field.type) for field in fields)
