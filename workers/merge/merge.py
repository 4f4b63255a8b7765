"""The one merge function, vectorised over Arrow.

Input is every version of some keys, in the order in which they became visible. Per key, versions
are ordered by (ordering value, visibility). A null ordering value is the smallest, and between
equal values the later one wins.

- Whole rows: the greatest version is the row.
- Partial updates: each column takes its greatest version that is not null, so an absent column
  never deletes. Every order of arrival and every split into batches result in the same row: a batch
  keeps versions of different ordering values separate (`precombine`). A row of a base file has one
  ordering value, though: once versions of different values were merged into it, later ones are
  compared only with the greatest. Apache Hudi folds whole rows, a batch or the logs of a slice
  first, with the same result for equal ordering values.
- Column groups: each group by an ordering of its own, which base files contain (`group_merge`).
- A registered merger: folds the versions of a key two at a time, oldest first.

A version may be a delete, by the column `DELETED`. A `DELETE` is a version like any other: smaller
versions are deleted, a greater one begins a new row. A `DELETE_NOW` deletes all that became visible
before it, whatever the ordering values.

A version may also lack a column, by the boolean column `ABSENT` + its name: such a column keeps the
value of older versions, while an explicit null replaces it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.meta_columns import RECORD_KEY
from workers.merge.group_base import merge_states_into, merge_states_into_parts
from workers.merge.group_merge import merge_states, states_from_batch
from workers.merge.merge_facts import MergeFacts
from workers.merge.mergers import Merger
from workers.merge.rule import MergeRule
from workers.merge.versions import (
    ABSENT,
    DELETE_NOW,
    DELETED,
    DELETED_FIELD,
    ROW,
    Keys,
    Mask,
    Positions,
    are_rising,
    combine_chunks,
    kinds,
    without_deletes,
)


def merge(versions: pa.Table, rule: MergeRule) -> pa.Table:
    """Return one row per `_hoodie_record_key`, sorted by the key's first appearance.

    `versions` has the record key column, the ordering column if the rule names one, and any others,
    with or without `DELETED`; rows that became visible later come later. The result has the schema
    of `versions`: a key that ends deleted is a row with the delete.
    """
    if versions.num_rows == 0:
        return versions
    if rule.groups is not None:
        return merge_states(versions, rule.groups)
    if are_rising(versions.column(RECORD_KEY)):
        return versions  # Every key appears once: nothing to decide.
    keys = Keys.of(versions)
    if keys.are_unique:
        return versions
    remaining = _find_remaining(versions, keys, rule.ordering_field)
    if _should_fold(versions, rule):
        return _fold(versions, keys, remaining, rule)
    return versions.take(_find_winners(keys, remaining))


def precombine(versions: pa.Table, rule: MergeRule) -> pa.Table:
    """Precombine a batch without the stored rows: `merge` as far as they cannot matter.

    Whole rows: one per key, after the last `DELETE_NOW` of the key if rows compete. Rows folded
    from several versions: one per key and ordering value, because a stored row may be between two
    of them (bug H3); for a key that the batch deletes, its last delete and later versions. The
    oldest of a key is first. Deletes of a batch compete by ordering value if the rule names one;
    `DELETE_NOW` does not.
    """
    if rule.groups is not None:
        return states_from_batch(versions, rule.groups)
    if not rule.is_folding:
        return _precombine_rows(versions, rule)
    if are_rising(versions.column(RECORD_KEY)):
        return versions
    keys = Keys.of(versions)
    if keys.are_unique:
        return versions
    remaining = _find_remaining(versions, keys, rule.ordering_field)
    order = remaining[np.argsort(keys.codes[remaining], kind="stable")]
    remaining_rows = versions.take(_select_undeleted(versions, keys, order))
    return _fold_by_ordering(remaining_rows, rule)


def _precombine_rows(versions: pa.Table, rule: MergeRule) -> pa.Table:
    """Keep deletes by key with the winners: a row alone would compete with stored ones that were
    deleted before it.
    """
    erasing = np.flatnonzero(kinds(versions) == DELETE_NOW)
    if rule.ordering_field is None or not len(erasing):
        return merge(versions, rule)
    keys = Keys.of(versions)
    last = np.full(len(keys.distinct), -1)
    last[keys.codes[erasing]] = erasing  # Numpy lets the last of equal indices win.
    winners = _find_winners(keys, _find_remaining(versions, keys, rule.ordering_field))
    return versions.take(np.unique(np.concatenate([last[last >= 0], winners])))


def _select_undeleted(versions: pa.Table, keys: Keys, order: Positions) -> Positions:
    """Return those of `order`, which is by key with the oldest first, that no later delete
    removes.
    """
    deletes = np.flatnonzero(kinds(versions)[order] != ROW)
    first = np.zeros(len(keys.distinct), dtype=np.int64)
    first[keys.codes[order[deletes]]] = deletes  # Numpy lets the last of equal indices win.
    return order[np.arange(len(order)) >= first[keys.codes[order]]]


def _fold_by_ordering(versions: pa.Table, rule: MergeRule) -> pa.Table:
    """Fold adjacent rows of one key and one ordering value; deletes stay."""
    codes = Keys.of(versions).codes
    is_new = np.append(True, np.diff(codes) != 0)
    if rule.ordering_field is not None:
        ages = combine_chunks(versions.column(rule.ordering_field)).dictionary_encode("encode")
        is_new[1:] |= np.diff(ages.indices.to_numpy(zero_copy_only=False)) != 0
    is_delete = kinds(versions) != ROW
    is_new |= is_delete
    is_new[1:] |= is_delete[:-1]
    starts = np.flatnonzero(is_new)
    ends = np.append(starts[1:], len(codes)) - 1
    return fold_versions(versions, np.arange(len(codes)), starts, ends, rule)


def merge_into(
    base: pa.Table, newer: pa.Table, rule: MergeRule, facts: MergeFacts | None = None
) -> pa.Table:
    """Merge `newer` (any number of later versions per key) into `base` (one row per key).

    Only the keys of `newer` are read; the rest of `base` is passed on as it is, in its order.
    `newer` has the base's columns, and may have `DELETED` and those of `ABSENT`. Deleted keys are
    omitted. `facts` are counted for column groups only.
    """
    if newer.num_rows == 0:
        return base
    if rule.groups is not None:
        return merge_states_into(base, newer, rule.groups, facts)
    if base.num_rows == 0:
        return without_deletes(merge(newer, rule)).select(base.column_names)
    if _should_fold(newer, rule):
        touched = pc.is_in(
            base.column(RECORD_KEY), value_set=combine_chunks(newer.column(RECORD_KEY))
        )
        versions = pa.concat_tables([base.filter(touched), newer], promote_options="default")
        merged = without_deletes(merge(versions, rule)).select(base.column_names)
        return pa.concat_tables([base.filter(pc.invert(touched)), merged])
    return _merge_whole_rows(base, newer, rule.ordering_field)


def merge_into_parts(
    bases: Iterable[pa.Table],
    newer: pa.Table,
    rule: MergeRule,
    facts: MergeFacts | None = None,
) -> Iterator[pa.Table]:
    """Merge as `merge_into` into all of `bases`, which share no key, with one of them in memory.

    Keys that no base has come last.
    """
    if rule.groups is not None:
        yield from merge_states_into_parts(bases, newer, rule.groups, facts)
        return
    keys = Keys.of(newer)
    is_matched = np.zeros(len(keys.distinct), dtype=np.bool_)
    for base in bases:
        key_numbers = pc.index_in(base.column(RECORD_KEY), value_set=keys.distinct)
        here = np.zeros(len(keys.distinct), dtype=np.bool_)
        here[key_numbers.drop_null().to_numpy()] = True
        is_matched |= here
        yield merge_into(base, newer.filter(pa.array(here[keys.codes])), rule, facts)
    left = newer.filter(pa.array(~is_matched[keys.codes]))
    markers = [name for name in left.column_names if name == DELETED or name.startswith(ABSENT)]
    yield merge_into(left.drop_columns(markers).slice(0, 0), left, rule, facts)


def _find_remaining(versions: pa.Table, keys: Keys, ordering: str | None) -> Positions:
    """Return the versions that no later `DELETE_NOW` deleted, the smallest first."""
    positions = np.arange(len(keys.codes))
    erasing = np.flatnonzero(kinds(versions) == DELETE_NOW)
    if len(erasing):
        last_erased = np.full(len(keys.distinct), -1)
        last_erased[keys.codes[erasing]] = erasing  # The last of several is what stays.
        positions = np.flatnonzero(positions >= last_erased[keys.codes])
    if ordering is None:
        return positions
    ranks = pc.rank(
        combine_chunks(versions.column(ordering)),
        sort_keys=[("", "ascending", "at_start")],  # type: ignore[arg-type]  # stubs lag
        tiebreaker="dense",
    ).to_numpy()
    if len(erasing):
        ranks = ranks.astype(np.int64)
        ranks[erasing] = -1  # Whatever comes after it begins afresh.
    return positions[np.argsort(ranks[positions], kind="stable")]


def _find_winners(keys: Keys, remaining: Positions) -> Positions:
    """Return the greatest version of each distinct key."""
    winners = np.zeros(len(keys.distinct), dtype=np.int64)
    winners[keys.codes[remaining]] = remaining  # Numpy lets the last of equal indices win.
    return winners


def find_greatest(versions: pa.Table, ordering: str | None) -> Positions:
    """Return the position of each key's greatest version, deletes among them, in no order.

    Reads only the key, the ordering column and `DELETED`. Not for rows that are folded from several
    versions.
    """
    keys = Keys.of(versions)
    return _find_winners(keys, _find_remaining(versions, keys, ordering))


def choose_winners(base: pa.Table, newer: pa.Table, ordering: str | None) -> tuple[Mask, Positions]:
    """Return the rows of `base` that lose, and the versions of `newer` that win, deletes among
    them, one per key: the decision of `merge_into` on whole rows.

    Reads only the key, the ordering column and `DELETED` of both. Not for rows that are folded from
    several versions.
    """
    later = LaterRows(newer, ordering)
    return later.find_losers(base), later.find_winners()


class LaterRows:
    """The decision of `choose_winners` for a base in pieces: no two pieces share a key."""

    def __init__(self, newer: pa.Table, ordering: str | None) -> None:
        self._ordering = ordering
        self._keys = Keys.of(newer)
        self._winners = _find_winners(self._keys, _find_remaining(newer, self._keys, ordering))
        self._erased = _find_erased(newer, self._keys)
        self._orderings = None if ordering is None else newer.column(ordering)
        self._loses = np.zeros(len(self._keys.distinct), dtype=np.bool_)

    def find_losers(self, base: pa.Table, *, competes: bool = True) -> Mask:
        """Return which rows of the piece lose: all with a later version unless it `competes`,
        because later versions are known to be newer.
        """
        key_numbers = pc.index_in(base.column(RECORD_KEY), value_set=self._keys.distinct)
        gives_way = np.array(key_numbers.is_valid().to_numpy())
        if not competes or self._orderings is None or self._ordering is None:
            return gives_way
        matched = np.flatnonzero(gives_way)
        rivals = key_numbers.filter(key_numbers.is_valid()).to_numpy()
        theirs = self._orderings.take(self._winners[rivals])
        is_greater = _is_greater(base.column(self._ordering).take(matched), theirs)
        is_greater &= ~self._erased[rivals]
        gives_way[matched[is_greater]] = False
        self._loses[rivals[is_greater]] = True
        return gives_way

    def find_winners(self) -> Positions:
        """Return the versions that win against all pieces so far, deletes among them."""
        return self._winners[~self._loses]


def select_winners(versions: pa.Table, winners: Positions) -> pa.Table:
    """Return the winners of `versions`, one per key, without the deletes among them."""
    # As many as there are: each is the one version of its key, in order already.
    is_all = len(winners) == versions.num_rows
    return without_deletes(versions if is_all else versions.take(winners))


def _merge_whole_rows(base: pa.Table, newer: pa.Table, ordering: str | None) -> pa.Table:
    """Merge whole rows: every base row stays, or one version of `newer` replaces it."""
    gives_way, winners = choose_winners(base, newer, ordering)
    stays = base.filter(pa.array(~gives_way)) if gives_way.any() else base
    return pa.concat_tables([stays, select_winners(newer, winners).select(base.column_names)])


def _is_greater(ours: pa.ChunkedArray[Any], theirs: pa.ChunkedArray[Any]) -> Mask:
    """Return where a base row's ordering value is above that of the other version; null is
    lowest.
    """
    above: Any = pc.greater(ours, theirs)
    only_ours: Any = pc.and_(ours.is_valid(), theirs.is_null())
    either: Any = pc.or_(pc.fill_null(above, False), only_ours)
    return np.array(either.to_numpy())


def _find_erased(newer: pa.Table, keys: Keys) -> Mask:
    """Return, per distinct key, whether some version deletes all older rows."""
    erased = np.zeros(len(keys.distinct), dtype=np.bool_)
    erased[keys.codes[kinds(newer) == DELETE_NOW]] = True
    return erased


def _fold(versions: pa.Table, keys: Keys, remaining: Positions, rule: MergeRule) -> pa.Table:
    """Fold every key's versions after its last delete into one; a delete that is the last stays."""
    order = remaining[np.argsort(keys.codes[remaining], kind="stable")]
    codes = keys.codes[order]
    ends = np.append(np.flatnonzero(np.diff(codes)), len(codes) - 1)
    starts = np.append(0, ends[:-1] + 1)
    deletes = np.flatnonzero(kinds(versions)[order] != ROW)
    if len(deletes):
        starts[codes[deletes]] = deletes + 1
        starts = np.minimum(starts, ends)
    return fold_versions(versions, order, starts, ends, rule)


