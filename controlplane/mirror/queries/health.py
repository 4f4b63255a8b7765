"""What a table's mirror says about its health: named checks, each with its reason and what to do.

A few queries, whatever the table holds. Addresses and buttons belong to the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min, Q

from controlplane.mirror.event_times import AHEAD_MAX, ahead_s, event_time
from controlplane.mirror.health_check import Check
from controlplane.mirror.health_readers import read_alike
from controlplane.mirror.health_sinks import sink_columns, sinks_check
from controlplane.mirror.health_words import age_of, ago, many, spoken
from controlplane.mirror.models import HeartbeatRecord, InstantRecord, StreamStatus, SyncMark
from controlplane.tables.freshness import freshness
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.timeline.instant import State

PENDING_SERVICE_OLD_S = 3600
SAVEPOINT_OLD_S = 7 * 24 * 3600
PROPERTIES_NEW_S = 24 * 3600
DELTA_COMMITS_MAX = 5
"""Hudi's default of `hoodie.compact.inline.max.delta.commits`."""
COMMITS_UNCLEANED_MAX = 30
ACTIVE_COMMITS_MAX = 30
"""Hudi's default of `hoodie.keep.max.commits`: archiving begins above it."""
_WRITES = ("commit", "deltacommit", "replacecommit")
_SERVICES = ("compaction", "logcompaction", "clustering", "clean", "rollback", "restore")
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
    """All that the checks look at."""

    table: Table
    now: datetime
    pending: list[_Pending]
    beating: frozenset[InstantTime]
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
    read_otherwise: dict[str, Any]  # As in SyncMark.
    sinks: list[Check]


def health_checks(table: Table, now: datetime) -> list[Check]:
    """Every check that applies to this kind of table, what needs a person first."""
    known = _look(table, now)
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
        *_beside(known),
        *([read_alike(known.read_otherwise)] if table.table_type == "MERGE_ON_READ" else []),
        *([_clocks(known)] if known.claims else []),
        _known_files(known),
    ]
    order = ("bad", "warn", "quiet", "good")
    return sorted(checks, key=lambda check: order.index(check.verdict))


def _look(table: Table, now: datetime) -> _Known:
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
    done = Q(state=State.COMPLETED.value, action__in=_WRITES)
    counts = instants.aggregate(
        active=Count("pk", filter=done & Q(is_archived=False)),
        deltas=Count(
            "pk", filter=done & Q(action="deltacommit", completed_at__gt=newest.get("COMPACT", ""))
        ),
        uncleaned=Count("pk", filter=done & Q(completed_at__gt=newest.get("clean", ""))),
        unreadable=Count("pk", filter=Q(metadata__has_key="error")),
    )
    columns = sink_columns(now)
    marks = SyncMark.objects.filter(table=table).annotate(**columns)
    mark = marks.values("held_by", "unproved", "read_otherwise", *columns).first()
    return _Known(
        table=table,
        now=now,
        pending=_pending(instants.exclude(state=State.COMPLETED.value), now),
        beating=_beating(table, now),
        newest=newest,
        oldest_savepoint=oldest_savepoint,
        active_commits=counts["active"],
        delta_commits=counts["deltas"],
        commits_uncleaned=counts["uncleaned"],
        unreadable=counts["unreadable"],
        claims=_claims(table),
        held_by=mark["held_by"] if mark else {},
        unproved=mark["unproved"] if mark else [],
        read_otherwise=mark["read_otherwise"] if mark else {},
        sinks=sinks_check(mark, now) if mark else [],
    )


def _pending(instants: object, now: datetime) -> list[_Pending]:
    rows = instants.order_by("requested_at").values_list(  # type: ignore[attr-defined]
        "requested_at", "action", "writer_name"
    )
    return [
        _Pending(requested_at=at, action=action, writer=writer, age_s=age_of(at, now))
        for at, action, writer in rows[:_PENDING_READ_MAX]
    ]


def _beating(table: Table, now: datetime) -> frozenset[InstantTime]:
    beats = HeartbeatRecord.objects.filter(table=table, is_gone=False)
    return frozenset(
        beat.instant
        for beat in beats
        if beat.liveness(age_s=(now - beat.beat_at).total_seconds()) in ("alive", "suspect")
    )


