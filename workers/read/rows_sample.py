"""Rows of some file slices: what is known of a whole table without reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from workers.errors import NotFound
from workers.read.file_slice import read_slice
from workers.read.slice_sample import SampleBounds, sampled
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView


@dataclass(frozen=True, slots=True)
class RowsSample:
    """Rows of `slices_read` of the table's `slices`."""

    rows: pa.Table
    slices: int
    slices_read: int


def sample_rows(
    table: Table, columns: Sequence[str], bounds: SampleBounds | None = None
) -> RowsSample:
    """Rows with the key and those of `columns` that there are. Raises UnsupportedTable,
    MalformedTable.
    """
    view, schema = FileSystemView.load(table), load_schema(table)
    if schema is None:
        return RowsSample(pa.table({}), 0, 0)
    named = {*columns, *table.config.record_key}
    wanted = [name for name in schema.field_names if name in named]
    parts = [pa.schema([schema.arrow.field(name) for name in wanted]).empty_table()]
    read = 0
    for slice_, _ in sampled(table, view, bounds or SampleBounds()):
        try:
            rows = read_slice(table.storage, table.config, schema, slice_, columns=wanted)
        except NotFound:
            continue  # Cleaned away since the listing.
        parts.append(rows.select(wanted))
        read += 1
    return RowsSample(pa.concat_tables(parts), len(view.slices), read)
