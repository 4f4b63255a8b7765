"""Begin and commit, each under the table lock; the order of steps is the protocol (design 2).

begin:  finish decided instants -> instant time -> heartbeat -> requested -> inflight.
commit: finish decided instants -> reload -> schema conflict -> file conflict -> properties as they
        were -> confirm lease -> completion time -> content -> decision -> completed file; then,
        without the lock, the properties once more. What other engines would miss of it is stated
        again by an instant that is begun before the decision and decided with it (`restating`).
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from workers import stop_points
from workers.clock import InstantTime, next_instant
from workers.concurrency.beginning import begin_under, note_sleeper
from workers.concurrency.conflicts import Conflict, write_set
from workers.concurrency.file_conflicts import RivalCheck
from workers.concurrency.heartbeat import HeartbeatContent, HeartbeatKeeper
from workers.concurrency.locks.lease import Lease, TableLock, holding_text
from workers.concurrency.locks.opening import BoundLock
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted, RolledBack, Unknown
from workers.concurrency.proposal import Proposal
from workers.concurrency.read_otherwise import read_ahead, warnings_of
from workers.concurrency.restating import begun, look_ahead, restatement
from workers.concurrency.schema_resolution import SchemaAtStart, resolved_schema
from workers.concurrency.silence import BY, rolled_back_in_silence
from workers.concurrency.taken_back import lost_base
from workers.errors import (
    InstantRolledBack,
    LeaseLost,
    MalformedTable,
    ServiceBusy,
    StorageFailed,
    WriteOutcomeUnknown,
)
from workers.options.write_options import WriteOptions
from workers.options.writer_modes import ConcurrencyMode
from workers.table.overtaken import look_again
from workers.table.schema_history import SchemaVersion, schema_at
from workers.table.table import Table
from workers.timeline import decisions, transitions
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action, Instant, State
from workers.timeline.metadata import (
    LOCK_KEY,
    SCHEMA_KEY,
    SCHEMA_RESOLUTION_KEY,
)
from workers.timeline.read_otherwise import encoded_counts
from workers.timeline.settled import settled_decision
from workers.timeline.timeline import Timeline

TAKEOVER = "takeover"
_LEASE_LOST = "the table lock ran out before anything was decided"
_LEASES_MAX = 3
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Started:
    """A transaction's view of the table when it began."""

    instant: Instant
    timeline: Timeline
    """Without our own instant."""
    schema: SchemaVersion | None
    heartbeat: HeartbeatKeeper


def table_lock(table: Table, options: WriteOptions) -> TableLock:
    """The lock that the table is bound to; who takes it over fences the former holder first."""
    return BoundLock(table.storage, table.ports, options, on_takeover=partial(fence_sleeper, table))


def fence_sleeper(table: Table, completing: str) -> None:
    """The former holder let its lease run out while deciding: it must not decide any more.

    `completing` is the instant that it was completing, or `<target>+<rollback>` for an undo.
    """
    target, _, by = completing.partition("+")
    if by:
        decisions.fence_undo(table.storage, target, by=by)
        return
    note_sleeper(table.storage, target)
    decision = RollbackDecision(
        by=TAKEOVER,
        nonce=table.ports.ids.token(),
        reason="the writer held the table lock past its lease",
    )
    decisions.decide(table.storage, target, decision)


def settled_timeline(table: Table) -> Timeline:
    """The timeline once every decided commit is published. Under the table lock only."""
    timeline = table.timeline()
    if transitions.finish_decided(table.storage, timeline):
        return table.timeline()
    return timeline


def begin(
    table: Table,
    options: WriteOptions,
    content: HeartbeatContent,
    action: Action | None = None,
) -> Started:
    """Start an instant of `action`, by default the table's own for writes; another one when the
    lease ran out: whoever slept may have begun beside somebody else. The first is gone then.
    Raises LockTimeout, StorageFailed, LeaseLost when that happens again and again.
    """
    for _ in range(_LEASES_MAX - 1):
        try:
            return _begin_once(table, options, content, action)
        except LeaseLost as lost:
            _log.warning("begun anew: writer=%s reason=%s", content.writer, lost)
    return _begin_once(table, options, content, action)


def _begin_once(
    table: Table, options: WriteOptions, content: HeartbeatContent, action: Action | None
) -> Started:
    with ExitStack() as undo:
        with table_lock(table, options).held() as lease:
            timeline = settled_timeline(table)
            refuse_during_restore(timeline)
            requested_at = next_instant(table.ports.clock, timeline.last_time)
            heartbeat = HeartbeatKeeper(table.storage, table.ports, requested_at, content)
            # A heart that beats on after a failure would keep anybody from rolling this back.
            undo.callback(heartbeat.stop)
            heartbeat.start()
            inflight = begin_under(table, lease, heartbeat, action or table.data_action)
            started = Started(inflight, timeline, schema_at(table, timeline), heartbeat)
        undo.pop_all()
    stop_points.reach("after_start", writer=content.writer)
    return started


