"""Rows for somebody who may read them, each look in the audit; read in a process with limits."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlplane.errors import InvalidRequest, StorageUnavailable
from controlplane.row_files import RowFormat
from controlplane.rows.answers import (
    ChangedGroup,
    ChangedRow,
    ChangedRows,
    ColumnNulls,
    CommitCounts,
    Op,
    RowColumn,
    RowsPlan,
    RowVersionRow,
    RowVersions,
    SlicePlanRow,
    StoredRow,
    TableRows,
)
from controlplane.rows.commit_origins import UNKNOWN, commit_origins
from controlplane.rows.cursors import DEEPEST, DEEPEST_SORTED, RowsCursor, read_rows_cursor
from controlplane.rows.errors import RowsGone, RowsRefused
from controlplane.rows.jobs import (
    GROUPS,
    KEY,
    NULLS,
    ROW_MARKS,
    ROWS_MAX,
    SLICES_MAX,
    TYPES,
    VERSIONS_MAX,
    Kind,
)
from controlplane.sql.cells import cells
from controlplane.sql.exports import rows_file
from controlplane.sql.limits import ROWS_DEFAULT, sql_limits
from controlplane.sql.running import run_job
from controlplane.sql.slots import slot
from controlplane.tables.locations import checked_location
from controlplane.tables.models import Table
from controlplane.tables.row_access import RowAccess, do_record_rows_read, row_access
from workers.bounded_process import ProcessAnswer
from workers.sql.type_names import name_of_type

WHERE_KEPT_CHARS = 2_000
"""Of a filter, in the audit."""
_OF_PLAN = (
    "rows",
    "files_read",
    "files",
    "log_files",
    "slices_read",
    "slices",
    "bytes",
    "left_out",
)
_OPS: Mapping[str, Op] = {"i": "inserted", "u": "updated", "d": "deleted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsWanted:
    """Which rows of a table somebody asks for."""

    where: str = ""
    """In the spelling of SQL; empty for all rows."""
    columns: Sequence[str] = ()
    """None named: all."""
    as_of: str | None = None
    """A completion time: 17 digits, or ISO 8601 with a zone."""
    order_by: str = ""
    """A column; empty for the order in which rows are stored."""
    is_descending: bool = False
    limit: int = ROWS_DEFAULT
    cursor: str = ""
    """Of the page before; empty for the first one."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One read of one person, from the right to it to its line in the audit."""

    table: Table
    access: RowAccess
    by: User
    begun_s: float

    @classmethod
    def begin(cls, table: Table, by: User) -> _Reading:
        """A reading that `by` may begin. Raises PermissionDenied."""
        access = row_access(by, table)
        access.check()
        return cls(table, access, by, time.monotonic())

    def run(self, kind: Kind, **job: object) -> ProcessAnswer:
        location = checked_location(self.table.location)
        limits = sql_limits()
        masked = sorted(self.access.masked)
        with slot(settings.SLUICE_HOME, str(self.by.pk), limits):
            said = run_job(
                "controlplane.rows.child",
                {"kind": kind, "location": location, "masked": masked, **job},
                locations=[location],
                limits=limits,
                work="the read",
            )
        if "failed" in said.head:
            self._raise(said.head)
        return said

    def columns(self, said: ProcessAnswer) -> list[RowColumn]:
        metadata = said.rows.schema.metadata or {}
        if TYPES not in metadata:
            return []
        return [
            RowColumn(
                name=field.name,
                type=name_of_type(field.type),
                is_masked=self.access.hides(field.name),
            )
            for field in pa.ipc.read_schema(pa.py_buffer(metadata[TYPES]))
        ]

    def record(self, door: str, rows: int, **details: object) -> None:
        do_record_rows_read(self.access, door=door, rows=rows, **details)

    @property
    def took_ms(self) -> int:
        return round((time.monotonic() - self.begun_s) * 1000)

    def _raise(self, head: Mapping[str, Any]) -> NoReturn:
        match head["failed"]:
            case "refused":
                values = {**head["values"], "field": head["field"]}
                raise RowsRefused(head["why"], **values)
            case "masked":
                raise PermissionDenied(
                    f"the column {head['column'][:200]} of {self.table.slug} is masked: it "
                    "can be shown, but not used in a condition"
                )
            case "gone":
                raise RowsGone(head["why"])
            case _:
                pass
        raise StorageUnavailable("table storage does not answer: retry later")


