"""Top-N lists, merged: the aggregate `collect_topn`.

If a table has slack, a list has more elements than it shows, in a hidden column: first the
retractions (elements whose score is null) of older states, then its elements with those of the
slack, the greatest first. One of these may be marked as cut: the greatest that ever had to be
removed. No cut could change the elements before the mark; after it something may be missing. The
hidden cell is null if the list is complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.merge.versions import Mask, Positions, combine_chunks, to_take_indices, with_columns
from workers.options.aggregates import ColumnAggregate
from workers.options.column_groups import ColumnGroup

IS_CUT: Final = "is_cut"
ELEMENT: Final = "element"
_GREATEST_FIRST: Final = (("0", "descending"), ("place", "ascending"))


def list_memory(column: str) -> str:
    """Return the name of the hidden column of a list."""
    return f"_ms_list_{column}"


def memory_type(lists: Any) -> pa.DataType:
    """Return the type of the hidden column of a list of this type."""
    fields = [pa.field(IS_CUT, pa.bool_()), pa.field(ELEMENT, lists.value_type)]
    return pa.list_(pa.struct(fields))


@dataclass(frozen=True, slots=True)
class Lists:
    """The lists of one column, each with its hidden elements."""

    values: pa.Array[Any]
    memory: pa.Array[Any] | None = None
    """None without slack."""

    @classmethod
    def of(cls, states: pa.Table, column: str, at: Positions) -> Lists:
        """Take the lists of the rows at these positions."""
        places = [states.schema.get_field_index(name) for name in (column, list_memory(column))]
        return cls(
            *(combine_chunks(states.column(n)).take(to_take_indices(at)) for n in places if n >= 0)
        )

    def columns(self, column: str) -> dict[str, pa.Array[Any]]:
        """Return the columns: the lists and, with slack, the hidden column."""
        beside = {} if self.memory is None else {list_memory(column): self.memory}
        return {column: self.values, **beside}


def sort_own_lists(lists: pa.Array[Any], aggregate: ColumnAggregate) -> Lists:
    """Sort the elements of each list, and omit repeated identities and nulls, as `merge_lists`
    does for several lists.
    """
    return merge_lists(Lists(lists), np.arange(len(lists)), len(lists), aggregate)


def merge_lists(lists: Lists, codes: Positions, count: int, aggregate: ColumnAggregate) -> Lists:
    """Return, per code below `count`, the elements with the greatest first field; null for a code
    without a list. `lists` come in the order in which they became visible.

    The fields of an element after its first are its identity: that is listed once, with the
    greatest first field that it had. With equal first fields, the earlier element comes first. Null
    is the lowest first field, and null elements are omitted. With slack, an element with a null
    first field is a retraction: it removes its identity from older lists.
    """
    elements, parents, is_cut = _elements(lists)
    fields = [str(n) for n in range(elements.type.num_fields)]
    flat = pa.table(
        [
            pa.array(codes[parents]),
            pa.array(np.arange(len(elements))),
            pa.array(is_cut),
            *elements.flatten(),
        ],
        names=["owner", "place", "is_cut", *fields],
    )
    same = ["owner", *(fields[1:] or fields)]
    marks, elements_left = flat.filter(pa.array(is_cut)), flat.filter(pa.array(~is_cut))
    retractions, elements_left = _split_retractions(
        elements_left, same, is_heard=aggregate.is_retractable
    )
    listed = pa.concat_tables([_select_greatest(elements_left, same), marks])
    listed, place = _cut(_sort(listed, [("owner", "ascending"), *_GREATEST_FIRST]), aggregate.kept)
    came: Mask = np.zeros(count, dtype=np.bool_)
    came[codes[_is_valid(lists.values)]] = True
    first = listed.filter(pa.array((place < aggregate.top_n) & ~_flags(listed)))
    values = _as_lists(
        elements.take(combine_chunks(first.column("place"))),
        _owners(first),
        ~came,
        lists.values.type,
    )
    if not aggregate.is_retractable:
        return Lists(values)
    held = pa.concat_tables([retractions, listed])
    held = held.take(to_take_indices(np.argsort(_owners(held), kind="stable")))
    memory = pa.StructArray.from_arrays(
        [
            combine_chunks(held.column("is_cut")),
            elements.take(combine_chunks(held.column("place"))),
        ],
        fields=list(cast("Any", memory_type(lists.values.type)).value_type),
    )
    return Lists(values, _build_memory(values, memory, _owners(held), came))


def own_memories(
    states: pa.Table, groups: Sequence[ColumnGroup]
) -> Mapping[str, tuple[pa.Array[Any], ColumnAggregate]]:
    """Return the hidden column of each list of `states`, by the list's column."""
    all_names = set(states.column_names)
    return {
        column: (combine_chunks(states.column(list_memory(column))), aggregate)
        for group in groups
        for column, aggregate in group.lists.items()
        if list_memory(column) in all_names
    }


