"""Every kind of read in this process, without Spark, as an Arrow table."""

from __future__ import annotations

from typing import assert_never

import pyarrow as pa

from workers.errors import InvalidInput, TableChanged
from workers.files.meta_columns import META_COLUMNS
from workers.read.changes import read_changes
from workers.read.incremental import read_incremental
from workers.read.request import Query, ReadRequest
from workers.read.snapshot import read_snapshot
from workers.table.table import Table, open_


def read_rows(table: Table, request: ReadRequest) -> pa.Table:
    """The rows, with all columns but the meta columns, or with those asked for.

    A table that was upgraded since it was opened is read as it is now. Raises InvalidInput for a
    column that there is not, SnapshotExpired, SnapshotChanged, UnsupportedTable, MalformedTable.
    """
    try:
        rows = _rows(table, request)
    except TableChanged:
        rows = _rows(open_(table.storage, table.ports), request)
    if request.columns is None:
        meta = [name for name in META_COLUMNS if name in rows.column_names]
        return rows.drop_columns(meta) if meta else rows
    check_columns(request.columns, rows.column_names)
    return rows.select(list(request.columns))


def check_columns(wanted: tuple[str, ...], known: list[str]) -> None:
    """Check that all wanted columns are known. Raises InvalidInput naming the first column that
    there is not.
    """
    if unknown := [name for name in wanted if name not in known]:
        raise InvalidInput("table has no such column", column=unknown[0], known=known)


def _rows(table: Table, request: ReadRequest) -> pa.Table:
    match request.query:
        case Query.SNAPSHOT | Query.READ_OPTIMIZED:
            return read_snapshot(
                table,
                as_of=request.as_of,
                is_read_optimized=request.query is Query.READ_OPTIMIZED,
                with_meta_columns=True,
                columns=request.columns,
            )
        case Query.INCREMENTAL:
            return read_incremental(table, since=request.since, until=request.until)
        case Query.CDC:
            return read_changes(table, since=request.since, until=request.until)
        case _:
            assert_never(request.query)
