"""Which rows a statement changes: a value that a row has already is none, and neither is a version
that is older than the row's own.

What changes nothing is not written, so a statement answers how many rows it changed.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workers.options.column_groups import ColumnGroup
from workers.options.group_settings import Granularity
from workers.options.table_options import TableConfig
from workers.read.comparison import differs
from workers.schema.bad_rows import reject_rows


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """Set columns that are kept or replaced together."""

    columns: tuple[str, ...]
    ordering: tuple[str, ...] = ()
    """Those of them that order the versions; empty where the later commit wins."""
    ages: tuple[str, ...] = ()
    """Ordering columns of the row's version, of which the statement sets one or more."""
    needs_age: bool = False
    """Whether a version without any ordering value says nothing, as in a column group."""
    is_ordered: bool = False
    """Whether a null is an ordering value below all others."""

    def check_ages(self, before: pa.Table, after: pa.Table, is_old: Any) -> None:
        """Check that no ordering value is set to null where that would leave the row as it is:
        the statement would answer that it changed nothing. Raises BadRows.
        """
        if not self.ages:
            return
        lost: list[Any] = [
            pc.and_(after.column(one).is_null(), before.column(one).is_valid())
            for one in self.ages
            if one in before.column_names and self.is_ordered
        ]
        if self.needs_age:
            nulls: list[Any] = [after.column(one).is_null() for one in self.ages]
            lost.append(pc.and_(functools.reduce(pc.and_, nulls), self._different(before, after)))
        if not lost:
            return
        is_lost: Any = functools.reduce(pc.or_, lost)
        reject_rows(
            pc.and_(is_old, is_lost.combine_chunks()),
            "an ordering column is not set to null: such a version is older than any other, or "
            "none, so nothing would change; set a value, or leave the row out",
            ", ".join(self.ages),
        )

    def _different(self, before: pa.Table, after: pa.Table) -> Any:
        columns = [differs(before.column(one), after.column(one)) for one in self.columns]
        return functools.reduce(pc.or_, columns)

    def changed(self, before: pa.Table, after: pa.Table) -> Any:
        """Per row whether it holds something else afterwards. Both hold `columns`."""
        changed = self._different(before, after)
        if self.ordering:
            changed = pc.and_not(changed, _is_older(before, after, self.ordering))
        return changed


def compared_columns(
    config: TableConfig, schema: pa.Schema, sets: Collection[str]
) -> tuple[ComparedColumns, ...]:
    """The columns that a statement sets, compared to find rows that change; none where
    versions are folded by a merger: there an equal value may change a row.
    """
    if config.merger is not None or not sets:
        return ()
    if config.groups is None:
        field = config.ordering_field
        ordering = (field,) if field is not None and field in sets else ()
        return (ComparedColumns(tuple(sets), ordering, ordering, is_ordered=True),)
    compared = (_of_group(group, sets) for group in config.groups.groups(schema.names))
    return tuple(part for part in compared if part.columns)


def _of_group(group: ColumnGroup, sets: Collection[str]) -> ComparedColumns:
    columns = tuple(name for name in group.all_columns if name in sets)
    # With an age per column a version that is older than the group's may be newer than a column's.
    has_one_age = group.is_ordered and group.granularity is Granularity.GROUP
    is_age_set = set(group.ordering) <= set(sets)
    return ComparedColumns(
        columns,
        group.ordering if has_one_age and is_age_set else (),
        group.ordering if set(group.ordering).intersection(sets) else (),
        needs_age=True,
        is_ordered=group.is_ordered,
    )


def _is_older(before: pa.Table, after: pa.Table, ordering: Collection[str]) -> Any:
    """Compared from left to right, null below everything."""
    is_older: Any = pa.chunked_array([pa.repeat(pa.scalar(False), after.num_rows)])
    is_equal: Any = pa.chunked_array([pa.repeat(pa.scalar(True), after.num_rows)])
    for name in ordering:
        old: Any = before.column(name)
        new: Any = after.column(name)
        is_less: Any = pc.if_else(
            pc.is_null(new), pc.is_valid(old), pc.fill_null(pc.less(new, old), False)
        )
        is_older = pc.or_(is_older, pc.and_(is_equal, is_less))
        is_equal = pc.and_not(is_equal, differs(old, new))
    return is_older