def do_read_rows(table: Table, wanted: RowsWanted, *, by: User) -> TableRows:
    """Rows of one moment, as `by` may see them; the audit holds by what they were chosen.

    Raises PermissionDenied, also for a filter by a masked column; RowsRefused, RowsGone,
    StorageUnavailable, and what `run_job` and `slot` raise.
    """
    reading = _Reading.begin(table, by)
    said = _scan(reading, wanted)
    all_columns = {column.name: column for column in reading.columns(said)}
    names = [name for name in said.rows.column_names if name not in ROW_MARKS]
    rows = [
        StoredRow(commit=commit or "", key=key or "", partition=partition or "", cells=list(rest))
        for commit, key, partition, *rest in cells(said.rows)
    ]
    _record_scan(reading, wanted, len(rows))
    cursor = read_rows_cursor(wanted.cursor)
    return TableRows(
        as_of=wanted.as_of if cursor is None else cursor.moment,
        is_older=cursor is not None and cursor.is_of_now and said.head["newest"] > cursor.moment,
        next_cursor=_next_cursor(said.head, wanted, cursor, len(rows)),
        columns=[all_columns[name] for name in names],
        rows=rows,
        is_cut=bool(said.head["cut_by"]),
        cut_by=said.head["cut_by"],
        slices_read=said.head["slices_read"],
        slices=said.head["slices"],
        took_ms=reading.took_ms,
    )


def do_export_rows(table: Table, wanted: RowsWanted, file_format: RowFormat, *, by: User) -> bytes:
    """As `do_read_rows`, as a file of the columns alone."""
    reading = _Reading.begin(table, by)
    said = _scan(reading, wanted)
    rows = said.rows.drop_columns([name for name in ROW_MARKS if name in said.rows.column_names])
    _record_scan(reading, wanted, rows.num_rows, file=file_format)
    return rows_file(rows, file_format)


def do_plan_rows(table: Table, where: str, *, by: User, as_of: str | None = None) -> RowsPlan:
    """Plan a read with this filter: what it opens and leaves out, and the columns' null counts.

    Raises as `do_read_rows`.
    """
    reading = _Reading.begin(table, by)
    answer = reading.run(
        "plan",
        where=where.strip() or None,
        as_of=as_of,
        columns=None,
        after=0,
        rows_max=SLICES_MAX,
        order_by="",
        descending=False,
    )
    head = answer.head
    nulls = json.loads((answer.rows.schema.metadata or {}).get(NULLS, b"{}"))
    reading.record("rows plan", 0, where=where[:WHERE_KEPT_CHARS], as_of=as_of or "")
    return RowsPlan(
        columns=[
            ColumnNulls(
                name=column.name,
                type=column.type,
                is_masked=column.is_masked,
                nulls=nulls.get(column.name),
                null_pct=_percent(nulls.get(column.name), head["rows"]),
            )
            for column in reading.columns(answer)
        ],
        listed=[SlicePlanRow(**line) for line in answer.rows.to_pylist()],
        took_ms=reading.took_ms,
        **{name: head[name] for name in _OF_PLAN},
    )


def _percent(nulls: int | None, rows: int) -> float | None:
    return 100 * nulls / rows if nulls is not None and rows else None


def do_read_history(
    table: Table, key: str, *, by: User, partition: str | None = None
) -> RowVersions:
    """Every version of the row with this record key.

    Raises as `do_read_rows`; PermissionDenied also where keys are masked.
    """
    reading = _Reading.begin(table, by)
    reading.access.check_column(KEY)
    said = reading.run("history", key=key, partition=partition, rows_max=VERSIONS_MAX)
    versions = _versions(table, said.rows)
    reading.record("row history", len(versions))
    return RowVersions(
        key=key,
        columns=reading.columns(said),
        versions=versions,
        is_cut=bool(said.head["cut_by"]),
        cut_by=said.head["cut_by"],
        took_ms=reading.took_ms,
    )


def do_read_commit(
    table: Table,
    instant: str,
    *,
    by: User,
    limit: int = ROWS_DEFAULT,
    partition: str = "",
    file_id: str = "",
) -> ChangedRows:
    """What one commit inserted, updated and deleted: all of it, or in one file group. Raises as
    `do_read_rows`.
    """
    reading = _Reading.begin(table, by)
    said = reading.run(
        "commit",
        instant=instant,
        partition=partition,
        file_id=file_id,
        rows_max=_checked_limit(limit),
    )
    return _changed(reading, said, "commit changes", instant=instant)


