"""Begin and commit, each under the table lock; the order of steps is the protocol (design 2).

begin:  finish decided instants -> instant time -> heartbeat -> requested -> inflight.
commit: finish decided instants -> reload -> schema conflict -> file conflict -> confirm lease ->
completion time
        -> content -> decision -> completed file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from workers import stop_points
from workers.clock import InstantTime, next_instant
from workers.concurrency.conflicts import Conflict, write_set
from workers.concurrency.file_conflicts import RivalCheck
from workers.concurrency.heartbeat import HeartbeatContent, HeartbeatKeeper
from workers.concurrency.locks.lease import Lease, TableLock, told_of
from workers.concurrency.locks.opening import BoundLock
from workers.concurrency.outcome import (
    CommitOutcome,
    Committed,
    Conflicted,
    RolledBack,
    Unknown,
)
from workers.concurrency.schema_resolution import SchemaAtStart, resolved_schema
from workers.concurrency.taken_back import taken_back
from workers.config import WriteOptions
from workers.errors import (
    InstantRolledBack,
    LeaseLost,
    MalformedTable,
    ServiceBusy,
    StorageFailed,
    WriteOutcomeUnknown,
)
from workers.schema.table_schema import TableSchema
from workers.table.schema_history import SchemaVersion, schema_at
from workers.table.table import Table
from workers.timeline import decisions, transitions
from workers.timeline.decisions import CommitDecision, RollbackDecision
from workers.timeline.instant import Action, Instant, State
from workers.timeline.metadata import (
    LOCK_KEY,
    SCHEMA_KEY,
    SCHEMA_RESOLUTION_KEY,
    CommitMetadata,
)
from workers.timeline.timeline import Timeline
from workers.writer_modes import ConcurrencyMode

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
    return BoundLock(table.storage, table.ports, options, on_takeover=partial(fence_sleeper, table))


def fence_sleeper(table: Table, completing: str) -> None:
    """The former holder let its lease run out while deciding: it must not decide any more.

    `completing` is the instant that it was completing, or `<target>+<rollback>` for an undo.
    """
    target, _, by = completing.partition("+")
    if by:
        decisions.fence_undo(table.storage, target, by=by)
        return
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
    """Start an instant of `action`, by default the table's own for writes.

    Raises LockTimeout, LeaseLost, StorageFailed.
    """
    with ExitStack() as undo:
        with table_lock(table, options).held() as lease:
            timeline = settled_timeline(table)
            refuse_during_restore(timeline)
            requested_at = next_instant(table.ports.clock, timeline.last_time)
            heartbeat = HeartbeatKeeper(table.storage, table.ports, requested_at, content)
            # A heart that beats on after a failure would keep anybody from rolling this back.
            undo.callback(heartbeat.stop)
            heartbeat.start()
            inflight = transitions.begin(table.storage, requested_at, action or table.data_action)
            lease.confirm()
            started = Started(inflight, timeline, schema_at(table, timeline), heartbeat)
        undo.pop_all()
    stop_points.reach("after_start", writer=content.writer)
    return started


def refuse_during_restore(timeline: Timeline) -> None:
    """What would be built on is being taken back. Raises ServiceBusy."""
    for instant in timeline.pending():
        if instant.action is Action.RESTORE:
            raise ServiceBusy(
                "the table is being restored; when nobody does it any more, run the restore again",
                instant=instant.requested_at,
            )


Condition = Callable[[Timeline], Conflict | Mapping[str, str]]
"""Of the timeline under the lock: why not to commit, or what the commit tells besides."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a writer wants to publish."""

    metadata: CommitMetadata
    schema: TableSchema
    writer: str
    rows: int
    whole_partitions: frozenset[str] = frozenset()
    """Partitions that this replaces as a whole."""
    is_whole_table: bool = False
    written: frozenset[str] | None = None
    """Columns into which the files bring values; None without files."""
    deletes_only: bool = False
    """Brings no schema of its own: the table's stays as it is."""
    condition: Condition | None = None


