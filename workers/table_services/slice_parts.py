"""The rows of a file slice on their way to its new base file: merged, in pieces, and in the order
that the plan asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa

from workers.merge.group_file import StatesOfFile
from workers.merge.merge_facts import MergeFacts
from workers.read.file_slice import (
    merge_slice_batches,
    merged_state_parts,
    read_slice,
    slice_schema,
)
from workers.storage.base import Storage
from workers.table.file_group import FileSlice
from workers.table_services.rewrite_context import RewriteContext
from workers.table_services.row_order import RowOrder, sort_into_places, sort_positions, sort_rows
from workers.table_services.slices import sum_file_sizes

_SORTED_WHOLE_BYTES_MAX = 16 << 20
"""The size of files on storage; in memory they are some ten times that."""
_SORTED_RANGE_BYTES = 48 << 20


def read_merged_parts(
    context: RewriteContext, slice_: FileSlice, storage: Storage
) -> Iterator[pa.Table]:
    """Yield the merged rows, in pieces. At least one, even empty."""
    yield slice_schema(context.schema).empty_table()
    if context.order is not None:
        yield from _read_sorted_parts(context, context.order, slice_, storage)
        return
    for batch in _merge_batches(context, slice_, storage):
        yield pa.Table.from_batches([batch])


def build_file_states(context: RewriteContext) -> StatesOfFile | None:
    """Return what the new base file stores of the ordering values of its cells; None without column
    groups.
    """
    groups = context.config.groups
    return None if groups is None else StatesOfFile(groups, context.instant)


def read_state_parts(
    context: RewriteContext, slice_: FileSlice, storage: Storage, facts: MergeFacts
) -> Iterator[pa.Table]:
    """Yield the merged rows with the ordering values of their cells, in pieces; `facts` count what
    was merged.

    With an order all rows come as one piece. Raises NotFound, MalformedTable.
    """
    parts = merged_state_parts(storage, context.config, context.schema, slice_, facts=facts)
    if context.order is None:
        return parts
    # Sorted as a whole: states are not read twice in one order, as sorting by ranges needs.
    return iter([sort_rows(pa.concat_tables(parts), context.order)])


def _read_sorted_parts(
    context: RewriteContext, order: RowOrder, slice_: FileSlice, storage: Storage
) -> Iterator[pa.Table]:
    """Yield the rows in sorted order. Small slices are sorted in memory. For others the columns to
    sort by are read first, which gives the place of each row when it is read again.
    """
    if sum_file_sizes(storage, slice_.files) <= _SORTED_WHOLE_BYTES_MAX:
        whole = read_slice(storage, context.config, context.schema, slice_, rule=context.rule)
        yield sort_rows(whole, order)
        return
    schema = pa.schema([context.schema.arrow.field(name) for name in order.columns])
    # A log may lack some columns, and folded rows have another place than others:
    # only with all columns the rows pass in the same order both times.
    columns = None if slice_.log_files else order.columns
    batches = _merge_batches(context, slice_, storage, columns)
    narrow = pa.Table.from_batches([batch.select(schema.names) for batch in batches], schema)
    positions = sort_positions(narrow, order)
    places = np.empty_like(positions)
    places[positions] = np.arange(len(positions))
    del narrow, positions
    yield from sort_into_places(
        _merge_batches(context, slice_, storage), places, range_bytes=_SORTED_RANGE_BYTES
    )


def _merge_batches(
    context: RewriteContext,
    slice_: FileSlice,
    storage: Storage,
    columns: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    return merge_slice_batches(
        storage, context.config, context.schema, slice_, columns=columns, rule=context.rule
    )
