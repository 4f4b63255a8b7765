"""Every kind of read in this process, without Spark, as an Arrow table."""

from __future__ import annotations

import pyarrow as pa

from workers.errors import InvalidInput, TableChanged
from workers.files.meta_columns import META_COLUMNS
from workers.read.changes import read_changes
from workers.read.request import Query, ReadRequest, check_columns
from workers.read.scan_plan import scan_at
from workers.read.undisturbed import undisturbed
from workers.table.table import Table, open_


def read_rows(table: Table, request: ReadRequest, where: object = None) -> pa.Table:
    """The rows, with all columns but the meta columns, or with those asked for; `where` as
    `predicate_of` takes it.

    A table that was upgraded since it was opened is read as it is now. Raises InvalidInput for a
    column that there is not, SnapshotExpired, SnapshotChanged, UnsupportedTable, MalformedTable.
    """
    if request.query is Query.CDC and where is not None:
        raise InvalidInput("changes take no filter: filter the rows that they give", where=where)
    try:
        return _rows(table, request, where)
    except TableChanged:
        return _rows(open_(table.storage, table.ports), request, where)


def _rows(table: Table, request: ReadRequest, where: object) -> pa.Table:
    if request.query is Query.CDC:
        rows = read_changes(table, since=request.since, until=request.until)
        return _selected(rows, request)
    return undisturbed(table, lambda now: scan_at(table, now, request, where).rows_now())


def _selected(rows: pa.Table, request: ReadRequest) -> pa.Table:
    if request.columns is None:
        meta = [name for name in META_COLUMNS if name in rows.column_names]
        return rows.drop_columns(meta) if meta else rows
    check_columns(request.columns, rows.column_names)
    return rows.select(list(request.columns))
