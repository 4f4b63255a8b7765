"""Lists of the n greatest, merged: the aggregate `collect_topn`."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.merge.versions import Positions, single, taken

_GREATEST_FIRST: Final = (("0", "descending"), ("place", "ascending"))


def own_list(lists: pa.Array[Any], most: int) -> pa.Array[Any]:
    """Every list by itself as `merged_lists` leaves it."""
    return merged_lists(lists, np.arange(len(lists)), len(lists), most)


def merged_lists(lists: pa.Array[Any], codes: Positions, count: int, most: int) -> pa.Array[Any]:
    """Per code below `count`, the `most` elements with the greatest first field; null where no list
    came. `lists` stand in the order in which they became visible.

    What an element tells besides its first field is what it is of: that is listed once, with the
    greatest first field that it had. Of equal ones the earlier stands first. Null is below
    everything, and a null element is none.
    """
    there = np.flatnonzero(np.asarray(lists.is_valid()))
    given: Any = lists.take(taken(there))
    codes = codes[there]
    elements: Any = given.flatten()
    told = np.flatnonzero(np.asarray(elements.is_valid()))
    elements = elements.take(taken(told))
    owners = codes[np.asarray(pc.list_parent_indices(given))[told]]
    names = [str(n) for n in range(elements.type.num_fields)]
    flat = pa.table(
        [pa.array(owners), pa.array(np.arange(len(owners))), *elements.flatten()],
        names=["owner", "place", *names],
    )
    same = ["owner", *(names[1:] or names)]
    flat = _sorted(flat, [*((name, "ascending") for name in same), *_GREATEST_FIRST])
    flat = _sorted(
        flat.filter(pa.array(_differs(flat.select(same)))),
        [("owner", "ascending"), *_GREATEST_FIRST],
    )
    elements = elements.take(single(flat.column("place")))
    owners = flat.column("owner").to_numpy()
    starts = np.flatnonzero(np.append(True, np.diff(owners) != 0)) if len(owners) else owners
    place = np.arange(len(owners)) - np.repeat(starts, np.diff(np.append(starts, len(owners))))
    kept = place < most
    sizes = np.bincount(owners[kept], minlength=count)
    offsets: Any = pa.array(np.append(0, np.cumsum(sizes)).astype(np.int32))
    came = np.zeros(count, dtype=np.bool_)
    came[codes] = True
    missing: Any = pa.array(~came)
    values: Any = elements.filter(pa.array(kept))
    found: Any = pa.ListArray.from_arrays(offsets, values, type=lists.type, mask=missing)
    return cast("pa.Array[Any]", found)


def _sorted(rows: pa.Table, keys: Any) -> pa.Table:
    return rows.take(pc.sort_indices(rows, sort_keys=keys))


def _differs(sorted_rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows differ from the one before."""
    changed = np.ones(sorted_rows.num_rows, dtype=np.bool_)
    if sorted_rows.num_rows < 2:
        return changed
    same = np.ones(sorted_rows.num_rows - 1, dtype=np.bool_)
    for column in sorted_rows.columns:
        codes: Any = column.combine_chunks().dictionary_encode("encode").indices
        same &= np.diff(np.asarray(codes)) == 0
    changed[1:] = ~same
    return changed
