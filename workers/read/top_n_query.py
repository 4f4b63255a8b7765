"""The n first rows of each group of rows, as a query: `table.top_n(...)`.

Each file slice gives its own n first, and only these are compared with one another. Among rows that
are equal in what is ordered by, those that became visible first come first, and rows of one commit
come in the order of their keys: the answer does not depend on how rows lie in files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import NotFound
from workers.files.meta_columns import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from workers.options.top_n_request import TopN
from workers.read.completions import COMPLETED_AT, Completions
from workers.read.file_slice import slice_schema
from workers.read.request import check_columns
from workers.read.slice_scan import SliceScan
from workers.read.snapshot import SnapshotPlan, plan_snapshot
from workers.read.undisturbed import expired
from workers.table.table import Table

TIES: Final = (COMPLETED_AT, RECORD_KEY, PARTITION_PATH)
_PARTS_MAX = 64
"""So many slices' rows are held before they are cut down again."""


def read_top_n(table: Table, request: TopN, columns: Sequence[str] | None) -> pa.Table:
    """The rows, with the `columns` or all of the table's. Raises InvalidInput, SnapshotExpired, and
    as `plan_snapshot`.
    """
    plan, names = plan_top_n(table, request, columns)
    wanted = wanted_columns(request, plan, names)
    completions = Completions.load(table, table.timeline())
    parts = [completions.with_completed_at(slice_schema(plan.schema).empty_table().select(wanted))]
    reading = SliceScan(table.storage, table.config, plan.schema, tuple(wanted), None)
    schema = parts[0].schema.remove(parts[0].schema.get_field_index(COMPLETED_AT))
    for slice_ in plan.slices:
        try:
            rows = pa.Table.from_batches(list(reading.batches(slice_)), schema)
        except NotFound as error:
            raise expired(error) from error
        parts.append(first_rows(request, completions.with_completed_at(rows)))
        if len(parts) > _PARTS_MAX:
            parts = [first_rows(request, pa.concat_tables(parts))]
    return first_rows(request, pa.concat_tables(parts)).select(list(names))


def plan_top_n(
    table: Table, request: TopN, columns: Sequence[str] | None
) -> tuple[SnapshotPlan, tuple[str, ...]]:
    """What is read, and the columns of the answer. Raises as `read_top_n`."""
    plan = plan_snapshot(table)
    request.check(plan.schema.arrow)
    names = tuple(columns) if columns is not None else tuple(plan.schema.field_names)
    check_columns(names, slice_schema(plan.schema).names)
    return plan, names


def wanted_columns(request: TopN, plan: SnapshotPlan, names: Collection[str]) -> list[str]:
    """The columns to read of each slice, in its order."""
    needed = {*request.columns, COMMIT_TIME, *TIES, *names}
    return [name for name in slice_schema(plan.schema).names if name in needed]


def first_rows(request: TopN, rows: pa.Table) -> pa.Table:
    """The n first rows of each group, group by group, in their order. Nulls stand last, and NaN
    before them. `rows` have the columns asked for and the `TIES`.
    """
    if rows.num_rows == 0:
        return rows
    order = pc.sort_indices(rows, sort_keys=_sort_keys(request))
    starts = np.flatnonzero(_begins_group(rows.select(list(request.partition_by)), order))
    sizes = np.diff(np.append(starts, rows.num_rows))
    place = np.arange(rows.num_rows) - np.repeat(starts, sizes)
    return rows.take(order.filter(pa.array(place < request.n)))


def _sort_keys(request: TopN) -> Any:
    keys: dict[str, Literal["ascending", "descending"]] = {}
    for name in request.partition_by:
        keys[name] = "ascending"
    for ordering in request.order_by:
        keys.setdefault(ordering.column, "descending" if ordering.is_descending else "ascending")
    for name in TIES:
        keys.setdefault(name, "ascending")
    return list(keys.items())


def _begins_group(groups: pa.Table, order: Any) -> Any:
    """Which rows, taken in this order, begin another group."""
    begins = np.zeros(len(order), dtype=np.bool_)
    begins[0] = True
    for column in groups.columns:
        codes: Any = column.take(order).combine_chunks().dictionary_encode("encode").indices
        begins[1:] |= np.diff(np.asarray(codes)) != 0
    return begins
