"""The one merge function, vectorised over Arrow.

Input is every version of some keys, in the order in which they became visible. Per key, versions
are ordered by (ordering value, visibility); a null ordering value is the smallest, and between
equal values the later one wins.

- Whole rows: the greatest version is the row.
- Partial updates: each column takes its greatest version that is not null, so an absent column
  never erases. Every order of arrival gives the same row. A merged row carries one ordering value,
  though: once versions of different age were merged, in a batch or into a base file, what comes
  later sees only the greatest. So batching does not matter as long as the versions of one key
  share their ordering value, which streams must see to; own ordering values per stream come later.
  Apache Hudi folds whole rows, with the same result under the same condition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.meta_columns import RECORD_KEY

_Positions = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class MergeRule:
    ordering_field: str | None
    """None: the later version wins whatever it holds."""
    is_partial: bool = False


def merge(versions: pa.Table, rule: MergeRule) -> pa.Table:
    """One row per `_hoodie_record_key`, sorted by the key's first appearance.

    `versions` holds the record key column, the ordering column where the rule names one, and any
    others; rows that became visible later stand later. The schema of the answer is that of
    `versions`.
    """
    if versions.num_rows == 0:
        return versions
    codes = _key_codes(versions)
    if codes.max() == len(codes) - 1:
        return versions  # Every key appears once: nothing to decide.
    order = _version_order(versions, codes, rule.ordering_field)
    ends = _group_ends(codes[order])
    winners = order[ends]
    if not rule.is_partial:
        return versions.take(winners)
    starts = np.concatenate(([0], ends[:-1] + 1))
    columns = [
        _newest_present(versions.column(name), order, starts, ends)
        if not name.startswith("_hoodie_")
        else versions.column(name).take(winners)
        for name in versions.column_names
    ]
    return pa.Table.from_arrays(columns, schema=versions.schema)


def merge_into(base: pa.Table, newer: pa.Table, rule: MergeRule) -> pa.Table:
    """`base` (one row per key) with `newer` (any number of later versions per key) merged in.

    Only the keys that `newer` holds go through `merge`; the rest of `base` is passed on as it is,
    in its order. Both have the same schema.
    """
    if newer.num_rows == 0:
        return base
    if base.num_rows == 0:
        return merge(newer, rule)
    touched = pc.is_in(base.column(RECORD_KEY), value_set=_single(newer.column(RECORD_KEY)))
    versions = pa.concat_tables([base.filter(touched), newer])
    return pa.concat_tables([base.filter(pc.invert(touched)), merge(versions, rule)])


def _key_codes(versions: pa.Table) -> _Positions:
    encoded = _single(versions.column(RECORD_KEY)).dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _version_order(versions: pa.Table, codes: _Positions, ordering: str | None) -> _Positions:
    if ordering is None:
        return np.argsort(codes, kind="stable")
    ranks = pc.rank(
        _single(versions.column(ordering)),
        sort_keys=[("", "ascending", "at_start")],  # type: ignore[arg-type]  # stubs lag
        tiebreaker="dense",
    )
    return np.lexsort((np.arange(len(codes)), ranks.to_numpy(), codes))


def _group_ends(sorted_codes: _Positions) -> _Positions:
    changes = np.flatnonzero(np.diff(sorted_codes))
    return np.concatenate((changes, [len(sorted_codes) - 1]))


def _newest_present(
    column: pa.ChunkedArray[Any], order: _Positions, starts: _Positions, ends: _Positions
) -> pa.Array[Any]:
    """Per group of `order`, the last value that is not null; null where the group has none."""
    present = np.asarray(column.is_valid().to_numpy())[order]
    last_present = np.maximum.accumulate(np.where(present, np.arange(len(order)), -1))[ends]
    has_any = last_present >= starts
    positions: pa.Array[Any] = pa.array(
        order[np.where(has_any, last_present, 0)], pa.int64(), mask=~has_any
    )
    return _single(column).take(positions)


def _single(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    single = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    assert isinstance(single, pa.Array), "more text than one Arrow array holds"
    return single