def _claims(table: Table) -> dict[str, str]:
    streams = StreamStatus.objects.filter(table=table, last_event_time__isnull=False)
    newest_events = streams.order_by("stream").values_list("stream", "last_event_time")
    return {name: event for name, event in newest_events if event}


def _clocks(known: _Known) -> Check:
    ahead = {name: ahead_s(event_time(told), known.now) for name, told in known.claims.items()}
    wrong = {name: by_s for name, by_s in ahead.items() if by_s > AHEAD_MAX.total_seconds()}
    if not wrong:
        return Check(name="clocks", title="Clocks", verdict="good", sentence="No event is ahead")
    name = max(wrong, key=lambda stream: wrong[stream])
    hours = max(1, round(wrong[name] / 3600))
    return Check(
        name="clocks",
        title="Clocks",
        verdict="bad",
        sentence=f"An event of {name} is {hours} h ahead of the clock",
        advice="Later events of its key lose against it. Look at the clock of who stamps them, "
        "and write the key again with the time that is right, or delete it by key.",
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
            advice=f"{fresh.advice} The mirror tries again by itself.",
        )
    if fresh.age_s is None:
        return Check(
            name="mirror",
            title="Mirror reads storage",
            verdict="quiet",
            sentence="this table was never synced",
            advice="It is read within seconds while the workers run.",
        )
    is_behind = fresh.verdict == "stale"
    return Check(
        name="mirror",
        title="Mirror reads storage",
        verdict="warn" if is_behind else "good",
        sentence=f"last read {spoken(fresh.age_s)} ago",
        advice="Nothing here is newer than that; see whether the workers run." if is_behind else "",
    )


def _failed_writes(known: _Known) -> Check:
    writes = [one for one in known.pending if one.action not in _SERVICES]
    dead = [one for one in writes if one.requested_at not in known.beating]
    if not dead:
        return Check(
            name="failed-writes",
            title="No failed write is left",
            verdict="good",
            sentence="every pending write has a heartbeat" if writes else "no write is pending",
        )
    oldest = dead[0]
    return Check(
        name="failed-writes",
        title="No failed write is left",
        verdict="bad" if oldest.age_s > PENDING_SERVICE_OLD_S else "warn",
        sentence=f"{many(len(dead), 'pending write')} without a living heartbeat; the oldest began "
        f"{spoken(oldest.age_s)} ago" + (f", by {oldest.writer}" if oldest.writer else ""),
        advice="The next writer rolls it back; do it now if none comes.",
        instant=oldest.requested_at,
        remedy="rollback",
    )


def _stuck_services(known: _Known) -> Check:
    title = "Planned services run"
    planned = [one for one in known.pending if one.action in _SERVICES]
    old = [one for one in planned if one.age_s > PENDING_SERVICE_OLD_S]
    if not old:
        sentence = (
            f"{many(len(planned), 'plan')} pending, none for long" if planned else "none waits"
        )
        return Check(name="planned", title=title, verdict="good", sentence=sentence)
    first = old[0]
    return Check(
        name="planned",
        title=title,
        verdict="bad",
        sentence=f"a {first.action} waits since {spoken(first.age_s)}; it holds back cleaning and "
        "archiving",
        advice="Carry it out: it goes on where it stopped.",
        instant=first.requested_at,
        remedy=first.action,
    )


def _compaction(known: _Known) -> Check:
    last = known.newest.get("COMPACT")
    since = f"since the last compaction, {ago(last, known.now)}" if last else "and none compacted"
    sentence = f"{many(known.delta_commits, 'delta commit')} {since}"
    if known.delta_commits <= DELTA_COMMITS_MAX:
        return Check(
            name="compaction", title="Compaction keeps up", verdict="good", sentence=sentence
        )
    return Check(
        name="compaction",
        title="Compaction keeps up",
        verdict="bad" if known.delta_commits > 4 * DELTA_COMMITS_MAX else "warn",
        sentence=sentence,
        advice=f"More than {DELTA_COMMITS_MAX} slow every read down: compact.",
        remedy="compaction",
    )