def refuse_during_restore(timeline: Timeline) -> None:
    """What would be built on is being taken back. Raises ServiceBusy."""
    for instant in timeline.pending():
        if instant.action is Action.RESTORE:
            what = "the table is being restored; if nobody does it any more, run the restore again"
            raise ServiceBusy(what, instant=instant.requested_at)


def commit(
    table: Table, options: WriteOptions, started: Started, proposal: Proposal
) -> CommitOutcome:
    """Validate and decide under the lock; begun anew when the lease ran out before anything was
    decided.

    Raises LockTimeout; UnsupportedTable and TableChanged with nothing decided.
    """
    rivals = _rival_check(table, options, started, proposal)
    if options.mode is ConcurrencyMode.SINGLE_WRITER:
        read_ahead(started.timeline, proposal.read_otherwise)
    else:
        rivals.look_ahead()
        read_ahead(table.timeline(), proposal.read_otherwise)
        look_ahead(table, started.timeline, proposal.overtaken)
    outcome = _commit_once(table, options, started, proposal, rivals)
    for _ in range(_LEASES_MAX - 1):
        if not (isinstance(outcome, Unknown) and outcome.reason == _LEASE_LOST):
            break
        outcome = _commit_once(table, options, started, proposal, rivals)
    if isinstance(outcome, Committed):
        warnings = (*outcome.warnings, *look_again(table, outcome.instant))
        return replace(outcome, warnings=warnings)
    return outcome


def _rival_check(
    table: Table, options: WriteOptions, started: Started, proposal: Proposal
) -> RivalCheck:
    ours = write_set(
        started.instant.requested_at,
        proposal.metadata,
        proposal.writer,
        whole_partitions=proposal.whole_partitions,
        is_whole_table=proposal.is_whole_table,
    )
    return RivalCheck(
        table, options.mode, started.timeline, ours, proposal.metadata, proposal.sought
    )


def _commit_once(
    table: Table,
    options: WriteOptions,
    started: Started,
    proposal: Proposal,
    rivals: RivalCheck,
) -> CommitOutcome:
    instant = started.instant
    try:
        with table_lock(table, options).held(completing=instant.requested_at) as lease:
            stop_points.reach("before_validate", writer=proposal.writer)
            timeline = settled_timeline(table)
            if (gone := _taken_away(table, started, timeline, proposal)) is not None:
                return gone
            verdict, timeline = _validated_twice(
                table, options, started, timeline, proposal, rivals
            )
            if isinstance(verdict, Conflict):
                return Conflicted(instant.requested_at, verdict)
            # Last of all: an engine that changes the table may not take our lock.
            table.check_writable()
            return _decide(table, options, instant, timeline, lease, verdict)
    except InstantRolledBack:
        return current_outcome(table, instant.requested_at)
    except LeaseLost:
        return _after_failure(table, instant.requested_at, _LEASE_LOST)
    except (WriteOutcomeUnknown, StorageFailed) as error:
        return _after_failure(table, instant.requested_at, str(error))


def current_outcome(table: Table, instant: InstantTime) -> CommitOutcome:
    """What the decision object, or the history, says now; Unknown while neither does."""
    match settled_decision(table.storage, instant):
        case CommitDecision(completed_at=completed_at):
            return Committed(instant, completed_at)
        case RollbackDecision(by=by, reason=reason):
            return RolledBack(instant, by, reason)
        case None:
            return Unknown(instant, "no decision was made")


def _after_failure(table: Table, instant: InstantTime, reason: str) -> CommitOutcome:
    try:
        outcome = current_outcome(table, instant)
    except (StorageFailed, WriteOutcomeUnknown) as error:
        return Unknown(instant, f"{reason}; then {error}")
    return replace(outcome, reason=reason) if isinstance(outcome, Unknown) else outcome


def _taken_away(
    table: Table, started: Started, timeline: Timeline, proposal: Proposal
) -> CommitOutcome | None:
    """Not None when the instant was decided, or a foreign writer removed it, while we worked."""
    instant = started.instant.requested_at
    if decisions.is_settled(table.storage, instant):
        return current_outcome(table, instant)
    mine = timeline.find(instant)
    if mine is None or mine.state is not State.INFLIGHT:
        return RolledBack(instant, BY, "its timeline files are gone")
    if started.heartbeat.has_lapsed:
        return rolled_back_in_silence(table, instant, timeline, proposal.metadata.paths)
    return None


