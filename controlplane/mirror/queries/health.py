"""Health checks of a table from its mirror: named checks, each with its reason and what to do.

A few queries, whatever the table holds. Addresses and buttons belong to the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet

from controlplane.mirror.event_times import ahead_s, event_time
from controlplane.mirror.health_beside import beside_check
from controlplane.mirror.health_check import Check
from controlplane.mirror.health_clocks import host_clock_checks
from controlplane.mirror.health_commits import (
    amplification_check,
    amplification_columns,
    commit_check,
)
from controlplane.mirror.health_files import file_checks, file_columns
from controlplane.mirror.health_history import history_check
from controlplane.mirror.health_masks import mask_check, mask_columns
from controlplane.mirror.health_readers import read_alike
from controlplane.mirror.health_sinks import sink_columns, sinks_check
from controlplane.mirror.health_suspects import (
    Beats,
    beats_at,
    beats_query,
    orphan_check,
    orphan_columns,
    suspect_check,
)
from controlplane.mirror.health_words import age_of, ago, many, spoken
from controlplane.mirror.models import InstantRecord, StreamStatus, SyncMark
from controlplane.mirror.thresholds import Limits, defaults
from controlplane.read_together import read_together
from controlplane.tables.freshness import freshness
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime
from workers.timeline.instant import State

_SERVICES = ("compaction", "logcompaction", "clustering", "clean", "rollback", "restore")
_COMMITTED = Q(state=State.COMPLETED.value, action__in=DATA_ACTIONS)
_PENDING_READ_MAX = 500
_REWRITES = ("COMPACT", "LOG_COMPACT", "CLUSTER")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    requested_at: InstantTime
    action: str
    writer: str
    age_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The inputs of the checks."""

    table: Table
    now: datetime
    limits: Limits
    pending: list[_Pending]
    beats: Beats
    newest: dict[str, InstantTime]
    """Newest completion per action; rewriting operations by their own names too."""
    oldest_savepoint: InstantTime | None
    active_commits: int
    delta_commits: int
    """Completed since the last compaction."""
    commits_uncleaned: int
    unreadable: int
    claims: dict[str, str]
    """By stream its newest event as it claims it."""
    held_by: dict[str, str]  # As in SyncMark, as is the next.
    unproved: list[InstantTime]
    read_otherwise: dict[str, Any]  # As in SyncMark, as is the next.
    lost_history: dict[str, Any]
    sinks: list[Check]
    of_mark: list[Check]
    """Of small files, skew, orphans and masks."""
    rows: Mapping[str, int | None]  # Those of `amplification_columns` among others.


def health_checks(table: Table, now: datetime, limits: Limits | None = None) -> list[Check]:
    """Every check that applies to this kind of table, what needs a person first. Without `limits`
    the thresholds are those that hold where nobody set others.
    """
    known = _look(table, now, limits or defaults())
    checks = [
        _mirror(known),
        _failed_writes(known),
        _stuck_services(known),
        *([_compaction(known)] if table.table_type == "MERGE_ON_READ" else []),
        _cleaning(known),
        _archiving(known),
        _savepoints(known),
        *known.sinks,
        _readable(known),
        *beside_check(table, now),
        *([read_alike(known.read_otherwise)] if table.table_type == "MERGE_ON_READ" else []),
        *([_clocks(known)] if known.claims else []),
        *host_clock_checks(table, now),
        _known_files(known),
        history_check(known.lost_history),
        *commit_check(known.newest, known.limits, now),
        *suspect_check(known.beats),
        *known.of_mark,
        *amplification_check(known.rows, known.limits),
    ]
    order = ("bad", "warn", "quiet", "good")
    return sorted(checks, key=lambda check: order.index(check.verdict))