def _should_fold(versions: pa.Table, rule: MergeRule) -> bool:
    """Check if rows are folded: by the rule, or because versions lack a column."""
    return rule.is_folding or any(name.startswith(ABSENT) for name in versions.column_names)


def fold_versions(
    versions: pa.Table, order: Positions, starts: Positions, ends: Positions, rule: MergeRule
) -> pa.Table:
    """Return one row for each run of `order` from a start to its end, both inclusive."""
    if rule.merger is not None:
        return _fold_with_merger(rule.merger, versions, order, starts, ends)
    names = versions.column_names
    silent = {name.removeprefix(ABSENT) for name in names if name.startswith(ABSENT)}
    columns = {
        name: _fold_column(versions, name, silent, rule, order, starts, ends) for name in names
    }
    return pa.table(columns, schema=versions.schema)


def _fold_column(
    versions: pa.Table,
    name: str,
    silent: Collection[str],
    rule: MergeRule,
    order: Positions,
    starts: Positions,
    ends: Positions,
) -> pa.Array[Any] | pa.ChunkedArray[Any]:
    column = versions.column(name)
    if name.startswith(ABSENT):
        latest = _latest(_says(versions, name.removeprefix(ABSENT), silent), order, ends)
        return pa.array(latest < starts)
    if name.startswith("_hoodie_") or name == DELETED:
        return column.take(order[ends])
    says = _says(versions, name, silent)
    if rule.is_partial:
        says &= np.asarray(column.is_valid().to_numpy())
    if says.all():
        return column.take(order[ends])
    latest = _latest(says, order, ends)
    has_any = latest >= starts
    positions: pa.Array[Any] = pa.array(
        order[np.where(has_any, latest, 0)], pa.int64(), mask=~has_any
    )
    return combine_chunks(column).take(positions)