def do_compare_moments(
    table: Table, earlier: str, later: str, *, by: User, limit: int = ROWS_DEFAULT
) -> ChangedRows:
    """The rows that are other ones at the completion time `later` than at `earlier`.

    Raises as `do_read_rows`.
    """
    reading = _Reading.begin(table, by)
    said = reading.run("moments", earlier=earlier, later=later, rows_max=_checked_limit(limit))
    return _changed(reading, said, "two moments", earlier=earlier, later=later)


def _scan(reading: _Reading, wanted: RowsWanted) -> ProcessAnswer:
    cursor = read_rows_cursor(wanted.cursor)
    return reading.run(
        "scan",
        where=wanted.where.strip() or None,
        columns=list(dict.fromkeys(wanted.columns)) or None,
        as_of=wanted.as_of if cursor is None else cursor.moment,
        rows_max=_checked_limit(wanted.limit),
        order_by=wanted.order_by,
        descending=wanted.is_descending,
        after=0 if cursor is None else cursor.given,
        files=None if cursor is None else cursor.files,
    )


def _next_cursor(
    head: Mapping[str, Any], wanted: RowsWanted, cursor: RowsCursor | None, rows: int
) -> str | None:
    given = rows + (0 if cursor is None else cursor.given)
    deepest = DEEPEST_SORTED if wanted.order_by else DEEPEST
    if not head["cut_by"] or not rows or given > deepest or not head["moment"]:
        return None
    is_of_now = wanted.as_of is None if cursor is None else cursor.is_of_now
    return RowsCursor(head["moment"], given, head["files"], is_of_now).text


def _record_scan(reading: _Reading, wanted: RowsWanted, rows: int, **details: object) -> None:
    cursor = read_rows_cursor(wanted.cursor)
    where, as_of = wanted.where[:WHERE_KEPT_CHARS], wanted.as_of or ""
    if wanted.order_by:
        details = {**details, "order_by": wanted.order_by[:200]}
    if cursor is not None:
        as_of, details = cursor.moment, {**details, "after": cursor.given}
    reading.record("rows", rows, where=where, as_of=as_of, **details)


def _changed(reading: _Reading, said: ProcessAnswer, door: str, **details: object) -> ChangedRows:
    rows = [
        ChangedRow(
            op=_OPS[op],
            key=key,
            partition=partition,
            before=before,
            after=after,
            changed=changed or [],
        )
        for op, key, partition, before, after, changed in cells(said.rows)
    ]
    reading.record(door, len(rows), **details)
    facts = json.loads((said.rows.schema.metadata or {}).get(GROUPS, b"{}"))
    counts = said.head.get("counts")
    return ChangedRows(
        columns=reading.columns(said),
        rows=rows,
        is_cut=bool(said.head["cut_by"]),
        cut_by=said.head["cut_by"],
        took_ms=reading.took_ms,
        changed_columns=dict(Counter(name for row in rows for name in row.changed).most_common()),
        groups=[ChangedGroup(**group) for group in facts.get("groups", [])],
        group_count=said.head.get("group_count", 0),
        writer_counts=None if counts is None else CommitCounts(**counts),
        stream_columns=facts.get("stream_columns", []),
    )


def _versions(table: Table, rows: pa.Table) -> list[RowVersionRow]:
    listed = cells(rows)
    origins = commit_origins(table, {str(row[0]) for row in listed})
    versions = []
    for instant, completed_at, partition, before, after, changed, knows_before in listed:
        origin = origins.get(instant, UNKNOWN)
        version = RowVersionRow(
            instant=instant,
            completed_at=completed_at,
            writer=origin.writer,
            stream=origin.stream,
            operation_type=origin.operation_type,
            operation=origin.operation,
            requested_by=origin.requested_by,
            op="written",
            partition=partition,
            before=before,
            after=after,
            changed=changed,
        )
        versions.append(replace(version, op=_op_of(version)) if knows_before else version)
    return versions


def _op_of(version: RowVersionRow) -> Op:
    if version.completed_at is None:
        return "stood"
    if version.before is None:
        return "inserted"
    if version.after is None:
        return "deleted"
    return "updated" if version.changed else "written"


def _checked_limit(limit: int) -> int:
    if not 1 <= limit <= ROWS_MAX:
        raise InvalidRequest(f"the limit must be 1 to {ROWS_MAX} rows", limit=limit)
    return limit
