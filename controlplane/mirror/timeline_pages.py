"""A list of instants page by page; and a digest of a page, for a fraction of what it costs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

from django.db.models import QuerySet

from controlplane.kept_sql import KeptQuery, digests
from controlplane.mirror.timeline_rows import (
    CONFLICTED,
    ROLLED_BACK,
    WINDOW_ROWS_MAX,
    InstantRow,
    instants_in,
    newest_after,
    read_cursor,
    undone_in,
)
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant

_INSTANT: Final = (
    *("requested_at", "action", "state", "completed_at", "writer_name", "stream"),
    *("operation_type", "rows", "files", "bytes", "is_archived"),
)
_UNDONE: Final = (
    *("requested_at", "action", "is_conflict", "ended_at", "undone_by", "writer_name", "stream"),
    *("operation_type", "rows", "files", "bytes"),
)
_SHAPES_KEPT: Final = 256
_TABLE_MARK: Final = 9_000_000_000_000_000_001
_SINCE_MARK, _UNTIL_MARK, _AT_MARK = (f"{number:017}" for number in (1, 2, 3))
_ACTION_MARK: Final = "cursoraction"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Which instants of a table a list has: those whose bar touches [since, until], what was taken
    back among them, unless `archived` says otherwise.
    """

    since: InstantTime | None = None
    until: InstantTime | None = None
    actions: Collection[str] | None = None
    states: Collection[str] | None = None
    archived: bool | None = None
    limit: int = WINDOW_ROWS_MAX
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinePage:
    rows: list[InstantRow]
    """Newest request first."""
    next_cursor: str | None
    """Hand it back for older rows."""
    digest: str
    """Of all that this was made of; empty where the database makes none."""


def timeline_page(table: Table, listed: Listed) -> TimelinePage:
    """Two queries. Raises InvalidRequest for a cursor that is none."""
    shape, arguments = _shape_and_arguments(table, listed)
    instants, undone = _queries(shape)
    stand, of_stand = instants.rows_and_digest(*arguments)
    gone, of_gone = undone.rows_and_digest(*arguments)
    rows = [_instant(*row) for row in stand]
    if gone:
        rows += [_undone(*row) for row in gone]
        rows.sort(key=lambda row: (row.requested_at, row.action), reverse=True)
    limit = shape.rows - 1
    page, more = rows[:limit], len(rows) > limit
    return TimelinePage(
        rows=page,
        next_cursor=f"{page[-1].requested_at}.{page[-1].action}" if more else None,
        digest=_both(of_stand, of_gone),
    )


def timeline_digest(table: Table, listed: Listed) -> str:
    """The digest of the page as it is now. One query. Raises InvalidRequest, as the page does."""
    shape, arguments = _shape_and_arguments(table, listed)
    instants, undone = _queries(shape)
    return _both(*digests((instants, arguments), (undone, arguments)))


def _both(of_instants: str, of_undone: str) -> str:
    return f"{of_instants}.{of_undone}" if of_instants else ""


@dataclass(frozen=True, slots=True)
class _Shape:
    """All that decides about the words of the two queries."""

    has_since: bool
    has_until: bool
    has_cursor: bool
    actions: tuple[str, ...] | None
    states: tuple[str, ...] | None
    archived: bool | None
    rows: int
    """One more than the page shows: whether there are more."""


def _shape_and_arguments(table: Table, listed: Listed) -> tuple[_Shape, list[object]]:
    limit = max(1, min(listed.limit, WINDOW_ROWS_MAX))
    place = read_cursor(listed.cursor)
    shape = _Shape(
        has_since=listed.since is not None,
        has_until=listed.until is not None,
        has_cursor=place is not None,
        actions=None if listed.actions is None else tuple(sorted({*listed.actions})),
        states=None if listed.states is None else tuple(sorted({*listed.states})),
        archived=listed.archived,
        rows=limit + 1,
    )
    given = [table.pk, listed.since, listed.until, *(place or ())]
    return shape, [argument for argument in given if argument is not None]


@lru_cache(_SHAPES_KEPT)
def _queries(shape: _Shape) -> tuple[KeptQuery[Any], KeptQuery[Any]]:
    """What stands, and what was taken back."""
    marks: list[object] = [_TABLE_MARK]
    marks += [_SINCE_MARK] if shape.has_since else []
    marks += [_UNTIL_MARK] if shape.has_until else []
    marks += [_AT_MARK, _ACTION_MARK] if shape.has_cursor else []
    return KeptQuery(partial(_instants, shape), *marks), KeptQuery(partial(_gone, shape), *marks)


def _instants(shape: _Shape, *_marks: object) -> QuerySet[Any, Any]:
    window = instants_in(
        Table(pk=_TABLE_MARK), **_bounds(shape), **_chosen(shape), archived=shape.archived
    )
    return newest_after(window, _place(shape), shape.rows).values_list(*_INSTANT)


def _gone(shape: _Shape, *_marks: object) -> QuerySet[Any, Any]:
    window = undone_in(Table(pk=_TABLE_MARK), **_bounds(shape), **_chosen(shape))
    if shape.archived is not None:
        window = window.none()  # They are on neither timeline.
    return newest_after(window, _place(shape), shape.rows).values_list(*_UNDONE)


def _bounds(shape: _Shape) -> dict[str, Any]:
    return {
        "since": _SINCE_MARK if shape.has_since else None,
        "until": _UNTIL_MARK if shape.has_until else None,
    }


def _chosen(shape: _Shape) -> dict[str, Any]:
    return {"actions": shape.actions, "states": shape.states}


def _place(shape: _Shape) -> tuple[str, str] | None:
    return (_AT_MARK, _ACTION_MARK) if shape.has_cursor else None


def _instant(
    requested_at: InstantTime,
    action: str,
    state: str,
    completed_at: InstantTime | None,
    writer: str,
    stream: str,
    operation_type: str,
    rows: int | None,
    files: int | None,
    size: int | None,
    is_archived: bool,
) -> InstantRow:
    return InstantRow(
        requested_at=requested_at,
        requested_ms=parse_instant(requested_at),
        action=action,
        state=state,
        completed_at=completed_at,
        completed_ms=None if completed_at is None else parse_instant(completed_at),
        writer=writer,
        stream=stream,
        operation_type=operation_type,
        rows=rows,
        files=files,
        bytes=size,
        is_archived=is_archived,
    )


def _undone(
    requested_at: InstantTime,
    action: str,
    is_conflict: bool,
    ended_at: InstantTime,
    undone_by: InstantTime,
    writer: str,
    stream: str,
    operation_type: str,
    rows: int | None,
    files: int | None,
    size: int | None,
) -> InstantRow:
    return InstantRow(
        requested_at=requested_at,
        requested_ms=parse_instant(requested_at),
        action=action,
        state=CONFLICTED if is_conflict else ROLLED_BACK,
        completed_at=None,
        completed_ms=None,
        writer=writer,
        stream=stream,
        operation_type=operation_type,
        rows=rows,
        files=files,
        bytes=size,
        undone_at=ended_at,
        undone_by=undone_by or None,
    )