def _latest(says: Mask, order: Positions, ends: Positions) -> Positions:
    """Return, for each end, the place in `order` of the last version up to it with a value; -1
    without one.
    """
    at: Positions = np.maximum.accumulate(np.where(says[order], np.arange(len(order)), -1))
    return at[ends]


def _says(versions: pa.Table, name: str, silent: Collection[str]) -> Mask:
    """Return which versions have a value of the column, null included. `silent` names the columns
    that some version lacks.
    """
    if name not in silent:
        return np.ones(versions.num_rows, dtype=np.bool_)
    absent: Any = versions.column(ABSENT + name)
    return ~np.asarray(pc.fill_null(absent, False).to_numpy())


def _fold_with_merger(
    merger: Merger, versions: pa.Table, order: Positions, starts: Positions, ends: Positions
) -> pa.Table:
    """Merge the n-th versions of all keys together, so that a key with many does not slow the
    others.
    """
    names = [name for name in versions.column_names if name != DELETED]
    rows = versions.select(names)
    done, places = [], []
    groups = np.arange(len(starts))
    merged = rows.take(order[starts])
    for step in range(1, int((ends - starts).max()) + 1):
        is_open = starts[groups] + step <= ends[groups]
        done.append(merged.filter(pa.array(~is_open)))
        places.append(groups[~is_open])
        groups = groups[is_open]
        newer = rows.take(order[starts[groups] + step])
        merged = _merge_pairs(merger, merged.filter(pa.array(is_open)), newer)
    by_group = np.argsort(np.concatenate([*places, groups]), kind="stable")
    merged = pa.concat_tables([*done, merged]).take(by_group)
    if DELETED in versions.column_names:
        merged = merged.append_column(DELETED_FIELD, versions.column(DELETED).take(order[ends]))
    return merged.select(versions.column_names)


def _merge_pairs(merger: Merger, older: pa.Table, newer: pa.Table) -> pa.Table:
    """Call the merger. Raises InvalidInput if it does not return one row per pair."""
    merged = merger(older, newer)
    if not isinstance(merged, pa.Table) or merged.schema.names != newer.schema.names:
        raise InvalidInput("merger changed the columns", expected=newer.schema.names)
    if merged.num_rows != newer.num_rows or not merged.column(RECORD_KEY).equals(
        newer.column(RECORD_KEY)
    ):
        raise InvalidInput("merger did not give one row per pair of versions, in their order")
    return merged.cast(newer.schema)