def without_retractions(states: pa.Table, groups: Sequence[ColumnGroup]) -> pa.Table:
    """Return the states without their retractions, for use where no older state is left."""
    memories: dict[str, Any] = {}
    for column, (memory, _) in own_memories(states, groups).items():
        if memory.null_count == len(memory):
            continue
        remembers = _is_valid(memory)
        values, owners = _flatten(memory, remembers)
        stays = ~_is_retraction(values)
        lists = combine_chunks(states.column(column))
        memory = _build_memory(lists, values.filter(pa.array(stays)), owners[stays], remembers)
        memories[list_memory(column)] = memory
    return with_columns(states, memories)


def is_incomplete(memory: pa.Array[Any], aggregate: ColumnAggregate) -> Mask:
    """Return which lists show elements after a cut, or lack them: something may be missing
    there.
    """
    values, owners = _flatten(memory, _is_valid(memory))
    place = _count_before(owners, ~_is_retraction(values))
    is_cut = np.asarray(pc.struct_field(values, IS_CUT).to_numpy(zero_copy_only=False), np.bool_)
    inexact: Mask = np.zeros(len(memory), dtype=np.bool_)
    inexact[owners[is_cut & (place < aggregate.top_n)]] = True
    return inexact


def has_retractions(memory: pa.Array[Any]) -> bool:
    """Check if any list removes elements of older ones."""
    values, _ = _flatten(memory, _is_valid(memory))
    return bool(_is_retraction(values).any())


def _elements(lists: Lists) -> tuple[Any, Positions, Mask]:
    """Return the elements of all lists in their order, without nulls; the position of the list of
    each; and which are marked as cut.
    """
    remembers: Mask = np.zeros(len(lists.values), dtype=np.bool_)
    if lists.memory is not None:
        remembers = _is_valid(lists.memory)
    elements, parents = _flatten(lists.values, _is_valid(lists.values) & ~remembers)
    is_cut: Mask = np.zeros(len(elements), dtype=np.bool_)
    if lists.memory is not None and remembers.any():
        held, theirs = _flatten(lists.memory, remembers)
        order = np.argsort(np.concatenate((parents, theirs)), kind="stable")
        marks = pc.struct_field(held, IS_CUT).to_numpy(zero_copy_only=False)
        elements = pa.concat_arrays([elements, pc.struct_field(held, ELEMENT)]).take(
            pa.array(order)
        )
        parents = np.concatenate((parents, theirs))[order]
        is_cut = np.concatenate((is_cut, np.asarray(marks, np.bool_)))[order]
    there = _is_valid(elements)
    return elements.filter(pa.array(there)), parents[there], is_cut[there]


def _split_retractions(
    rows: pa.Table, same: Sequence[str], *, is_heard: bool
) -> tuple[pa.Table, pa.Table]:
    """Return the last retraction of each thing, and the elements that no later one removed."""
    if not is_heard:
        return rows.slice(0, 0), rows
    rows = _sort(rows, [*((name, "ascending") for name in same), ("place", "ascending")])
    is_out = ~np.asarray(rows.column("0").is_valid().to_numpy())
    thing = np.cumsum(_differs(rows.select(list(same))))
    at = np.arange(rows.num_rows)
    last = np.full(rows.num_rows + 1, -1)
    last[thing[is_out]] = at[is_out]  # Numpy lets the last of equal indices win.
    return rows.filter(pa.array(at == last[thing])), rows.filter(pa.array(at > last[thing]))


