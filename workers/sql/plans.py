"""What a statement writes: which columns, made by which query, and what is refused of it.

Columns that are not named are left alone as far as the table allows it. A group that is replaced as
a whole (`granularity=group`) is filled up from the row, and so is a whole row in a table that takes
no narrow ones; a changed group keeps its age unless the statement sets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from workers.errors import InvalidInput
from workers.options.aggregates import Aggregate
from workers.options.column_groups import ColumnGroup
from workers.options.group_settings import Granularity, NullMode, OnLate
from workers.options.table_options import TableConfig
from workers.options.write_options import WriteOptions
from workers.options.writer_modes import ConcurrencyMode
from workers.read.log_versions import IS_DELETED
from workers.sql.changes import compared_columns
from workers.sql.expressions import (
    SOURCE,
    column,
    current,
    is_same,
    merged_value,
    numbered,
    on_clause,
    removed_rows,
    table_of,
    taken_rows,
)
from workers.sql.plan import Plan
from workers.sql.required_columns import leaves_out_required, owed_beside_new
from workers.sql.statements import DIALECT, Change, Delete, Insert, Merge, Removed, Update
from workers.write.columns import check_written_groups
from workers.write.deletes import check_ordered_deletes

_NONE: Mapping[str, exp.Expr] = {}


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans statements that change one table. Reads nothing."""

    config: TableConfig
    schema: pa.Schema
    """Of the target."""
    options: WriteOptions
    required: tuple[str, ...] = ()
    """Columns that no row may lack."""

    @property
    def located(self) -> tuple[str, ...]:
        """Key and partition columns: where a row is."""
        return tuple(dict.fromkeys((*self.config.record_key, *self.config.partition_by)))

    @property
    def is_non_blocking(self) -> bool:
        """Writers do not look at what others change meanwhile."""
        return self.options.mode is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL

    def plan(self, change: Change, source_columns: Sequence[str] = ()) -> Plan:
        """`source_columns` are those of a MERGE's source. Raises InvalidInput."""
        match change:
            case Insert():
                return self._insert(change)
            case Update():
                return self._update(change)
            case Merge():
                return self._merge(change, source_columns)
            case Delete():
                return self._delete(change)

    def _insert(self, change: Insert) -> Plan:
        columns = change.columns or tuple(self.schema.names)
        if change.is_by_name:
            if change.rows.find(exp.Star) is not None:
                raise InvalidInput("BY NAME needs the names: list the columns instead of *")
            columns = tuple(change.rows.named_selects)
        self._check_known(columns)
        self._check_brought(columns)
        return Plan(columns, change.rows)

    def _update(self, change: Update) -> Plan:
        self._check_set(change.sets)
        filled = self._filled(change.sets)
        columns = (*self.located, *change.sets, *filled)
        compared = compared_columns(self.config, self.schema, change.sets)
        values = [change.sets.get(name) or column(name, change.target) for name in columns]
        values += current(compared, change.target)
        query = exp.select(*numbered(values)).from_(table_of(change.target))
        if change.where is not None:
            query = query.where(change.where)
        return Plan(
            columns,
            query,
            where=change.where,
            ages=self._kept_ages(change.sets),
            outspoken=self._outspoken(change.sets),
            compared=compared,
            takes_along=self._takes_along(filled),
            needs_rows=leaves_out_required(self.config, self.required, columns),
        )

    def _delete(self, change: Delete) -> Plan:
        is_ordered = self.is_non_blocking and not self._is_by_key(change.where)
        columns = self.located
        if is_ordered:
            check_ordered_deletes(self.config, self.schema)
            columns = tuple(dict.fromkeys((*columns, str(self.config.ordering_field))))
        values = [column(name, change.target) for name in columns]
        query = exp.select(*numbered(values)).from_(table_of(change.target))
        if change.where is not None:
            query = query.where(change.where)
        return Plan(columns, query, operation="delete", where=change.where, is_ordered=is_ordered)

    def _is_by_key(self, where: exp.Expr | None) -> bool:
        """Whether rows go for their key, whatever else they hold."""
        if where is None or where.find(exp.Query) is not None:
            return False
        return {one.name for one in where.find_all(exp.Column)} <= set(self.located)

    def _merge(self, change: Merge, source_columns: Sequence[str]) -> Plan:
        self._check_on(change)
        if change.removed is not None:
            self._check_removed(change)
            if change.matched is None and change.not_matched is None:
                return self._remove(change, change.removed)
        target, source = change.target, change.source_alias
        sets, given = _NONE, _NONE
        if change.matched is not None:
            sets = change.matched.sets or self._same_names(source_columns, source, self.located)
            self._check_set(sets)
        if change.not_matched is not None:
            given = change.not_matched.values or self._same_names(source_columns, source, ())
            self._check_inserted(change, given)
        compared = compared_columns(self.config, self.schema, sets)
        filled = self._filled(sets) if change.matched else ()
        written = (*self.located, *filled, *sets)
        beside = given if change.matched else ()
        owed = owed_beside_new(self.config, self.required, written, beside)
        is_said_again = bool(owed) and not self.config.ordering
        self._check_both(sets, (*filled, *owed) if is_said_again else filled, given, change)
        filled = (*filled, *owed)
        updated = {name: column(name, target) for name in (*self.located, *filled)} | dict(sets)
        columns = tuple(dict.fromkeys((*self.located, *updated, *given)))
        is_there = exp.Not(this=exp.Is(this=column(self.located[0], target), expression=exp.null()))
        is_removed = removed_rows(change, is_there)
        values = [
            merged_value(
                (is_removed, column(name, target)) if is_removed is not None else None,
                (is_there, updated.get(name, exp.null())),
                given.get(name, exp.null()),
            )
            for name in columns
        ]
        is_changed: exp.Expr = is_there
        if is_removed is not None:
            values.append(is_removed)
            is_changed = exp.and_(is_there.copy(), exp.not_(is_removed.copy()))
        query = (
            exp.select(*numbered([*values, is_changed, *current(compared, target)]))
            .from_(exp.alias_(exp.to_table(SOURCE), source, table=True))
            .join(table_of(target), on=on_clause(change), join_type="left")
            .where(taken_rows(change, is_there))
        )
        return Plan(
            columns,
            query,
            source=change.source,
            source_key=tuple(change.on.values()),
            source_alias=source,
            ages=self._kept_ages(sets) if change.matched else (),
            outspoken=self._outspoken(sets),
            marks_matched=True,
            compared=compared,
            marks_deletes=is_removed is not None,
            takes_along=is_said_again or self._takes_along(filled),
            needs_rows=bool(change.matched)
            and leaves_out_required(self.config, self.required, written),
        )

    def _same_names(
        self, source_columns: Sequence[str], source: str, without: Iterable[str]
    ) -> dict[str, exp.Expr]:
        """`SET *` and `INSERT *`: the columns of the source, under their names."""
        self._check_known(source_columns)
        return {
            name: exp.column(name, table=source, quoted=True)
            for name in source_columns
            if name not in set(without)
        }

    def _check_on(self, change: Merge) -> None:
        if not any((change.matched, change.not_matched, change.removed)):
            raise InvalidInput("MERGE needs a WHEN clause")
        self._check_known(change.on)
        if missing := [name for name in self.config.record_key if name not in change.on]:
            raise InvalidInput("ON has to name the whole record key", missing=missing)
        if other := sorted(set(change.on) - set(self.located)):
            raise InvalidInput(
                "ON is about key and partition columns; put other conditions into WHEN ... AND",
                columns=other,
            )

    def _check_removed(self, change: Merge) -> None:
        groups = self.config.groups is not None
        if groups and (change.matched is not None or change.not_matched is not None):
            raise InvalidInput(
                "in a table with column groups a MERGE deletes or writes, in two statements: whole "
                "rows go by their keys, and groups by their ages",
                table=self.config.name,
            )
        if self.is_non_blocking:
            raise InvalidInput(
                "a non-blocking writer does not see what others change meanwhile, and would delete "
                "what is newer than what ON met; use OPTIMISTIC_CONCURRENCY_CONTROL",
                table=self.config.name,
            )
        if IS_DELETED in self.schema.names:
            raise InvalidInput(
                "the table has a delete mark of its own; set it, or delete in another statement",
                column=IS_DELETED,
            )

    def _remove(self, change: Merge, removed: Removed) -> Plan:
        """A MERGE that only deletes: by key, as DELETE does."""
        values = [column(name, change.target) for name in self.located]
        query = (
            exp.select(*numbered(values))
            .from_(exp.alias_(exp.to_table(SOURCE), change.source_alias, table=True))
            .join(table_of(change.target), on=on_clause(change), join_type="inner")
        )
        if removed.condition is not None:
            query = query.where(removed.condition)
        return Plan(
            self.located,
            query,
            operation="delete",
            source=change.source,
            source_key=tuple(change.on.values()),
            source_alias=change.source_alias,
        )

    def _check_inserted(self, change: Merge, given: Mapping[str, exp.Expr]) -> None:
        self._check_known(given)
        if missing := [name for name in self.config.required_columns if name not in given]:
            raise InvalidInput(
                "the batch lacks key, partition or ordering columns", missing=missing
            )
        for name, theirs in change.on.items():
            if name in self.config.record_key and not is_same(given[name], theirs):
                raise InvalidInput(
                    "INSERT has to give a key column what ON compares it with, else the row may "
                    "be there already",
                    column=name,
                    on=theirs.sql(dialect=DIALECT),
                )
        clause = change.not_matched
        condition = clause.condition if clause else None
        for value in filter(None, [*given.values(), condition]):
            if any(one.table == change.target.alias for one in value.find_all(exp.Column)):
                raise InvalidInput(
                    "WHEN NOT MATCHED has no row of the target to look at",
                    given=value.sql(dialect=DIALECT),
                )
        self._check_brought(tuple(given), is_new=True)

    def _check_both(
        self,
        sets: Mapping[str, exp.Expr],
        filled: Sequence[str],
        given: Mapping[str, exp.Expr],
        change: Merge,
    ) -> None:
        """One batch carries both clauses, so what one of them leaves out would be said as null."""
        rule = self.config.groups
        if rule is None or change.matched is None or change.not_matched is None:
            return
        updated = {*sets, *filled}
        for group in rule.groups(self.schema.names):
            ours = updated.intersection(group.columns)
            theirs = set(given).intersection(group.columns)
            is_passed_over = bool(group.ordering) and not (ours and theirs)
            if ours == theirs or is_passed_over or group.null_mode is NullMode.KEEP:
                continue
            raise InvalidInput(
                "both clauses of a MERGE name the same columns of a group, else one of them would "
                "set the others to null; or say it in two statements",
                group=group.name,
                columns=sorted(ours ^ theirs),
            )

    def _check_known(self, names: Iterable[str]) -> None:
        if unknown := [name for name in names if name not in self.schema.names]:
            raise InvalidInput(
                "table has no such column", column=unknown[0], known=self.schema.names
            )

    def _check_brought(self, columns: Sequence[str], *, is_new: bool = False) -> None:
        """Refuse what a batch of these columns would be refused for, before anything begins."""
        if self.config.groups is not None:
            check_written_groups(self.config.groups, columns)
        if self.config.takes_narrow_rows or is_new:
            return
        if missing := [name for name in self.schema.names if name not in columns]:
            raise InvalidInput(
                "the table takes whole rows, so an INSERT names all columns: what is left out "
                "would be erased where the key is there already; use MERGE, or a table with "
                "hoodie.multistream.groups",
                missing=missing,
            )

    def _check_set(self, sets: Mapping[str, exp.Expr]) -> None:
        self._check_known(sets)
        if not sets:
            raise InvalidInput("nothing is set")
        if moved := [name for name in self.located if name in sets]:
            raise InvalidInput(
                "key and partition columns are not set: the row would be another one; insert it "
                "and delete this one",
                columns=moved,
            )
        if self.is_non_blocking and not self.config.takes_narrow_rows:
            raise InvalidInput(
                "a non-blocking writer does not see what others change meanwhile, and would write "
                "whole rows over it; use OPTIMISTIC_CONCURRENCY_CONTROL",
                table=self.config.name,
            )
        for name in self._outspoken(sets):
            if isinstance(sets[name], exp.Null):
                raise InvalidInput(
                    "a null says nothing in this column, so it cannot be set to null", column=name
                )

    def _touched(self, sets: Iterable[str]) -> list[ColumnGroup]:
        rule = self.config.groups
        groups = rule.groups(self.schema.names) if rule is not None else ()
        named = set(sets)
        return [one for one in groups if named.intersection(one.all_columns)]

    def _filled(self, sets: Mapping[str, exp.Expr]) -> tuple[str, ...]:
        """The columns that are written back as the row has them."""
        wanted: list[str] = []
        if self.config.groups is not None:
            for group in self._touched(sets):
                wanted += self._filled_of(group, sets)
        elif self.config.takes_narrow_rows:
            # Apache Hudi does not read a log block that lacks a required column.
            wanted = [*self.config.ordering, *self.required]
        else:
            wanted = self.schema.names
        return tuple(dict.fromkeys(n for n in wanted if n not in sets and n not in self.located))

    def _takes_along(self, filled: Iterable[str]) -> bool:
        """Whether values are written back that say nothing of their own age."""
        return self.config.is_partial_update and not set(filled) <= set(self.config.ordering)

    def _filled_of(self, group: ColumnGroup, sets: Mapping[str, exp.Expr]) -> list[str]:
        is_whole = group.granularity is Granularity.GROUP
        written = [n for n in group.columns if is_whole or n in sets]
        made = [
            name
            for name in written
            if (fold := group.aggregates.get(name)) and fold.kind is not Aggregate.LAST_NON_NULL
        ]
        if made:
            raise InvalidInput(
                "a column that is made of all versions is not set; INSERT one version more",
                group=group.name,
                columns=made,
            )
        left = [name for name in written if name not in sets]
        if left and self.is_non_blocking and group.on_late is OnLate.OVERWRITE:
            raise InvalidInput(
                "the group's later commit wins whatever its age, so a non-blocking writer would "
                "put back what others change meanwhile; set all of its columns",
                group=group.name,
                missing=left,
            )
        return [*group.ordering, *written]

    def _kept_ages(self, sets: Mapping[str, exp.Expr]) -> tuple[tuple[str, ...], ...]:
        touched = [one for one in self._touched(sets) if one.ordering]
        return tuple(one.ordering for one in touched if not set(sets).intersection(one.ordering))

    def _outspoken(self, sets: Mapping[str, exp.Expr]) -> tuple[str, ...]:
        if self.config.is_partial_update:
            return tuple(name for name in sets if name not in self.config.ordering)
        return tuple(
            name
            for group in self._touched(sets)
            for name in group.columns
            if name in sets and group.is_null_ignored(name)
        )
