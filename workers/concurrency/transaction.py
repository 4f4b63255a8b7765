"""Begin and commit, each under the table lock; the order of steps is the protocol (design 2).

begin: publish decided instants -> instant time -> heartbeat -> requested -> inflight.

commit: publish decided instants -> reload -> schema conflict -> file conflict -> properties as they
were -> metadata of new partitions -> confirm lease -> completion time -> content -> decision ->
completed file; then, without the lock, the properties again. What other engines would miss is
republished by an instant that is begun before the decision and decided with it (`republish`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from workers import failpoints
from workers.clock import InstantTime, next_instant
from workers.concurrency.begin import StartedTransaction, begin_under_lock
from workers.concurrency.conflicts import Conflict
from workers.concurrency.file_conflicts import RivalCheck
from workers.concurrency.heartbeat import HeartbeatContent, HeartbeatKeeper
from workers.concurrency.lock_takeover import load_published_timeline, table_lock
from workers.concurrency.locks.lease import Lease, format_lease_metadata
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted, Unknown, load_outcome
from workers.concurrency.proposal import Proposal
from workers.concurrency.reader_divergence import format_warnings
from workers.concurrency.republish import begin_republish
from workers.concurrency.validation import (
    find_external_decision,
    prepare_rival_check,
    validate_proposal,
)
from workers.errors import (
    InstantRolledBack,
    LeaseLost,
    MalformedTable,
    ServiceBusy,
    StorageFailed,
    WriteOutcomeUnknown,
)
from workers.options.write_options import WriteOptions
from workers.table.external_changes import find_external_change
from workers.table.schema_history import find_schema_at
from workers.table.table import Table
from workers.timeline import transitions
from workers.timeline.extra_metadata import DECIDED, INFLIGHT, PHASES_KEY, VALIDATED, encode_phases
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import (
    LOCK_KEY,
)
from workers.timeline.timeline import Timeline
from workers.traces import span

_LEASE_LOST = "the table lock ran out before anything was decided"
_LEASES_MAX = 3
_log = logging.getLogger(__name__)


def begin(
    table: Table,
    options: WriteOptions,
    content: HeartbeatContent,
    action: Action | None = None,
) -> StartedTransaction:
    """Start an instant of `action`, by default the table's own for writes. If the lease expires
    first, start another one and remove the first: the stalled process may have begun concurrently
    with a new holder.

    Raises LockTimeout, StorageFailed, and LeaseLost if that happens repeatedly.
    """
    for _ in range(_LEASES_MAX - 1):
        try:
            return _begin_once(table, options, content, action)
        except LeaseLost as lost:
            _log.warning("begun again: writer=%s reason=%s", content.writer, lost)
    return _begin_once(table, options, content, action)


def _begin_once(
    table: Table, options: WriteOptions, content: HeartbeatContent, action: Action | None
) -> StartedTransaction:
    facts = {"sluice.location": table.storage.location, "sluice.writer": content.writer}
    with span("transaction begin", facts) as current, ExitStack() as undo:
        with table_lock(table, options).hold() as lease:
            timeline = load_published_timeline(table)
            reject_during_restore(timeline)
            requested_at = next_instant(table.ports.clock, timeline.last_time)
            heartbeat = HeartbeatKeeper(table.storage, table.ports, requested_at, content)
            # A heartbeat that continued after a failure would prevent a rollback.
            undo.callback(heartbeat.stop)
            heartbeat.start()
            inflight = begin_under_lock(table, lease, heartbeat, action or table.data_action)
            current.note({"sluice.instant": requested_at})
            began_ms = table.ports.clock.now_ms()
            schema = find_schema_at(table, timeline)
            started = StartedTransaction(inflight, timeline, schema, heartbeat, began_ms)
        undo.pop_all()
    failpoints.hit_failpoint("after_start", writer=content.writer)
    return started


def reject_during_restore(timeline: Timeline) -> None:
    """Reject a write while a restore is rolling back what it would build on. Raises ServiceBusy."""
    for instant in timeline.pending():
        if instant.action is Action.RESTORE:
            what = "the table is being restored; if the restore no longer runs, run it again"
            raise ServiceBusy(what, instant=instant.requested_at)


def commit(
    table: Table, options: WriteOptions, started: StartedTransaction, proposal: Proposal
) -> CommitOutcome:
    """Validate and decide under the lock. Begins again if the lease expired before the decision.

    Raises LockTimeout; UnsupportedTable and TableChanged with nothing decided.
    """
    facts = {"sluice.instant": started.instant.requested_at, "sluice.writer": proposal.writer}
    with span("transaction commit", facts) as current:
        outcome = _run_commit(table, options, started, proposal)
        current.note({"sluice.outcome": type(outcome).__name__})
    return outcome


def _run_commit(
    table: Table, options: WriteOptions, started: StartedTransaction, proposal: Proposal
) -> CommitOutcome:
    rivals = prepare_rival_check(table, options, started, proposal)
    if proposal.partitions is not None and not proposal.partitions.can_nest:
        _publish_partitions(table, started.instant, proposal)  # Before the lock.
    outcome = _commit_once(table, options, started, proposal, rivals)
    for _ in range(_LEASES_MAX - 1):
        if not (isinstance(outcome, Unknown) and outcome.reason == _LEASE_LOST):
            break
        outcome = _commit_once(table, options, started, proposal, rivals)
    if isinstance(outcome, Committed):
        warnings = (*outcome.warnings, *find_external_change(table, outcome.instant))
        return replace(outcome, warnings=warnings)
    return outcome


def _publish_partitions(table: Table, instant: Instant, proposal: Proposal) -> None:
    if proposal.partitions is not None:
        partitions = proposal.written_partitions
        proposal.partitions.publish(table.storage, partitions, instant.requested_at)


def _commit_once(
    table: Table,
    options: WriteOptions,
    started: StartedTransaction,
    proposal: Proposal,
    rivals: RivalCheck,
) -> CommitOutcome:
    instant = started.instant
    try:
        with table_lock(table, options).hold(completing=instant.requested_at) as lease:
            failpoints.hit_failpoint("before_validate", writer=proposal.writer)
            timeline = load_published_timeline(table)
            with span("transaction validate", {"sluice.instant": instant.requested_at}):
                if (
                    decided := find_external_decision(table, started, timeline, proposal)
                ) is not None:
                    return decided
                verdict, timeline = _validate_with_retry(
                    table, options, started, timeline, proposal, rivals
                )
            if isinstance(verdict, Conflict):
                return Conflicted(instant.requested_at, verdict)
            # Last of all: an engine that changes the table may not take our lock.
            table.check_writable()
            phases = {INFLIGHT: started.inflight_ms, VALIDATED: table.ports.clock.now_ms()}
            return _decide(table, options, instant, timeline, lease, verdict, phases)
    except InstantRolledBack:
        return load_outcome(table, instant.requested_at)
    except LeaseLost:
        return _after_failure(table, instant.requested_at, _LEASE_LOST)
    except (WriteOutcomeUnknown, StorageFailed) as error:
        return _after_failure(table, instant.requested_at, str(error))


def _after_failure(table: Table, instant: InstantTime, reason: str) -> CommitOutcome:
    try:
        outcome = load_outcome(table, instant)
    except (StorageFailed, WriteOutcomeUnknown) as error:
        return Unknown(instant, f"{reason}; then {error}")
    return replace(outcome, reason=reason) if isinstance(outcome, Unknown) else outcome


def _validate_with_retry(
    table: Table,
    options: WriteOptions,
    started: StartedTransaction,
    timeline: Timeline,
    proposal: Proposal,
    rivals: RivalCheck,
) -> tuple[Proposal | Conflict, Timeline]:
    """Validate the proposal, and again if a commit could not be read and the timeline has changed:
    an archiver of another engine moved it concurrently (E-16). Raises MalformedTable naming the
    instant.
    """
    try:
        return validate_proposal(table, options, started, timeline, proposal, rivals), timeline
    except MalformedTable:
        fresh = load_published_timeline(table)
        if fresh.instants == timeline.instants:
            raise
        return validate_proposal(table, options, started, fresh, proposal, rivals), fresh


def _decide(
    table: Table,
    options: WriteOptions,
    instant: Instant,
    timeline: Timeline,
    lease: Lease,
    proposal: Proposal,
    phases: Mapping[str, int],
) -> Committed:
    """Decide and complete the commit. `phases` are the times of the phases before, in epoch ms."""
    clock = table.ports.clock
    if proposal.partitions is not None and proposal.partitions.can_nest:
        _publish_partitions(table, instant, proposal)
    with begin_republish(table, options, timeline, proposal.republish) as follower:
        lease.confirm()  # It may have run out while we compared.
        failpoints.hit_failpoint("before_publish", writer=proposal.writer)
        last = follower.inflight.requested_at if follower else timeline.last_time
        phases_text = encode_phases({**phases, DECIDED: clock.now_ms()})
        completed_at = next_instant(clock, last)
        metadata = proposal.metadata.with_extra(
            **{LOCK_KEY: format_lease_metadata(lease), PHASES_KEY: phases_text}
        )
        completion = transitions.Completion(
            instant=instant.complete(completed_at),
            content=metadata.encode(instant.action),
            nonce=table.ports.ids.token(),
            writer=proposal.writer,
            following=follower.to_completion(next_instant(clock, completed_at))
            if follower
            else None,
        )
        transitions.complete(table.storage, completion)
    failpoints.hit_failpoint("after_publish", writer=proposal.writer)
    return Committed(
        instant.requested_at,
        completed_at,
        proposal.rows,
        warnings=format_warnings(proposal.divergent_keys),
        republished_by=follower.inflight.requested_at if follower else None,
        republished_keys=follower.keys if follower else 0,
        divergent_keys=sum(proposal.divergent_keys.values()),
    )
