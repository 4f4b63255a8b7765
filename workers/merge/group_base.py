"""Later states merged into the rows of a base file in place.

The rows keep their order, and a column's cells move only where another version wins. Columns
without a change in the logs are passed on as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import RECORD_KEY
from workers.merge.group_merge import GroupMerge, MergeDecision, deciding_names, merge_states
from workers.merge.merge_facts import MergeFacts
from workers.merge.sums import list_sum_columns
from workers.merge.versions import (
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
from workers.options.column_groups import ColumnGroup, GroupRule

_NOWHERE = -1


def merge_states_into(
    base: pa.Table, newer: pa.Table, rule: GroupRule, facts: MergeFacts | None = None
) -> pa.Table:
    """Merge later states into `base` (one state per key); new keys come last. Dead keys stay, as
    states.
    """
    return pa.concat_tables(merge_states_into_parts([base], newer, rule, facts))


def merge_states_into_parts(
    bases: Iterable[pa.Table],
    newer: pa.Table,
    rule: GroupRule,
    facts: MergeFacts | None = None,
) -> Iterator[pa.Table]:
    """Merge as `merge_states_into` into all of `bases`, at least one, which share no key."""
    keys = Keys.of(newer)
    is_matched = np.zeros(len(keys.distinct), dtype=np.bool_)
    erases = bool((kinds(newer) != ROW).any())
    later = _LaterStates(newer, rule, facts)
    names: list[str] = []
    for base in bases:
        names = base.column_names
        if base.num_rows == 0:
            yield base
            continue
        key_numbers: Any = pc.index_in(base.column(RECORD_KEY), value_set=keys.distinct)
        rows = np.flatnonzero(key_numbers.is_valid().to_numpy())
        rows_of_keys = np.full(len(keys.distinct), _NOWHERE)
        rows_of_keys[key_numbers.drop_null().to_numpy()] = rows
        is_matched |= rows_of_keys >= 0
        if not len(rows):
            yield base
        elif erases:
            here = pa.array((rows_of_keys >= 0)[keys.codes])
            yield _merge_with_deletes(base, rows, newer.filter(here), rule, facts)
        else:
            yield later.merge_into(base, rows, rows_of_keys[keys.codes])
    left = newer.filter(pa.array(~is_matched[keys.codes]))
    yield merge_states(left, rule, facts).select(names)


def _merge_with_deletes(
    base: pa.Table,
    rows: Positions,
    newer: pa.Table,
    rule: GroupRule,
    facts: MergeFacts | None,
) -> pa.Table:
    """Return the rows without a version in `newer`, then those with one: a delete may leave nothing
    of a key.
    """
    touched = np.zeros(base.num_rows, dtype=np.bool_)
    touched[rows] = True
    versions = pa.concat_tables([base.take(rows), newer], promote_options="default")
    merged = merge_states(versions, rule, facts).select(base.column_names)
    return pa.concat_tables([base.filter(pa.array(~touched)), merged])


@dataclass(slots=True)
class _LaterStates:
    newer: pa.Table
    rule: GroupRule
    facts: MergeFacts | None
    _columns: dict[str, pa.Array[Any]] = field(default_factory=dict, init=False)
    _names: frozenset[str] = field(init=False)
    """The columns of `newer`."""

    def __post_init__(self) -> None:
        self._names = frozenset(self.newer.column_names)

    def merge_into(self, base: pa.Table, rows: Positions, at: Positions) -> pa.Table:
        """Merge into the base. `rows` are those of `base` with some later version; `at` has for
        each later version its row of `base`, or -1.
        """
        groups = self.rule.groups({*base.column_names, *self._names})
        mine = np.flatnonzero(at >= 0)
        numbers = np.empty(base.num_rows, np.int64)
        numbers[rows] = np.arange(len(rows))
        codes = np.concatenate((np.arange(len(rows)), numbers[at[mine]]))
        versions = self._versions(base, rows, mine, groups)
        names = {*base.column_names, *self._names} - {DELETED}
        merge = GroupMerge(versions, codes, len(rows), groups, names=names, facts=self.facts)
        decided = merge.decide()
        moves = _Moves(base.num_rows, rows, mine)
        columns = [self._column(base, name, decided, moves) for name in base.column_names]
        return pa.table(columns, schema=base.schema)

    def _versions(
        self, base: pa.Table, rows: Positions, mine: Positions, groups: Sequence[ColumnGroup]
    ) -> pa.Table:
        """Return the columns that decide, of the affected rows and of their later versions."""
        names_keys = self.facts is not None or bool(list_sum_columns(groups))
        looked_at = (RECORD_KEY,) if names_keys else ()
        decide = deciding_names((*base.column_names, *self._names), groups)
        decide.update(looked_at)
        ours, theirs = (
            [name for name in names if name in decide]
            for names in (base.column_names, self.newer.column_names)
        )
        return pa.concat_tables(
            [base.select(ours).take(rows), self._whole(theirs).take(mine)],
            promote_options="default",
        )

    def _whole(self, names: Sequence[str]) -> pa.Table:
        fields = [self.newer.schema.field(name) for name in names]
        return pa.table([self._later(name) for name in names], schema=pa.schema(fields))

    def _later(self, name: str) -> pa.Array[Any]:
        """Return a column in one piece, which is built once for all parts of the base."""
        if name not in self._columns:
            self._columns[name] = combine_chunks(self.newer.column(name))
        return self._columns[name]

    def _column(self, base: pa.Table, name: str, decided: MergeDecision, moves: _Moves) -> Any:
        column = base.column(name)
        if name in decided.computed:
            return _replace_cells(column, moves.touched, decided.computed[name])
        move = moves.find_move(decided.cells.get(name, decided.others))
        # A key is the same in every version of it.
        if name == RECORD_KEY or not len(move.source) or self._is_empty(column, name):
            return column
        if name in self._names:
            cells = self._later(name).take(move.source)
        else:
            cells = pa.nulls(len(move.source), column.type)
        return _replace_cells(column, move.target, cells)

    def _is_empty(self, column: pa.ChunkedArray[Any], name: str) -> bool:
        """Check if no version has a value, as with meta columns that were not requested."""
        is_null = column.null_count == len(column)
        if not is_null or name not in self._names:
            return is_null
        return self.newer.column(name).null_count == self.newer.num_rows


@dataclass(frozen=True, slots=True)
class _Target:
    """Rows of a base, as ascending positions and as one bit for each of its rows."""

    at: Positions
    mask: pa.Array[Any]

    @classmethod
    def of(cls, at: Positions, count: int) -> _Target:
        mask: Mask = np.zeros(count, dtype=np.bool_)
        mask[at] = True
        return cls(at, pa.array(mask))


@dataclass(frozen=True, slots=True)
class _Move:
    target: _Target
    source: pa.Array[Any]
    """The positions of the cells among the later versions; null for a cell that becomes null."""


class _Moves:
    """The moves of a base's cells, computed once for all columns that move alike."""

    def __init__(self, count: int, rows: Positions, mine: Positions) -> None:
        self._count = count
        self._rows = rows
        self._mine = mine
        self._made: dict[int, tuple[Positions, _Move]] = {}
        self.touched = _Target.of(rows, count)

    def find_move(self, at: Positions) -> _Move:
        """Return the move. `at` has for each affected row its version among all, these rows
        first.
        """
        if id(at) not in self._made:  # Held with its answer, so no other gets the same id.
            moves = np.flatnonzero(at != np.arange(len(self._rows)))
            source = at[moves]
            places = self._mine[np.maximum(source - len(self._rows), 0)]
            cells = null_negative_indices(np.where(source < 0, _NOWHERE, places))
            target = _Target.of(self._rows[moves], self._count)
            self._made[id(at)] = (at, _Move(target, cells))
        return self._made[id(at)][1]


def _replace_cells(column: pa.ChunkedArray[Any], target: _Target, cells: pa.Array[Any]) -> Any:
    """Return the column with `cells` at these rows."""
    former: Any = combine_chunks(column)
    if pa.types.is_nested(former.type):  # Arrow puts no lists and structs in place.
        at = np.arange(len(former))
        at[target.at] = len(former) + np.arange(len(cells))
        return pa.concat_arrays([former, cells]).take(to_take_indices(at))
    is_number = pa.types.is_integer(former.type) or pa.types.is_floating(former.type)
    if is_number and not former.null_count and not cells.null_count:
        numbers = former.to_numpy().copy()  # Half the time of Arrow's way, which reads each row.
        numbers[target.at] = cells.to_numpy()
        return pa.array(numbers, former.type)
    return pc.replace_with_mask(former, target.mask, cells)
