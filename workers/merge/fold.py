"""The fold of several versions of one key into one row, for all keys together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.meta_columns import RECORD_KEY
from workers.merge.mergers import Merger
from workers.merge.rule import MergeRule
from workers.merge.versions import ABSENT, DELETED, DELETED_FIELD, Mask, Positions, combine_chunks


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