def _select_greatest(rows: pa.Table, same: Sequence[str]) -> pa.Table:
    rows = _sort(rows, [*((name, "ascending") for name in same), *_GREATEST_FIRST])
    return rows.filter(pa.array(_differs(rows.select(list(same)))))


def _cut(listed: pa.Table, size: int) -> tuple[pa.Table, Positions]:
    """Return the first `size` of each owner, and its first mark: one of its own, or where it is cut
    now. Return also how many unmarked ones come before each.
    """
    owners, is_cut = _owners(listed), _flags(listed)
    place = _count_before(owners, ~is_cut)
    is_cut = is_cut | (place == size)
    stays = np.where(is_cut, _count_before(owners, is_cut) == 0, place < size)
    at = listed.column_names.index("is_cut")
    listed = listed.set_column(at, "is_cut", pa.array(is_cut))
    return listed.filter(pa.array(stays)), place[stays]


def _build_memory(
    lists: pa.Array[Any], held: Any, owners: Positions, remembers: Mask
) -> pa.Array[Any]:
    """Build the hidden column of the lists in the mask; null for a list that shows all elements."""
    sizes = pc.fill_null(cast("Any", pc.list_value_length(lists)), 0).to_numpy()
    says_all: Mask = ~remembers | (np.bincount(owners, minlength=len(lists)) == sizes)
    stays = ~says_all[owners]
    kind = memory_type(lists.type)
    return _as_lists(held.filter(pa.array(stays)), owners[stays], says_all, kind)


def _as_lists(values: Any, owners: Positions, missing: Mask, kind: pa.DataType) -> pa.Array[Any]:
    sizes = np.bincount(owners, minlength=len(missing))
    offsets: Any = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32))
    nulls: Any = pa.array(missing)
    lists: Any = pa.ListArray.from_arrays(offsets, values, type=kind, mask=nulls)
    return cast("pa.Array[Any]", lists)


def _flatten(lists: Any, mask: Mask) -> tuple[Any, Positions]:
    """Return the values of the lists in the mask, and the position of the list of each."""
    at = np.flatnonzero(mask)
    some = lists.take(to_take_indices(at))
    return some.flatten(), at[np.asarray(pc.list_parent_indices(some))]


def _is_retraction(held: Any) -> Mask:
    return ~_is_valid(pc.struct_field(pc.struct_field(held, ELEMENT), [0]))


def _count_before(owners: Positions, mask: Mask) -> Positions:
    """Return how many of the mask come before each, among those of its owner, which are
    adjacent.
    """
    counts: Positions = np.cumsum(mask) - mask
    starts = np.flatnonzero(np.append(True, np.diff(owners) != 0)) if len(owners) else owners
    before: Positions = counts - np.repeat(counts[starts], np.diff(np.append(starts, len(owners))))
    return before


def _is_valid(values: Any) -> Mask:
    return np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _owners(rows: pa.Table) -> Positions:
    return np.asarray(rows.column("owner").to_numpy(), np.int64)


def _flags(rows: pa.Table) -> Mask:
    return np.asarray(rows.column("is_cut").to_numpy(), np.bool_)


def _sort(rows: pa.Table, keys: Any) -> pa.Table:
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def _differs(sorted_rows: pa.Table) -> Mask:
    """Return which rows differ from the row before."""
    changed = np.ones(sorted_rows.num_rows, dtype=np.bool_)
    if sorted_rows.num_rows < 2:
        return changed
    same = np.ones(sorted_rows.num_rows - 1, dtype=np.bool_)
    for column in sorted_rows.columns:
        codes: Any = column.combine_chunks().dictionary_encode("encode").indices
        same &= np.diff(np.asarray(codes)) == 0
    changed[1:] = ~same
    return changed
