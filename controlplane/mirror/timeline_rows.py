"""The timeline as rows: what stands on it, and what was taken back from it, as long as a window
shows their time. Reads of the mirror; never touches storage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet

from controlplane.errors import InvalidRequest
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.models import InstantRecord, UndoneRecord
from controlplane.tables.models import Table
from workers.clock import InstantTime, parse_instant
from workers.timeline.instant import Action, State

WINDOW_ROWS_MAX = 3000
ACTIONS = tuple(action.value for action in Action)
CONFLICTED, ROLLED_BACK = "conflicted", "rolled_back"
UNDONE = (CONFLICTED, ROLLED_BACK)
STATES = (*(state.value for state in State), *UNDONE)
BORROWING = ("savepoint",)
"""Actions whose instant time is that of the commit that they are about."""
_Record = TypeVar("_Record", InstantRecord, UndoneRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantRow:
    requested_at: InstantTime
    """Its instant time: of a savepoint that of the commit which it keeps."""
    requested_ms: int
    action: str
    state: str
    """As on the timeline; conflicted or rolled_back for what was taken back from it."""
    completed_at: InstantTime | None
    completed_ms: int | None
    writer: str
    stream: str
    operation_type: str
    rows: int | None
    files: int | None
    bytes: int | None
    is_archived: bool = False
    undone_at: InstantTime | None = None
    """When it was taken back."""
    undone_by: InstantTime | None = None
    """The rollback or restore that did it, once it is through."""

    @property
    def is_undone(self) -> bool:
        return self.state in UNDONE

    @property
    def is_point(self) -> bool:
        """It has a moment of its own and no duration: when it was made."""
        return self.action in BORROWING

    @property
    def began_ms(self) -> int | None:
        """When it was asked for; None for a savepoint that is being made."""
        return self.completed_ms if self.is_point else self.requested_ms

    @property
    def ended_ms(self) -> int | None:
        """When it was completed or taken back; None while it is pending."""
        return parse_instant(self.undone_at) if self.undone_at else self.completed_ms


class _Read(Protocol):
    """The columns of an instant that its row shows: a model costs more to make than to read."""

    requested_at: InstantTime
    action: str
    state: str
    completed_at: InstantTime | None
    writer_name: str
    stream: str
    operation_type: str
    rows: int | None
    files: int | None
    bytes: int | None
    is_archived: bool


_READ = tuple(_Read.__annotations__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineWindow:
    rows: list[InstantRow]
    """Newest request first."""
    next_cursor: str | None
    """Hand it back for older rows."""
    total_in_window: int


def timeline_window(
    table: Table,
    *,
    since: InstantTime | None = None,
    until: InstantTime | None = None,
    actions: Iterable[str] | None = None,
    states: Iterable[str] | None = None,
    archived: bool | None = None,
    limit: int = WINDOW_ROWS_MAX,
    cursor: str | None = None,
) -> TimelineWindow:
    """Instants whose bar touches [since, until], newest request first, `limit` at a time; those of
    the history and those that were taken back among them, unless `archived` says otherwise.

    Raises InvalidRequest for a cursor that is none.
    """
    limit = max(1, min(limit, WINDOW_ROWS_MAX))
    wanted = None if actions is None else list(actions)
    shown = None if states is None else list(states)
    kept_instants = instants_in(
        table, since=since, until=until, actions=wanted, states=shown, archived=archived
    )
    undone = undone_in(table, since=since, until=until, actions=wanted, states=shown)
    if archived is not None:
        undone = undone.none()  # They are on neither timeline.
    newest = _newest(kept_instants, cursor, limit + 1).values_list(*_READ, named=True)
    rows = [instant_row(record) for record in newest]
    rows += [_undone_row(one) for one in _newest(undone, cursor, limit + 1)]
    rows.sort(key=lambda row: (row.requested_at, row.action), reverse=True)
    page, more = rows[:limit], len(rows) > limit
    is_counted = more or cursor
    return TimelineWindow(
        rows=page,
        next_cursor=f"{page[-1].requested_at}.{page[-1].action}" if more else None,
        total_in_window=kept_instants.count() + undone.count() if is_counted else len(page),
    )


def undone_in(
    table: Table,
    *,
    since: InstantTime | None = None,
    until: InstantTime | None = None,
    actions: Collection[str] | None = None,
    states: Collection[str] | None = None,
) -> QuerySet[UndoneRecord]:
    """What was taken back, and whether that was for a conflict (`is_conflict`)."""
    lost = table.conflicts.filter(loser_instant=OuterRef("requested_at"))
    window = UndoneRecord.objects.filter(table=table).annotate(is_conflict=Exists(lost))
    if since is not None:
        window = window.filter(ended_at__gte=since)
    if until is not None:
        window = window.filter(requested_at__lte=until)
    if actions is not None:
        window = window.filter(action__in=actions)
    if states is not None:
        kinds = [one == CONFLICTED for one in UNDONE if one in states]
        window = window.filter(is_conflict__in=kinds) if kinds else window.none()
    return window


def undone_row(table: Table, requested_at: InstantTime) -> InstantRow | None:
    record = undone_in(table).filter(requested_at=requested_at).first()
    return None if record is None else _undone_row(record)


def instants_in(
    table: Table,
    *,
    since: InstantTime | None = None,
    until: InstantTime | None = None,
    actions: Collection[str] | None = None,
    states: Collection[str] | None = None,
    archived: bool | None = None,
) -> QuerySet[InstantRecord]:
    """What is on the timeline or in its history, and touches [since, until]."""
    window = InstantRecord.objects.filter(table=table)
    if until is not None:
        made_later = Q(action__in=BORROWING, completed_at__gt=until)
        window = window.filter(requested_at__lte=until).exclude(made_later)
    if since is not None:
        window = window.filter(Q(completed_at__isnull=True) | Q(completed_at__gte=since))
    if actions is not None:
        window = window.filter(action__in=actions)
    if states is not None:
        window = window.filter(state__in=states)
    if archived is not None:
        window = window.filter(is_archived=archived)
    return window


def newest_undone(table: Table, limit: int) -> list[InstantRow]:
    """What was taken back last. One query."""
    return [_undone_row(one) for one in undone_in(table).order_by("-ended_at")[:limit]]


def instant_row(record: InstantRecord | _Read) -> InstantRow:
    return InstantRow(
        requested_at=record.requested_at,
        requested_ms=parse_instant(record.requested_at),
        action=record.action,
        state=record.state,
        completed_at=record.completed_at,
        completed_ms=None if record.completed_at is None else parse_instant(record.completed_at),
        writer=record.writer_name,
        stream=record.stream,
        operation_type=record.operation_type,
        rows=record.rows,
        files=record.files,
        bytes=record.bytes,
        is_archived=record.is_archived,
    )


def _undone_row(record: UndoneRecord) -> InstantRow:
    is_conflict = bool(vars(record)["is_conflict"])  # An annotation.
    return InstantRow(
        requested_at=record.requested_at,
        requested_ms=parse_instant(record.requested_at),
        action=record.action,
        state=CONFLICTED if is_conflict else ROLLED_BACK,
        completed_at=None,
        completed_ms=None,
        writer=record.writer_name,
        stream=record.stream,
        operation_type=record.operation_type,
        rows=record.rows,
        files=record.files,
        bytes=record.bytes,
        undone_at=record.ended_at,
        undone_by=record.undone_by or None,
    )


def _newest(window: QuerySet[_Record], cursor: str | None, limit: int) -> QuerySet[_Record]:
    return _after(window, cursor).order_by("-requested_at", "-action")[:limit]


def _after(window: QuerySet[_Record], cursor: str | None) -> QuerySet[_Record]:
    if not cursor:
        return window
    requested_at, _, action = cursor.partition(".")
    if not INSTANT_TIME.match(requested_at) or not action.isalpha():
        raise InvalidRequest("this is no cursor", cursor=cursor[:64])
    return window.filter(
        Q(requested_at__lt=requested_at) | Q(requested_at=requested_at, action__lt=action)
    )