def _look(table: Table, now: datetime, limits: Limits) -> _Known:
    instants = InstantRecord.objects.filter(table=table)
    newest: dict[str, InstantTime] = {}
    oldest_savepoint = None
    for action, operation, is_archived, last, first in (
        instants.filter(state=State.COMPLETED.value)
        .order_by()
        .values_list("action", "operation_type", "is_archived")
        .annotate(last=Max("completed_at"), first=Min("requested_at"))
    ):
        for name in {action, operation if operation in _REWRITES else action}:
            newest[name] = max(newest.get(name, ""), last or "")
        if action == "savepoint" and not is_archived:
            oldest_savepoint = min(first, oldest_savepoint or first)
    counts = instants.aggregate(
        active=Count("pk", filter=_COMMITTED & Q(is_archived=False)),
        deltas=Count(
            "pk",
            filter=_COMMITTED & Q(action="deltacommit", completed_at__gt=newest.get("COMPACT", "")),
        ),
        uncleaned=Count("pk", filter=_COMMITTED & Q(completed_at__gt=newest.get("clean", ""))),
        unreadable=Count("pk", filter=Q(metadata__has_key="error")),
        **amplification_columns(_COMMITTED & Q(is_archived=False)),
    )
    columns = {
        **sink_columns(now),
        **file_columns(limits),
        **orphan_columns(limits, now),
        **mask_columns(),
    }
    marks = SyncMark.objects.filter(table=table).annotate(**columns)
    kept = ("held_by", "unproved", "unmarked", "read_otherwise", "lost_history")
    marked, opened, claimed = (
        marks.values(*kept, *columns)[:1],
        _open_query(table),
        _claims_query(table),
    )
    beats = beats_query(table)
    read_together(marked, opened, claimed, beats)
    mark = next(iter(marked), None)
    return _Known(
        table=table,
        now=now,
        limits=limits,
        pending=[
            _Pending(requested_at=at, action=action, writer=writer, age_s=age_of(at, now))
            for at, action, writer in opened
        ],
        beats=beats_at(beats, now),
        newest=newest,
        oldest_savepoint=oldest_savepoint,
        active_commits=counts["active"],
        delta_commits=counts["deltas"],
        commits_uncleaned=counts["uncleaned"],
        unreadable=counts["unreadable"],
        claims={name: event for name, event in claimed if event},
        held_by=mark["held_by"] if mark else {},
        unproved=mark["unproved"] if mark else [],
        read_otherwise=mark["read_otherwise"] if mark else {},
        lost_history=mark["lost_history"] if mark else {},
        sinks=sinks_check(mark, now) if mark else [],
        of_mark=[
            *file_checks(mark, limits),
            *orphan_check(mark, now),
            *(mask_check(table) if mark["has_masks"] else []),
        ]
        if mark
        else [],
        rows=counts,
    )


def _open_query(table: Table) -> QuerySet[InstantRecord, Any]:
    """Return the query of instants that are not completed, the oldest first. It asks for what the
    index of pending ones has.
    """
    opened = InstantRecord.objects.filter(table=table, completed_at__isnull=True)
    columns = ("requested_at", "action", "writer_name")
    return opened.order_by("requested_at").values_list(*columns)[:_PENDING_READ_MAX]


def _claims_query(table: Table) -> QuerySet[StreamStatus, Any]:
    """Return the query of streams with their newest event times."""
    streams = StreamStatus.objects.filter(table=table, last_event_time__isnull=False)
    return streams.order_by("stream").values_list("stream", "last_event_time")


def _clocks(known: _Known) -> Check:
    ahead = {name: ahead_s(event_time(told), known.now) for name, told in known.claims.items()}
    most_s = known.limits["clock-ahead"] * 60
    wrong = {name: by_s for name, by_s in ahead.items() if by_s > most_s}
    if not wrong:
        return Check(
            name="clocks", title="Clocks", verdict="good", sentence="no event is ahead of the clock"
        )
    name = max(wrong, key=lambda stream: wrong[stream])
    return Check(
        name="clocks",
        title="Clocks",
        verdict="bad",
        sentence=f"an event of {name} is {spoken(wrong[name])} ahead of the clock",
        advice="Later events of its key lose against it. Check the clock of the producer. Then "
        "write the key again with the correct time, or delete it by key.",
    )


def _mirror(known: _Known) -> Check:
    table = known.table
    fresh = freshness(table, now=known.now)
    if fresh.reason:
        return Check(
            name="mirror",
            title="Mirror reads storage",
            verdict="bad",
            sentence=f"{fresh.title}: {fresh.reason}",
            advice=f"{fresh.advice} The mirror retries automatically.",
        )
    if fresh.age_s is None:
        return Check(
            name="mirror",
            title="Mirror reads storage",
            verdict="quiet",
            sentence="never synced",
            advice="Running workers sync it within seconds.",
        )
    is_behind = fresh.age_s > known.limits["mirror-lag"]
    return Check(
        name="mirror",
        title="Mirror reads storage",
        verdict="warn" if is_behind else "good",
        sentence=f"last read {spoken(fresh.age_s)} ago",
        advice="The page shows no newer data. Check that the workers run." if is_behind else "",
    )


def _failed_writes(known: _Known) -> Check:
    writes = [one for one in known.pending if one.action not in _SERVICES]
    dead = [one for one in writes if one.requested_at not in known.beats.living]
    if not dead:
        return Check(
            name="failed-writes",
            title="No failed writes left",
            verdict="good",
            sentence="every pending write has a heartbeat" if writes else "no write is pending",
        )
    oldest = dead[0]
    return Check(
        name="failed-writes",
        title="No failed writes left",
        verdict="bad" if oldest.age_s > known.limits["dead-write"] * 60 else "warn",
        sentence=f"{many(len(dead), 'pending write')} without a live heartbeat; the oldest began "
        f"{spoken(oldest.age_s)} ago" + (f", by {oldest.writer}" if oldest.writer else ""),
        advice="The next writer rolls it back. Roll it back now if no write is due.",
        instant=oldest.requested_at,
        remedy="rollback",
    )


def _stuck_services(known: _Known) -> Check:
    title = "Planned services run"
    planned = [one for one in known.pending if one.action in _SERVICES]
    old = [one for one in planned if one.age_s > known.limits["planned-service"] * 60]
    if not old:
        sentence = (
            f"{many(len(planned), 'plan')} pending, none for long" if planned else "no pending plan"
        )
        return Check(name="planned", title=title, verdict="good", sentence=sentence)
    first = old[0]
    return Check(
        name="planned",
        title=title,
        verdict="bad",
        sentence=f"a {first.action} has been pending for {spoken(first.age_s)}; it blocks "
        "cleaning and archiving",
        advice="Run it: it continues where it stopped.",
        instant=first.requested_at,
        remedy=first.action,
    )