def _cleaning(known: _Known) -> Check:
    last = known.newest.get("clean")
    since = f"since the last clean, {ago(last, known.now)}" if last else "and none cleaned"
    sentence = f"{many(known.commits_uncleaned, 'commit')} {since}"
    is_late = known.commits_uncleaned > COMMITS_UNCLEANED_MAX
    return Check(
        name="cleaning",
        title="Cleaner makes progress",
        verdict="warn" if is_late else "good",
        sentence=sentence,
        advice="Old file versions pile up: clean." if is_late else "",
        remedy="clean" if is_late else "",
    )


def _archiving(known: _Known) -> Check:
    sentence = f"{many(known.active_commits, 'commit')} on the active timeline"
    if known.active_commits <= ACTIVE_COMMITS_MAX:
        return Check(
            name="archiving", title="Timeline stays short", verdict="good", sentence=sentence
        )
    blocker = _what_blocks_archiving(known)
    return Check(
        name="archiving",
        title="Timeline stays short",
        verdict="bad" if blocker and known.active_commits > 4 * ACTIVE_COMMITS_MAX else "warn",
        sentence=sentence + (f"; {blocker[0]} blocks archiving" if blocker else ""),
        advice="Settle what blocks it, then archive." if blocker else "Archive the oldest ones.",
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
    return f"{words} of {ago(at, known.now)}", at


def _savepoints(known: _Known) -> Check:
    title = "No savepoint is forgotten"
    oldest = known.oldest_savepoint
    if oldest is None:
        return Check(name="savepoints", title=title, verdict="good", sentence="there is none")
    age_s = age_of(oldest, known.now)
    is_old = age_s > SAVEPOINT_OLD_S
    return Check(
        name="savepoints",
        title=title,
        verdict="warn" if is_old else "good",
        sentence=f"the oldest keeps a state of {spoken(age_s)} ago",
        advice="Its files are never cleaned and its commit never archived: is it still needed?"
        if is_old
        else "",
        instant=oldest,
        remedy="delete_savepoint" if is_old else "",
    )


def _known_files(known: _Known) -> Check:
    title, lost = "Every file's commit is known", known.unproved
    if not lost:
        sentence = "the timeline or its history tells of each"
        return Check(name="known-files", title=title, verdict="good", sentence=sentence)
    return Check(
        name="known-files",
        title=title,
        verdict="warn",
        sentence=f"files of {many(len(lost), 'instant')} count that neither the timeline nor its "
        f"history tells of, such as {lost[0]}",
        advice="Other engines count them too. If the history was lost, they are committed rows; if "
        "none was, a writer left them that was rolled back, and they have to be deleted.",
        instant=lost[0],
    )


def _readable(known: _Known) -> Check:
    return Check(
        name="readable",
        title="Every instant can be read",
        verdict="bad" if known.unreadable else "good",
        sentence=f"{many(known.unreadable, 'instant')} cannot be decoded"
        if known.unreadable
        else "all metadata was decoded",
        advice="See their details for what is wrong with the file." if known.unreadable else "",
    )


def _beside(known: _Known) -> list[Check]:
    """Only where there is something to tell."""
    table, title = known.table, "No other engine changed the table"
    if table.overtaken and table.write_refusal:
        last = table.overtaken[-1]
        sentence = f"{many(len(table.overtaken), 'instant')} met a change while being published"
        return [
            Check(
                name="beside",
                title=title,
                verdict="bad",
                sentence=f"{sentence}; the other engine may not know of their files",
                advice=last["change"],
                instant=last["instant"],
            )
        ]
    if not table.property_changes:
        return []
    last = table.property_changes[-1]
    age_s = known.now.timestamp() - last["at_ms"] / 1000
    is_new = age_s < PROPERTIES_NEW_S
    return [
        Check(
            name="beside",
            title=title,
            verdict="warn" if is_new else "quiet",
            sentence=f"{last['key']} was changed {spoken(age_s)} ago",
            advice="See the table's properties above; programs that have it open are refused "
            "where it matters."
            if is_new
            else "",
        )
    ]