def _validated_twice(
    table: Table,
    options: WriteOptions,
    started: Started,
    timeline: Timeline,
    proposal: Proposal,
    rivals: RivalCheck,
) -> tuple[Proposal | Conflict, Timeline]:
    """Once more when a commit could not be read and the timeline is another one now: an archiver of
    another engine moved it away under us (E-16). Raises MalformedTable naming the instant.
    """
    try:
        return _validated(table, options, started, timeline, proposal, rivals), timeline
    except MalformedTable:
        fresh = settled_timeline(table)
        if fresh.instants == timeline.instants:
            raise
        return _validated(table, options, started, fresh, proposal, rivals), fresh


def _validated(
    table: Table,
    options: WriteOptions,
    started: Started,
    timeline: Timeline,
    proposal: Proposal,
    rivals: RivalCheck,
) -> Proposal | Conflict:
    verdict = proposal.condition(timeline) if proposal.condition else {}
    if isinstance(verdict, Conflict):
        return verdict
    proposal = replace(proposal, metadata=proposal.metadata.with_extra(**verdict))
    if (
        lost := lost_base(table, started.timeline, timeline, proposal.metadata, proposal.writer)
    ) is not None:
        return lost
    # A single writer is checked too: it costs nothing when it is alone, and loses nothing when it
    # is not.
    resolved = _resolve_schema(table, options, started, timeline, proposal)
    if isinstance(resolved, Conflict):
        return resolved
    return rivals.conflict(timeline) or _with_restatement(table, started, timeline, resolved)


def _with_restatement(
    table: Table, started: Started, timeline: Timeline, proposal: Proposal
) -> Proposal:
    """Knowing what readers that go by the time of request would not see of it, and which keys they
    read otherwise all the same.
    """
    again = restatement(
        table,
        timeline,
        started.timeline,
        started.instant.requested_at,
        proposal.schema,
        proposal.writer,
        proposal.overtaken,
    )
    if proposal.read_otherwise is None:
        return replace(proposal, again=again)
    counts = proposal.read_otherwise.counted(timeline, again.rows if again else None)
    metadata = proposal.metadata.with_extra(**encoded_counts(counts))
    return replace(proposal, again=again, metadata=metadata, keys_read_otherwise=counts)


def _resolve_schema(
    table: Table, options: WriteOptions, started: Started, timeline: Timeline, proposal: Proposal
) -> Proposal | Conflict:
    start = SchemaAtStart(
        instant=started.instant.requested_at,
        timeline=started.timeline,
        version=started.schema,
        writer=proposal.writer,
        schema=proposal.schema,
        written=proposal.written,
        deletes_only=proposal.deletes_only,
        logs=tuple(one.path for one in proposal.metadata.stats if one.is_log),
    )
    resolved = resolved_schema(table, options, start, timeline)
    if isinstance(resolved, Conflict):
        return resolved
    extra = {SCHEMA_KEY: resolved.schema.avro_json, SCHEMA_RESOLUTION_KEY: resolved.record}
    metadata = proposal.metadata.with_extra(**extra)
    return replace(proposal, metadata=metadata, schema=resolved.schema)


def _decide(
    table: Table,
    options: WriteOptions,
    instant: Instant,
    timeline: Timeline,
    lease: Lease,
    proposal: Proposal,
) -> Committed:
    clock = table.ports.clock
    with begun(table, options, timeline, proposal.again) as follower:
        lease.confirm()  # It may have run out while we compared.
        stop_points.reach("before_publish", writer=proposal.writer)
        last = follower.inflight.requested_at if follower else timeline.last_time
        completed_at = next_instant(clock, last)
        metadata = proposal.metadata.with_extra(**{LOCK_KEY: holding_text(lease)})
        completion = transitions.Completion(
            instant=instant.completed(completed_at),
            content=metadata.encode(instant.action),
            nonce=table.ports.ids.token(),
            writer=proposal.writer,
            following=follower.completed(next_instant(clock, completed_at)) if follower else None,
        )
        transitions.complete(table.storage, completion)
    stop_points.reach("after_publish", writer=proposal.writer)
    return Committed(
        instant.requested_at,
        completed_at,
        proposal.rows,
        warnings=warnings_of(proposal.keys_read_otherwise),
        restated_by=follower.inflight.requested_at if follower else None,
        restated_keys=follower.keys if follower else 0,
        keys_read_otherwise=sum(proposal.keys_read_otherwise.values()),
    )