def _compaction(known: _Known) -> Check:
    last = known.newest.get("COMPACT")
    since = (
        f"since the last compaction, {ago(last, known.now)}" if last else "and no compaction yet"
    )
    sentence = f"{many(known.delta_commits, 'delta commit')} {since}"
    most = known.limits["compaction-commits"]
    if known.delta_commits <= most:
        return Check(
            name="compaction", title="Compaction keeps up", verdict="good", sentence=sentence
        )
    return Check(
        name="compaction",
        title="Compaction keeps up",
        verdict="bad" if known.delta_commits > 4 * most else "warn",
        sentence=sentence,
        advice=f"More than {most:g} slow down every read. Compact the table.",
        remedy="compaction",
    )


def _cleaning(known: _Known) -> Check:
    last = known.newest.get("clean")
    since = f"since the last clean, {ago(last, known.now)}" if last else "and no clean"
    sentence = f"{many(known.commits_uncleaned, 'commit')} {since}"
    is_late = known.commits_uncleaned > known.limits["clean-commits"]
    return Check(
        name="cleaning",
        title="Cleaner makes progress",
        verdict="warn" if is_late else "good",
        sentence=sentence,
        advice="Old file versions accumulate. Clean the table." if is_late else "",
        remedy="clean" if is_late else "",
    )


def _archiving(known: _Known) -> Check:
    title = "Timeline stays short"
    sentence = f"{many(known.active_commits, 'commit')} on the active timeline"
    most = known.limits["active-commits"]
    if known.active_commits <= most:
        return Check(name="archiving", title=title, verdict="good", sentence=sentence)
    blocker = _what_blocks_archiving(known)
    return Check(
        name="archiving",
        title=title,
        verdict="bad" if blocker and known.active_commits > 4 * most else "warn",
        sentence=sentence + (f"; {blocker[0]} blocks archiving" if blocker else ""),
        advice="Resolve the blocker, then archive." if blocker else "Archive the oldest commits.",
        instant=blocker[1] if blocker else "",
        remedy="archive",
    )


def _what_blocks_archiving(known: _Known) -> tuple[str, InstantTime] | None:
    """The oldest that the archiver must not pass: pending, savepointed, or its writer may live."""
    candidates = [(one.requested_at, f"a pending {one.action}") for one in known.pending[:1]]
    if known.oldest_savepoint:
        candidates.append((known.oldest_savepoint, "a savepoint"))
    if held := known.held_by:
        why = f"a writer that was rolled back and may still live ({held['writer']})"
        candidates.append((held["instant"], why))
    if not candidates:
        return None
    at, words = min(candidates)
    if _commits_after(known.table, at) <= known.limits["active-commits"]:
        return None
    return f"{words} of {ago(at, known.now)}", at


def _commits_after(table: Table, requested_at: InstantTime) -> int:
    """How many stay on the active timeline whatever is archived up to this instant."""
    active = InstantRecord.objects.filter(_COMMITTED, table=table, is_archived=False)
    return active.filter(requested_at__gt=requested_at).count()


def _savepoints(known: _Known) -> Check:
    title = "No stale savepoints"
    oldest = known.oldest_savepoint
    if oldest is None:
        return Check(name="savepoints", title=title, verdict="good", sentence="no savepoint")
    age_s = age_of(oldest, known.now)
    is_old = age_s > known.limits["savepoint-age"] * 86_400
    return Check(
        name="savepoints",
        title=title,
        verdict="warn" if is_old else "good",
        sentence=f"the oldest savepoint is of a state {spoken(age_s)} old",
        advice="Its files are never cleaned and its commit is never archived. Delete it if unused."
        if is_old
        else "",
        instant=oldest,
        remedy="delete_savepoint" if is_old else "",
    )


def _known_files(known: _Known) -> Check:
    title, lost = "Every file's commit is known", known.unproved
    if not lost:
        sentence = "the timeline contains the commit of every file"
        return Check(name="known-files", title=title, verdict="good", sentence=sentence)
    return Check(
        name="known-files",
        title=title,
        verdict="warn",
        sentence=f"files of {many(len(lost), 'instant')} that are not on the active or archived "
        f"timeline, such as {lost[0]}",
        advice="Other engines read these files too. If part of the archived timeline was lost, "
        "they contain committed rows. If not, a rolled-back writer left them: delete them.",
        instant=lost[0],
    )


def _readable(known: _Known) -> Check:
    return Check(
        name="readable",
        title="Every instant is readable",
        verdict="bad" if known.unreadable else "good",
        sentence=f"{many(known.unreadable, 'instant')} cannot be decoded"
        if known.unreadable
        else "all commit metadata was decoded",
        advice="See the details of these instants for the error." if known.unreadable else "",
    )