def commit(
    table: Table, options: WriteOptions, started: Started, proposal: Proposal
) -> CommitOutcome:
    """Validate and decide under the lock; begun anew when the lease ran out before anything was
    decided.

    Raises LockTimeout.
    """
    rivals = _rival_check(table, options, started, proposal)
    if options.mode is not ConcurrencyMode.SINGLE_WRITER:
        rivals.look_ahead()
    outcome = _commit_once(table, options, started, proposal, rivals)
    for _ in range(_LEASES_MAX - 1):
        if not (isinstance(outcome, Unknown) and outcome.reason == _LEASE_LOST):
            break
        outcome = _commit_once(table, options, started, proposal, rivals)
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
    return RivalCheck(table, options.mode, started.timeline, ours, proposal.metadata)


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
            if (gone := _taken_away(table, instant, timeline)) is not None:
                return gone
            verdict, timeline = _validated_twice(
                table, options, started, timeline, proposal, rivals
            )
            if isinstance(verdict, Conflict):
                return Conflicted(instant.requested_at, verdict)
            return _decide(table, instant, timeline, lease, verdict)
    except InstantRolledBack:
        return standing_outcome(table, instant.requested_at)
    except LeaseLost:
        return _after_failure(table, instant.requested_at, _LEASE_LOST)
    except (WriteOutcomeUnknown, StorageFailed) as error:
        return _after_failure(table, instant.requested_at, str(error))


def standing_outcome(table: Table, instant: InstantTime) -> CommitOutcome:
    """What the decision object says now; Unknown while there is none."""
    match decisions.read(table.storage, instant):
        case CommitDecision(completed_at=completed_at):
            return Committed(instant, completed_at)
        case RollbackDecision(by=by, reason=reason):
            return RolledBack(instant, by, reason)
        case None:
            return Unknown(instant, "no decision was made")


def _after_failure(table: Table, instant: InstantTime, reason: str) -> CommitOutcome:
    try:
        outcome = standing_outcome(table, instant)
    except (StorageFailed, WriteOutcomeUnknown) as error:
        return Unknown(instant, f"{reason}; then {error}")
    return replace(outcome, reason=reason) if isinstance(outcome, Unknown) else outcome


def _taken_away(table: Table, instant: Instant, timeline: Timeline) -> CommitOutcome | None:
    """Not None when the instant was decided, or a foreign writer removed it, while we worked."""
    if decisions.read(table.storage, instant.requested_at) is not None:
        return standing_outcome(table, instant.requested_at)
    mine = timeline.find(instant.requested_at)
    if mine is None or mine.state is not State.INFLIGHT:
        return RolledBack(instant.requested_at, "another engine", "its timeline files are gone")
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
    told = proposal.condition(timeline) if proposal.condition else {}
    if isinstance(told, Conflict):
        return told
    proposal = replace(proposal, metadata=proposal.metadata.with_extra(**told))
    if (lost := _lost_base(table, started, timeline, proposal)) is not None:
        return lost
    # A single writer is checked too: it costs nothing when it is alone, and loses nothing when it
    # is not.
    resolved = _resolve_schema(table, options, started, timeline, proposal)
    if isinstance(resolved, Conflict):
        return resolved
    return rivals.conflict(timeline) or resolved


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
    )
    found = resolved_schema(table, options, start, timeline)
    if isinstance(found, Conflict):
        return found
    extra = {SCHEMA_KEY: found.schema.avro_json, SCHEMA_RESOLUTION_KEY: found.record}
    metadata = proposal.metadata.with_extra(**extra)
    return replace(proposal, metadata=metadata, schema=found.schema)


def _lost_base(
    table: Table, started: Started, timeline: Timeline, proposal: Proposal
) -> Conflict | None:
    """A base file that was merged into ours came from a commit that has been taken back since."""
    for lost in taken_back(table, started.timeline, timeline):
        # Of a replacement everything may be built on it: the file groups that it took away are
        # back, and the ids of new ones were chosen after it.
        is_replacement = lost.action is Action.REPLACECOMMIT
        built_on_it = tuple(
            sorted(
                (stat.partition_path, stat.file_id)
                for stat in proposal.metadata.stats
                if is_replacement or stat.prev_commit == lost.requested_at
            )
        )
        if built_on_it or is_replacement:
            return Conflict(
                kind="write",
                message="a commit that this write was built on was rolled back",
                rival=lost.requested_at,
                file_groups=built_on_it,
                writer=proposal.writer,
                rule=taken_back.__name__,
            )
    return None


def _decide(
    table: Table, instant: Instant, timeline: Timeline, lease: Lease, proposal: Proposal
) -> Committed:
    lease.confirm()  # It may have run out while we compared.
    stop_points.reach("before_publish", writer=proposal.writer)
    completed_at = next_instant(table.ports.clock, timeline.last_time)
    metadata = proposal.metadata.with_extra(**{LOCK_KEY: told_of(lease)})
    completion = transitions.Completion(
        instant=instant.completed(completed_at),
        content=metadata.encode(instant.action),
        nonce=table.ports.ids.token(),
        writer=proposal.writer,
    )
    transitions.complete(table.storage, completion)
    stop_points.reach("after_publish", writer=proposal.writer)
    return Committed(instant.requested_at, completed_at, proposal.rows)
