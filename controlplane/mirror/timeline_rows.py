"""The timeline as rows: what stands on it, and what was taken back from it, as long as a window
shows their time. Reads of the mirror; never touches storage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from controlplane.errors import InvalidRequest
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.models import HistoryCount, InstantRecord, SyncMark, UndoneRecord
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
_DAY = 8
"""Digits of an instant that name its day."""
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


@dataclass(frozen=True, slots=True)
class HistoryReach:
    """What is known of a table's history beforehand, for a search in it."""

    is_counted: bool
    """Whether the sync keeps counts of it, as of a long one."""
    first: str
    """No archived instant that was requested before this touches the window."""


def history_reach(table: Table, since: InstantTime | None = None) -> HistoryReach:
    """For windows from `since` on. One query."""
    days = HistoryCount.objects.filter(table=table, digits=_DAY)
    if since is not None:
        days = days.filter(stretch__lte=since[:_DAY], last_ended__gte=since)
    counted = SyncMark.objects.filter(table=table, is_history_counted=True)
    firsts = counted.annotate(first=Subquery(days.order_by("stretch").values("stretch")[:1]))
    for day in firsts.values_list("first", flat=True):
        # Where no day reaches so far, nothing before `since` does.
        return HistoryReach(is_counted=True, first=day or since or "")
    return HistoryReach(is_counted=False, first="")


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
    history: HistoryReach | None = None,
) -> TimelineWindow:
    """Instants whose bar touches [since, until], newest request first, `limit` at a time; those of
    the history and those that were taken back among them, unless `archived` says otherwise. Two
    queries, one more of a history that is counted, and one where `history` is not given.

    Raises InvalidRequest for a cursor that is none.
    """
    limit = max(1, min(limit, WINDOW_ROWS_MAX))
    wanted = None if actions is None else list(actions)
    shown = None if states is None else list(states)
    place = read_cursor(cursor)
    reach = history or history_reach(table, since)
    rows: list[InstantRow] = []
    # Of both together no index has the order, and a long history is not to be sorted.
    for part in (False, True) if archived is None and reach.is_counted else (archived,):
        if part and shown is not None and State.COMPLETED.value not in shown:
            continue
        instants = instants_in(
            table, since=since, until=until, actions=wanted, states=shown, archived=part
        )
        if part and reach.is_counted:
            instants = instants.filter(requested_at__gte=reach.first)
        newest = newest_after(instants, place, limit + 1).values_list(*_READ, named=True)
        rows += [instant_row(record) for record in newest]
    if archived is None:  # What was taken back is on neither timeline.
        undone = undone_in(table, since=since, until=until, actions=wanted, states=shown)
        rows += [_undone_row(record) for record in newest_after(undone, place, limit + 1)]
    rows.sort(key=lambda row: (row.requested_at, row.action), reverse=True)
    page, more = rows[:limit], len(rows) > limit
    return TimelineWindow(
        rows=page,
        next_cursor=f"{page[-1].requested_at}.{page[-1].action}" if more else None,
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


def undone_query(table: Table, limit: int) -> QuerySet[UndoneRecord]:
    """Return the query of the newest rolled back instants."""
    return undone_in(table).order_by("-ended_at")[:limit]


def undone_rows(records: Iterable[UndoneRecord]) -> list[InstantRow]:
    """List what `undone_query` found."""
    return [_undone_row(record) for record in records]


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


def newest_after(
    window: QuerySet[_Record], place: tuple[InstantTime, str] | None, limit: int
) -> QuerySet[_Record]:
    """The newest of them, or the newest behind the place that a cursor names."""
    if place is not None:
        at, action = place
        behind = Q(requested_at__lt=at) | Q(requested_at=at, action__lt=action)
        window = window.filter(behind)
    return window.order_by("-requested_at", "-action")[:limit]


def read_cursor(cursor: str | None) -> tuple[InstantTime, str] | None:
    """Instant time and action of the last row before a page; None for the first page.

    Raises InvalidRequest for what is no cursor.
    """
    if not cursor:
        return None
    requested_at, _, action = cursor.partition(".")
    if not INSTANT_TIME.match(requested_at) or not action.isalpha():
        raise InvalidRequest("invalid cursor", cursor=cursor[:64])
    return requested_at, action
