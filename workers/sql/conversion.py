"""What a query answers, as rows of the table: named, of its types, and checked. Picklable.

Values are only put into types that hold them: text is no number, and a fraction is no whole number
unless the statement says so with CAST or ROUND.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.options.table_options import TableConfig
from workers.schema.bad_rows import reject_rows
from workers.sql.changes import ComparedColumns
from workers.write.deletes import check_ages


@dataclass(frozen=True, slots=True)
class Conversion:
    """From a query's answer to the rows of a batch: types, order and what is refused of it."""

    schema: pa.Schema
    """Columns of the table, in the order in which the query answers them."""
    ages: tuple[tuple[str, ...], ...] = ()
    """Ordering columns of the groups that a matched row keeps its age in."""
    outspoken: tuple[str, ...] = ()
    """Set columns in which a null would say nothing."""
    marks_matched: bool = False
    """One column more comes last: whether the row stood in the table."""
    by_age: TableConfig | None = field(default=None, repr=False)
    """The table's settings, for a delete that leaves newer rows alone."""
    compared: tuple[ComparedColumns, ...] = ()
    """Columns whose values in the table the query answers as well, behind everything else."""

    def check(self, given: pa.Schema) -> None:
        """Compare the columns of a query with those that it is to fill. Raises InvalidInput for
        another number of columns, or one of a type that does not fit.
        """
        expected = len(self.schema) + self.marks_matched + len(self._current)
        if len(given) != expected:
            raise InvalidInput(
                "the query does not give as many columns as are named",
                columns=self.schema.names,
                given=len(given),
            )
        for wanted, answered in zip(self.schema, given, strict=False):
            if not is_assignable(answered.type, wanted.type):
                raise InvalidInput(
                    "the column does not take a value of this type; say CAST",
                    column=wanted.name,
                    type=wanted.type,
                    given=answered.type,
                )

    def of(self, rows: pa.Table) -> pa.Table:
        """The batch's rows. Raises InvalidInput for a value that its column cannot hold, BadRows
        naming rows.
        """
        self.check(rows.schema)
        matched: Any = rows.column(len(self.schema)) if self.marks_matched else None
        columns = [_cast(rows.column(at), wanted) for at, wanted in enumerate(self.schema)]
        converted = pa.table(columns, schema=self.schema)
        is_old: Any = pa.repeat(pa.scalar(True), rows.num_rows)
        if matched is not None:
            is_old = pc.fill_null(matched, False).combine_chunks()
        self._check_matched(converted, is_old)
        if self.by_age is not None:
            check_ages(self.by_age, converted)
        return self._changed(rows, converted, is_old)

    @property
    def _current(self) -> tuple[str, ...]:
        return tuple(name for part in self.compared for name in part.columns)

    def _changed(self, rows: pa.Table, after: pa.Table, is_old: Any) -> pa.Table:
        """The rows of `after` without those that would stay as they are."""
        if not self.compared:
            return after
        first = len(self.schema) + self.marks_matched
        fields = [self.schema.field(name) for name in self._current]
        columns = [_cast(rows.column(first + at), one) for at, one in enumerate(fields)]
        before = pa.table(columns, schema=pa.schema(fields))
        for part in self.compared:
            part.check_ages(before, after, is_old)
        changed = [part.changed(before, after) for part in self.compared]
        return after.filter(functools.reduce(pc.or_, changed, pc.invert(is_old)))

    def _check_matched(self, rows: pa.Table, is_old: Any) -> None:
        for names in self.ages:
            missing = [rows.column(name).is_null().combine_chunks() for name in names]
            reject_rows(
                pc.and_(is_old, functools.reduce(pc.and_, missing)),
                "the row has no version of the group, so a change of it has no age; set it too",
                ", ".join(names),
            )
        for name in self.outspoken:
            reject_rows(
                pc.and_(is_old, rows.column(name).is_null().combine_chunks()),
                "a null says nothing in this column, so it cannot be set to null",
                name,
            )


def is_assignable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of type `wanted` takes the type `given` without a CAST; one of its values
    may still not fit.
    """
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
    if types.is_nested(wanted):
        return _is_nested_assignable(given, wanted)
    if _is_number(wanted):
        return _is_number(given) and (_is_whole(given) or _is_wide_enough(given, wanted))
    if types.is_timestamp(wanted):
        return types.is_date(given) or (
            types.is_timestamp(given) and bool(given.tz) == bool(wanted.tz)
        )
    return any(
        all(map(kind, (given, wanted)))
        for kind in (_is_text, _is_bytes, types.is_boolean, types.is_date)
    )


def _is_nested_assignable(given: Any, wanted: Any) -> bool:
    types = pa.types
    if types.is_map(wanted):
        return types.is_map(given) and all(
            (
                is_assignable(given.key_type, wanted.key_type),
                is_assignable(given.item_type, wanted.item_type),
            )
        )
    if types.is_list(wanted):
        is_list = types.is_list(given) or types.is_large_list(given)
        return is_list and is_assignable(given.value_type, wanted.value_type)
    if not types.is_struct(given) or [one.name for one in given] != [one.name for one in wanted]:
        return False
    return all(is_assignable(a.type, b.type) for a, b in zip(given, wanted, strict=True))


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def _is_whole(kind: Any) -> bool:
    """Decimals without a fraction are what sums of whole numbers come as."""
    return pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)


def _is_wide_enough(given: Any, wanted: Any) -> bool:
    """For numbers with a fraction; the cast shows whether a value fits."""
    if pa.types.is_floating(given):
        return pa.types.is_floating(wanted)
    return pa.types.is_floating(wanted) or (
        pa.types.is_decimal(wanted) and wanted.scale >= given.scale
    )


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _cast(column: pa.ChunkedArray[Any], wanted: pa.Field[Any]) -> pa.ChunkedArray[Any]:
    if column.type == wanted.type:
        return column
    if pa.types.is_null(column.type):
        return pa.chunked_array([pa.nulls(len(column), wanted.type)])
    try:
        return column.cast(wanted.type)
    except pa.ArrowException as error:
        raise InvalidInput(
            "a value does not fit its column", column=wanted.name, type=wanted.type, why=error
        ) from error
