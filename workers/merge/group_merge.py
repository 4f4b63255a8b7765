"""The merge of rows with column groups: each group by its own ordering, for all keys together.

Input and result are states (`group_state`), in the order in which they became visible. Per key and
group the version with the greatest (ordering value, visibility) replaces the group as a whole.
Columns with an ordering of their own, aggregates and deletes are folded separately. The merge is
associative, and except for versions of one ordering value it is commutative: batches, log files,
compactions and replays may cut and order the versions of a key in any way (requirements 5.2 and
5.3, MS1 to MS8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import RECORD_KEY
from workers.merge.group_state import (
    ERASED,
    GONE,
    ROW_GONE,
    SET,
    bits,
    column_version,
    group_delete,
    has_bit,
    has_column_ages,
    has_column_turns,
    is_hidden,
    to_states,
)
from workers.merge.key_deletes import find_tombstones
from workers.merge.merge_facts import MergeFacts
from workers.merge.sums import compute_sums, list_sum_columns
from workers.merge.top_n_lists import Lists, merge_lists
from workers.merge.versions import (
    ABSENT,
    DELETE_NOW,
    DELETED,
    ROW,
    Keys,
    Mask,
    Positions,
    combine_chunks,
    kinds,
    null_negative_indices,
    to_take_indices,
)
from workers.options.aggregates import Aggregate
from workers.options.column_groups import ColumnGroup, GroupRule

Ages: TypeAlias = np.ndarray[tuple[int], np.dtype[Any]]
_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Winners:
    """The winning version of each key among some: its position, or -1, and its ordering value."""

    at: Positions
    age: Ages

    def is_above(self, other: Winners) -> Mask:
        """Return where it is greater than the other's. If one state holds both, that was decided
        before.
        """
        greater = (self.age > other.age) | ((self.age == other.age) & (self.at >= other.at))
        above: Mask = (self.at >= 0) & ((other.at < 0) | greater)
        return above


def find_out_of_order(codes: Positions, ages: Ages) -> Positions:
    """Return the positions of ordering values that are below an earlier one under the same code."""
    order = np.argsort(codes, kind="stable")
    _, ranks = np.unique(ages[order], return_inverse=True)
    heights = codes[order] * (len(ages) + 1) + ranks  # Every code begins above the last.
    return np.sort(order[heights < np.maximum.accumulate(heights)])


def ordering_columns(group: ColumnGroup) -> Iterator[tuple[str, ...]]:
    """Yield the columns with ordering values of this group, as many of each as the ordering has."""
    parts = range(len(group.ordering))
    yield group.ordering
    if has_column_ages(group):
        yield tuple(group_delete(group.name, part) for part in parts)
    for column in group.columns:
        if group.is_versioned(column):
            yield tuple(column_version(column, part) for part in parts)


def rank_ordering_values(versions: pa.Table, ages: Sequence[tuple[str, ...]]) -> list[Ages]:
    """Return numbers that compare as the ordering values do, among all of them."""
    columns = [[combine_chunks(versions.column(name)) for name in names] for names in ages]
    if all(len(parts) == 1 for parts in columns):
        plain = [_to_numbers(parts[0]) for parts in columns]
        if all(numbers is not None for numbers in plain):
            return [numbers for numbers in plain if numbers is not None]
    rows = versions.num_rows
    combined = np.zeros(rows * len(ages), np.int64)
    for part in range(len(ages[0])):
        stacked = pa.chunked_array([parts[part] for parts in columns])
        rank: Any = pc.rank(
            stacked,
            sort_keys=[("", "ascending", "at_start")],  # type: ignore[arg-type]  # stubs lag
            tiebreaker="dense",
        )
        own = rank.to_numpy().astype(np.int64)
        combined = combined * (int(own.max(initial=0)) + 1) + own
        _, combined = np.unique(combined, return_inverse=True)
    return [combined[n * rows : (n + 1) * rows] for n in range(len(ages))]


def _to_numbers(column: pa.Array[Any]) -> Ages | None:
    """Return numbers, dates and times as numpy has them, null lowest; None for other types."""
    kind: Any = column.type
    values: Any = column
    if pa.types.is_temporal(kind):
        values = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif not (pa.types.is_signed_integer(kind) or pa.types.is_floating(kind)):
        return None
    is_float = pa.types.is_floating(kind)
    lowest: Any = -np.inf if is_float else np.iinfo(np.int64).min
    wide = values.cast(pa.float64() if is_float else pa.int64())
    return np.asarray(pc.fill_null(wide, lowest).to_numpy(zero_copy_only=False))


def lowest(ages: Ages) -> Any:
    """Return the least number of the type of the ordering values."""
    return -np.inf if ages.dtype.kind == "f" else np.iinfo(ages.dtype).min


def highest(ages: Ages) -> Any:
    """Return the greatest number of the type of the ordering values."""
    return np.inf if ages.dtype.kind == "f" else np.iinfo(ages.dtype).max


def merge_groups(
    versions: pa.Table, groups: Sequence[ColumnGroup], facts: MergeFacts | None = None
) -> pa.Table:
    """Return one state per key, in the order of first appearance. Keys of which nothing is left are
    omitted, deleted ones are states with the delete.

    `versions` may have `DELETED`, where DELETE_NOW and MOVED_AWAY count, and columns of `ABSENT`,
    which the result has too. No state records what was deleted before these: with a delete by key
    among them, `versions` must contain all versions of its key.
    """
    versions = apply_key_deletes(versions, groups)
    keys = Keys.of(versions)
    if keys.are_unique:
        return versions
    merge = GroupMerge(versions, keys.codes, len(keys.distinct), groups, facts=facts)
    return _assemble(versions, merge.decide())


def states_from_batch(rows: pa.Table, rule: GroupRule) -> pa.Table:
    """Return the states of a batch, one per key. `rows` are as a writer gave them, with their
    keys.
    """
    groups = rule.groups(rows.column_names)
    return merge_groups(to_states(rows, groups, rows.column_names), groups)


def merge_states(versions: pa.Table, rule: GroupRule, facts: MergeFacts | None = None) -> pa.Table:
    """Merge these versions of their keys, without older ones."""
    merged = merge_groups(versions, rule.groups(versions.column_names), facts)
    absent = [name for name in merged.column_names if name.startswith(ABSENT)]
    return merged.drop_columns(absent) if absent else merged


def apply_key_deletes(versions: pa.Table, groups: Sequence[ColumnGroup]) -> pa.Table:
    """Return what deletes by key leave of `versions`, and what came after them, without
    `DELETED`.
    """
    if DELETED not in versions.column_names:
        return versions
    # What is erased is not summed: it may be beyond what a column holds.
    all_names = set(versions.column_names)
    dropped = [DELETED, *(name for name in list_sum_columns(groups) if name in all_names)]
    # Each round takes the first delete of every key, so there are as many as one key has.
    while len(erasing := np.flatnonzero((version_kinds := kinds(versions)) != ROW)):
        codes, at = Keys.of(versions).codes, np.arange(versions.num_rows)
        first = np.full(versions.num_rows, _NOBODY)
        first[codes[erasing[::-1]]] = erasing[::-1]  # Numpy lets the last of equal indices win.
        is_kept = (at < first[codes]) & (version_kinds[first[codes]] == DELETE_NOW)
        erased = versions.drop_columns(dropped).take(np.flatnonzero(is_kept))
        left = find_tombstones(merge_groups(erased, groups), groups)
        later = versions.take(np.flatnonzero(at > first[codes]))
        versions = pa.concat_tables([left, later], promote_options="default")
        versions = versions.select(later.column_names)
    return versions.drop_columns([DELETED])


@dataclass(frozen=True, slots=True)
class MergeDecision:
    """The source of the cells of each key: positions of versions, -1 for null."""

    cells: Mapping[str, Positions]
    computed: Mapping[str, Any]
    """Columns that no version holds as they are."""
    others: Positions
    """For all other columns, key and meta columns among them: the latest version that counts."""


class GroupMerge:
    """The merge of versions whose keys have `codes`, from 0 to below `count`.

    It reads only the columns of `deciding_names`, and the record key if `facts` are counted. If
    `versions` has no other columns, `names` are all columns that exist.
    """

    def __init__(
        self,
        versions: pa.Table,
        codes: Positions,
        count: int,
        groups: Sequence[ColumnGroup],
        *,
        names: Collection[str] | None = None,
        facts: MergeFacts | None = None,
    ) -> None:
        self._versions = versions
        self._codes = codes
        self._count = count
        names = set(versions.column_names if names is None else names)
        self._groups = (
            tuple(  # Bits keep their places: no bit is set for a group that was not written.
                (number, group)
                for number, group in enumerate(groups)
                if set(group.ordering) <= names
            )
        )
        self._facts = facts
        self._set = bits(versions, SET)
        self._gone = bits(versions, GONE)
        self._erased = bits(versions, ERASED) if ERASED in names else np.zeros_like(self._gone)
        self._names = names
        self._scale = self._scales()
        self._cells: dict[str, Positions] = {}
        self._made: dict[str, Any] = {}

    def decide(self) -> MergeDecision:
        """Merge, once. Raises SumOverflow."""
        is_set = np.zeros(self._count, np.int64)
        deleted_bits = np.zeros(self._count, np.int64)
        erased = np.zeros(self._count, np.int64)
        np.bitwise_or.at(erased, self._codes, self._erased)
        latest = np.full(self._count, _NOBODY)
        row_delete = self._row_delete()
        for number, group in self._groups:
            written = has_bit(self._set, number)
            winner = self._greatest(self._ages(group.ordering if group.is_ordered else ()), written)
            self._count_facts(group, written, winner)
            stands = winner.is_above(row_delete)
            deleted = stands & has_bit(self._gone, number)[np.where(stands, winner.at, 0)]
            is_set |= stands.astype(np.int64) << number
            deleted_bits |= deleted.astype(np.int64) << number
            at = np.where(stands, winner.at, _NOBODY)
            latest = np.maximum(latest, at)
            for name in group.ordering:
                self._take(name, at)
            latest_by_column = self._fold_columns(group, number, written, at, row_delete)
            latest = np.maximum(latest, latest_by_column)
        self._made[SET] = pa.array(is_set)
        self._made[GONE] = pa.array(deleted_bits)
        if ERASED in self._names:
            self._made[ERASED] = pa.array(erased)
        self._take(ROW_GONE, row_delete.at)
        latest = np.maximum(latest, row_delete.at)
        last = np.zeros(self._count, np.int64)
        last[self._codes] = np.arange(len(self._codes))
        return MergeDecision(self._cells, self._made, np.where(latest >= 0, latest, last))

    def _fold_columns(
        self,
        group: ColumnGroup,
        number: int,
        written: Mask,
        at: Positions,
        row_delete: Winners,
    ) -> Positions:
        """Return the latest version, by position, of the columns with an ordering of their own."""
        latest = np.full(self._count, _NOBODY)
        delete = self._group_delete(group, number)
        for column in group.columns:
            if column not in self._names:
                continue
            aggregate = group.aggregates.get(column)
            if aggregate is not None and aggregate.kind in _FOLDS:
                self._made[column] = self._aggregate(column, written, aggregate.kind)
                latest = np.maximum(latest, self._find_last_written(column, written))
            elif aggregate is not None and aggregate.kind is Aggregate.COLLECT_TOP_N:
                positions = np.flatnonzero(written)
                lists = Lists.of(self._versions, column, positions)
                merged = merge_lists(lists, self._codes[positions], self._count, aggregate)
                self._made |= merged.columns(column)
                latest = np.maximum(latest, self._find_last_written(column, written))
            elif group.is_versioned(column):
                is_first = aggregate is not None and aggregate.kind is Aggregate.FIRST
                own_winner = self._column_winner(group, column, written, is_first=is_first)
                stands = own_winner.is_above(delete) & own_winner.is_above(row_delete)
                own = np.where(stands, own_winner.at, _NOBODY)
                latest = np.maximum(latest, own)
                self._take(column, own)
                if group.is_ordered:
                    for part in range(len(group.ordering)):
                        self._take(column_version(column, part), own)
                elif ABSENT + column in self._names:
                    is_silent = (own < 0) & (delete.at < 0)
                    self._made[ABSENT + column] = pa.array(is_silent)
            else:
                self._take(column, at)
        if has_column_ages(group):
            stands = delete.is_above(row_delete)
            deletes = np.where(stands, delete.at, _NOBODY)
            for part in range(len(group.ordering)):
                self._take(group_delete(group.name, part), deletes)
        return latest

    def _take(self, name: str, at: Positions) -> None:
        """Take a column's cells from these versions."""
        if name in self._names:
            self._cells[name] = at

    def _row_delete(self) -> Winners:
        if ROW_GONE not in self._names:
            return self._nothing()
        is_valid = np.asarray(combine_chunks(self._versions.column(ROW_GONE)).is_valid())
        return self._greatest(self._ages((ROW_GONE,)), is_valid)

    def _group_delete(self, group: ColumnGroup, number: int) -> Winners:
        """Return the greatest delete of a group whose columns have ordering values, or follow
        commit order.
        """
        if has_column_ages(group):
            names = [group_delete(group.name, n) for n in range(len(group.ordering))]
            is_valid = self._is_any_valid(names)
            return self._greatest(self._ages(tuple(names)), is_valid)
        if has_column_turns(group):
            return self._greatest(self._ages(()), has_bit(self._erased, number))
        return self._nothing()

    def _column_winner(
        self, group: ColumnGroup, column: str, written: Mask, *, is_first: bool
    ) -> Winners:
        if group.is_ordered:
            names = [column_version(column, n) for n in range(len(group.ordering))]
            ages = self._ages(tuple(names))
            says = self._is_any_valid(names)
        else:
            ages = self._ages(())
            says = written & self._is_written(column)
            if group.is_null_ignored(column):
                says = says & np.asarray(combine_chunks(self._versions.column(column)).is_valid())
        return self._smallest(ages, says) if is_first else self._greatest(ages, says)

    def _is_written(self, column: str) -> Mask:
        if ABSENT + column not in self._names:
            return np.ones(len(self._codes), dtype=np.bool_)
        absent: Any = self._versions.column(ABSENT + column)
        return ~np.asarray(pc.fill_null(absent, False).to_numpy())

    def _is_any_valid(self, names: Sequence[str]) -> Mask:
        mask = np.zeros(len(self._codes), dtype=np.bool_)
        for name in names:
            mask |= np.asarray(combine_chunks(self._versions.column(name)).is_valid())
        return mask

    def _aggregate(self, column: str, written: Mask, kind: Aggregate) -> pa.Array[Any]:
        values = combine_chunks(self._versions.column(column))
        positions = np.flatnonzero(written)
        if kind is Aggregate.SUM:
            return compute_sums(self._versions, self._codes, self._count, column, positions)
        rows = pa.table(
            {
                "key": to_take_indices(self._codes[positions]),
                "value": values.take(to_take_indices(positions)),
            }
        )
        fold: Any = _FOLDS[kind]
        folds = rows.group_by("key", use_threads=False).aggregate([("value", fold)])
        at = np.full(self._count, _NOBODY)
        at[folds.column("key").to_numpy()] = np.arange(folds.num_rows)
        folded = combine_chunks(folds.column(f"value_{fold}")).take(
            to_take_indices(np.maximum(at, 0), at < 0)
        )
        return folded.cast(values.type)

    def _find_last_written(self, column: str, written: Mask) -> Positions:
        """Return the last version, by position, that an aggregate counts."""
        is_valid = written & np.asarray(combine_chunks(self._versions.column(column)).is_valid())
        return self._greatest(self._ages(()), is_valid).at

    def _ages(self, names: Sequence[str]) -> Ages:
        """Return, for each version, a number that compares as these columns do, left to right, null
        lowest.

        All columns of one group's ordering, and those with such ordering values, are on one scale.
        """
        if not names:
            return np.zeros(len(self._codes), np.int64)
        if (ages := self._scale.get(tuple(names))) is None:
            raise AssertionError(names)
        return ages

    def _scales(self) -> dict[tuple[str, ...], Ages]:
        together: list[list[tuple[str, ...]]] = []
        for _, group in self._groups:
            if group.is_ordered:
                together.append(
                    [names for names in ordering_columns(group) if set(names) <= self._names]
                )
        if ROW_GONE in self._names:  # Then all groups have one ordering column, of one type.
            together = [[(ROW_GONE,), *(names for some in together for names in some)]]
        return {
            names: ages
            for some in together
            if some
            for names, ages in zip(some, rank_ordering_values(self._versions, some), strict=True)
        }

    def _greatest(self, ages: Ages, mask: Mask) -> Winners:
        best = np.full(self._count, lowest(ages), dtype=ages.dtype)
        positions = np.flatnonzero(mask)
        codes, mine = self._codes[positions], ages[positions]
        np.maximum.at(best, codes, mine)
        hits = positions[mine == best[codes]]
        at = np.full(self._count, _NOBODY)
        at[self._codes[hits]] = hits  # Numpy lets the last of equal indices win.
        return Winners(at, best)

    def _smallest(self, ages: Ages, mask: Mask) -> Winners:
        """Return the first of those with the smallest ordering value."""
        best = np.full(self._count, highest(ages), dtype=ages.dtype)
        positions = np.flatnonzero(mask)
        codes, mine = self._codes[positions], ages[positions]
        np.minimum.at(best, codes, mine)
        hits = positions[mine == best[codes]][::-1]
        at = np.full(self._count, _NOBODY)
        at[self._codes[hits]] = hits
        return Winners(at, best)

    def _nothing(self) -> Winners:
        return Winners(np.full(self._count, _NOBODY), np.zeros(self._count, np.int64))

    def _count_facts(self, group: ColumnGroup, written: Mask, winner: Winners) -> None:
        if self._facts is None:
            return
        if not group.is_ordered:
            return
        positions = np.flatnonzero(written)
        codes = self._codes[positions]
        ages = self._ages(group.ordering)[positions]
        late = positions[find_out_of_order(codes, ages)]
        tied = (ages == winner.age[codes]) & (positions < winner.at[codes])
        facts, name = self._facts, group.name
        facts.late[name] = facts.late.get(name, 0) + len(late)
        facts.tied[name] = facts.tied.get(name, 0) + int(np.count_nonzero(tied))
        if len(late):
            key = self._versions.column(RECORD_KEY)[int(late[-1])].as_py()
            facts.late_keys[name] = str(key)


def _assemble(versions: pa.Table, decided: MergeDecision) -> pa.Table:
    """Build one row per key from the cells of its versions."""
    columns = [
        decided.computed[name]
        if name in decided.computed
        else combine_chunks(versions.column(name)).take(
            null_negative_indices(decided.cells.get(name, decided.others))
        )
        for name in versions.column_names
    ]
    return pa.table(columns, schema=versions.schema)


def deciding_names(names: Iterable[str], groups: Sequence[ColumnGroup]) -> set[str]:
    """Return those of `names` whose values a merge reads, not only moves."""
    deciding = {name for group in groups for name in group.ordering}
    for group in groups:
        keeps = not group.is_ordered
        computed = {name for name, rule in group.aggregates.items() if rule.kind in _COMPUTED}
        deciding.update(
            name
            for name in group.columns
            if name in computed or (keeps and group.is_null_ignored(name))
        )
    return {
        name for name in names if name in deciding or is_hidden(name) or name.startswith(ABSENT)
    }


_FOLDS: dict[Aggregate, str] = {Aggregate.SUM: "sum", Aggregate.MAX: "max", Aggregate.MIN: "min"}
_COMPUTED = frozenset((*_FOLDS, Aggregate.COLLECT_TOP_N))
