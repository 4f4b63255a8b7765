"""Plans of scans: the slices of a moment or of a window, and which of them a filter leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from workers.errors import InvalidInput, TableChanged
from workers.files.meta_columns import COMMIT_TIME, META_COLUMNS
from workers.read.file_slice import slice_schema
from workers.read.incremental import IncrementalPlan, incremental_at
from workers.read.predicate import Predicate, predicate_of
from workers.read.pruning import among
from workers.read.request import Query, ReadRequest, check_columns, read_request
from workers.read.scan import PlannedSlice, Scan, check_limit, slice_pruner
from workers.read.snapshot import planned_at, schema_for_reading
from workers.read.undisturbed import undisturbed
from workers.schema.table_schema import TableSchema
from workers.table.table import Table, open_
from workers.timeline.timeline import Timeline


def plan_scan(
    table: Table,
    *,
    columns: Iterable[str] | None = None,
    where: object = None,
    limit: int | None = None,
    as_of: object = None,
    since: object = None,
    until: object = None,
) -> Scan:
    """A scan of the latest rows, of those at the completion time `as_of`, or of those that the
    commits after `since`, up to `until`, wrote; `where` as `predicate_of` takes it. Only the
    timeline, names of files and a schema are read.

    A table that was upgraded since it was opened is read as it is now. Raises InvalidInput for what
    does not fit the table, SnapshotExpired, SnapshotChanged, UnsupportedTable, MalformedTable.
    """
    request = read_request(columns=columns, as_of=as_of, since=since, until=until)
    check_limit(limit)
    return scan_of(table, request, where).limited(limit)


def scan_of(table: Table, request: ReadRequest, where: object = None) -> Scan:
    """As `plan_scan`, of a request that was checked before."""
    try:
        return _planned(table, request, where)
    except TableChanged:
        return _planned(open_(table.storage, table.ports), request, where)


def _planned(table: Table, request: ReadRequest, where: object) -> Scan:
    return undisturbed(table, lambda now: scan_at(table, now, request, where))


def scan_at(table: Table, timeline: Timeline, request: ReadRequest, where: object) -> Scan:
    """The scan by a timeline that was read already; not of changes. Raises NotFound where the table
    changes meanwhile, InvalidInput, MalformedTable, SnapshotExpired, UnsupportedTable.
    """
    if request.query is Query.CDC:
        raise InvalidInput("changes are read whole: there is no scan of them", query=request.query)
    if request.query is Query.INCREMENTAL:
        window = incremental_at(table, timeline, request.since, request.until)
        return _window_scan(table, timeline, window, request, where)
    plan = planned_at(
        table,
        timeline,
        as_of=request.as_of,
        is_read_optimized=request.query is Query.READ_OPTIMIZED,
    )
    predicate = None if where is None else predicate_of(where, plan.schema.arrow)
    pruner = slice_pruner(table, plan.schema, predicate)
    slices = tuple(PlannedSlice(one, pruner.reason(one)) for one in plan.slices)
    columns = _columns(request, plan.schema)
    return Scan(table, timeline, plan.schema, slices, columns, predicate)


def window_as_now(table: Table, timeline: Timeline, request: ReadRequest, where: object) -> Scan:
    """As `scan_at` of a window, with the columns that the table has now: those that came after the
    window are in its rows as they are in older rows of a snapshot.
    """
    plan = incremental_at(table, timeline, request.since, request.until)
    now = schema_for_reading(table, timeline, None, has_data=bool(plan.slices))
    return _window_scan(table, timeline, replace(plan, schema=now), request, where)


def _window_scan(
    table: Table, timeline: Timeline, plan: IncrementalPlan, request: ReadRequest, where: object
) -> Scan:
    predicate = None if where is None else predicate_of(where, plan.schema.arrow)
    columns = _columns(request, plan.schema)
    if table.config.compares_rows:
        windows = tuple(PlannedSlice(one.after[0], window=one) for one in plan.slices)
        return Scan(table, timeline, plan.schema, windows, columns, predicate, window=plan)
    pruner = slice_pruner(table, plan.schema, predicate)
    slices = [slice_ for one in plan.slices for slice_ in one.after]
    planned = tuple(PlannedSlice(one, pruner.reason(one)) for one in slices)
    return Scan(table, timeline, plan.schema, planned, columns, _of_commits(plan, predicate))


def _of_commits(plan: IncrementalPlan, predicate: Predicate | None) -> Predicate:
    """Rows of the window's commits: as any other filter, so that statistics leave out as well."""
    commits = plan.commits
    in_window = Predicate(
        commits.expression, frozenset(commits.columns), (among(COMMIT_TIME, *commits.in_rows),)
    )
    if predicate is None:
        return in_window
    return Predicate(
        in_window.expression & predicate.expression,
        in_window.columns | predicate.columns,
        (*in_window.conditions, *predicate.conditions),
        predicate.opaque,
    )


def _columns(request: ReadRequest, schema: TableSchema) -> tuple[str, ...]:
    known = slice_schema(schema).names
    columns = request.columns or tuple(name for name in known if name not in META_COLUMNS)
    check_columns(columns, known)
    return columns
