"""The coordinator of a sink: a pure state machine that begins, ends and commits transactions.

There is one transaction at a time. START is sent when every partition has a participant, and names
the participants. Only they may write, so every file of a committed instant is in a report. A
transaction that can no longer be committed is aborted at once: a participant failed or was
replaced. The outcome of a commit is known before the next transaction begins.

A runtime passes events to `step`, `Started` first and `Tick` several times a second, and performs
the effects in their order. `Begin`, `Commit`, `Settle`, `Abort` and `EvolveSchema` are each
answered by an event, at once or later. At most one of them is in progress
(`CoordinatorState.work`). `Stopped` is the last effect. The loss of a published message, or of the
coordinator at any point, loses no data: the next coordinator has a higher epoch and reads the
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from workers.sink.coordinator_endings import (
    Step,
    abort_ended,
    aborted,
    answered,
    begin_failed,
    commit_ended,
    commit_or_settle,
    died,
    failed,
    fenced,
    left,
    left_or_repeated,
    requested,
    scheduled,
    schema_refused,
    settled,
    timed_out,
)
from workers.sink.coordinator_events import (
    AbortEnded,
    Begin,
    BeginFailed,
    Begun,
    CommitEnded,
    CoordinatorEvent,
    Fenced,
    NothingToRead,
    SchemaEvolved,
    SchemaRefused,
    Settled,
    Started,
    StopRequested,
)
from workers.sink.coordinator_state import (
    CoordinatorName,
    CoordinatorState,
    Seen,
    Stopping,
    Transaction,
    Work,
)
from workers.sink.messages import (
    AckCommit,
    EndCommit,
    Ignored,
    Message,
    MessageReceived,
    Outcome,
    ParticipantName,
    Ready,
    Report,
    Send,
    StartCommit,
    Tick,
)


def step(state: CoordinatorState, event: CoordinatorEvent) -> Step:
    """Return the next state, and the effects that the runtime performs in this order. Pure.

    An answer to work that is not in progress is an error of the runtime, and fails an assertion.
    """
    if state.is_over:
        return state, []
    match event:
        case Started():
            return scheduled(state, event.now_ms, state.settings.init_delay_ms)
        case Tick():
            return _ticked(state, event.now_ms)
        case MessageReceived():
            return _heard(state, event.message, event.now_ms)
        case Begun():
            return _begun(answered(state, Work.BEGIN), event)
        case NothingToRead():
            return _nothing_to_read(answered(state, Work.BEGIN), event.now_ms)
        case BeginFailed():
            return begin_failed(answered(state, Work.BEGIN), event)
        case CommitEnded():
            return commit_ended(answered(state, Work.COMMIT), event)
        case Settled():
            return settled(answered(state, Work.SETTLE), event)
        case AbortEnded():
            return abort_ended(answered(state, Work.ABORT), event.now_ms)
        case SchemaEvolved():
            evolved = replace(answered(state, Work.EVOLVE), needed_fields="")
            return scheduled(evolved, event.now_ms, state.settings.init_delay_ms)
        case SchemaRefused():
            return schema_refused(answered(state, Work.EVOLVE), event)
        case StopRequested():
            return _stop_requested(state, event)
        case Fenced():
            return fenced(state, event.reason)
        case _:
            assert_never(event)


def _ticked(state: CoordinatorState, now_ms: int) -> Step:
    if state.work is not Work.NOTHING:
        return state, []
    if state.is_leaving:
        return left_or_repeated(state, now_ms)
    is_due = now_ms >= state.deadline_ms
    if state.transaction is None:
        return requested(state, Work.BEGIN, Begin()) if is_due else (state, [])
    if state.name is CoordinatorName.WRITE_STATUS_RCVD:
        return commit_or_settle(state) if is_due else (state, [])
    if not state.transaction.members:
        if is_due:
            return timed_out(state, f"no participant: {_listed(state.absent(now_ms))}")
        return _start_if_all_present(state, now_ms)
    if is_due and state.name is CoordinatorName.STARTED_COMMIT:
        return _end(state, now_ms)
    if is_due:
        return timed_out(state, f"no report: {_listed(state.missing())}")
    return _repeated(state, state.transaction, now_ms)


# Messages ------------------------------------------------------------------------------------


def _heard(state: CoordinatorState, message: Message, now_ms: int) -> Step:
    if message.epoch > state.epoch:
        return fenced(state, f"{message.sender} speaks of epoch {message.epoch}")
    match message:
        case Ready():
            return _seen(state, message, now_ms)
        case Report():
            return _reported(state, message, now_ms)
        case StartCommit() | EndCommit() | AckCommit():
            is_echo = message.sender == state.coordinator_id
            return (state, []) if is_echo else _ignored(state, Ignored.EPOCH)
        case _:
            assert_never(message)


def _seen(state: CoordinatorState, ready: Ready, now_ms: int) -> Step:
    current = state.participants.get(ready.partition)
    silence_ms = state.settings.silence_ms
    if current and not current.gives_way_to(ready, now_ms=now_ms, silence_ms=silence_ms):
        return _ignored(state, Ignored.SENDER)
    status = Seen(
        ready.sender, ready.since_ms, ready.state, ready.instant, ready.offset, at_ms=now_ms
    )
    state = replace(state, participants={**state.participants, ready.partition: status})
    if state.is_leaving:
        return left_or_repeated(state, now_ms)
    if state.work is not Work.NOTHING or state.transaction is None:
        return state, []
    if not state.transaction.members:
        return _start_if_all_present(state, now_ms)
    if ready.partition not in state.missing():
        return state, []
    if ready.sender != state.transaction.members[ready.partition]:
        return died(state, f"partition {ready.partition}: replaced")
    if ready.state is ParticipantName.STOPPED:
        return died(state, f"partition {ready.partition}: stopped")
    return state, []


def _reported(state: CoordinatorState, report: Report, now_ms: int) -> Step:
    transaction = state.transaction
    if transaction is None or (report.epoch, report.instant) != (state.epoch, transaction.instant):
        return _ignored(state, Ignored.INSTANT)
    if transaction.members.get(report.partition) != report.sender:
        return _ignored(state, Ignored.SENDER)
    if report.start != transaction.offsets[report.partition] or report.end < report.start:
        return _ignored(state, Ignored.OFFSETS)
    is_early = state.name is CoordinatorName.STARTED_COMMIT
    if is_early and report.outcome is Outcome.PREPARED:
        return _ignored(state, Ignored.STATE)  # END was not sent.
    if not (is_early or state.name is CoordinatorName.ENDED_COMMIT) or state.work is Work.ABORT:
        return _ignored(state, Ignored.STATE)
    if report.outcome is Outcome.FAILED:
        return failed(state, f"partition {report.partition}: {report.reason}")
    if report.outcome is Outcome.NEEDS_SCHEMA:
        needing = replace(state, needed_fields=report.new_fields)
        return aborted(needing, CoordinatorName.FAILED_COMMIT, "records bring new fields")
    reports = {report.partition: report} | dict(transaction.reports)  # The first one stays.
    state = replace(state, transaction=replace(transaction, reports=reports))
    return (state, []) if state.missing() else _all_reported(state, now_ms)


# One transaction ------------------------------------------------------------------------------


def _begun(state: CoordinatorState, begun: Begun) -> Step:
    assert begun.offsets, begun
    assert begun.instant > state.last_instant, (state, begun)
    state = replace(
        state,
        transaction=Transaction(
            begun.instant,
            begun.offsets,
            begun.schema,
            begun.read_at,
            topic_id=begun.topic_id,
            cluster_id=begun.cluster_id,
        ),
        last_instant=begun.instant,
    )
    if state.name is CoordinatorName.FENCED:
        return aborted(state, CoordinatorName.FENCED, state.reason)
    if state.stopping:
        return aborted(state, CoordinatorName.INIT, state.stopping.reason)
    deadline_ms = begun.now_ms + state.settings.write_timeout_ms
    state = replace(state, name=CoordinatorName.STARTED_COMMIT, deadline_ms=deadline_ms)
    return _start_if_all_present(state, begun.now_ms)


def _nothing_to_read(state: CoordinatorState, now_ms: int) -> Step:
    if state.name is not CoordinatorName.FENCED:
        state = replace(state, name=CoordinatorName.INIT, failures=0, deaths=0)
    return scheduled(state, now_ms, state.settings.idle_delay_ms)


def _start_if_all_present(state: CoordinatorState, now_ms: int) -> Step:
    transaction = state.transaction
    assert transaction is not None, state
    if state.absent(now_ms):
        return state, []
    members = {
        partition: state.participants[partition].participant_id for partition in transaction.offsets
    }
    state = replace(
        state,
        transaction=replace(transaction, members=members),
        deadline_ms=now_ms + state.interval_ms,
        sent_ms=now_ms,
    )
    return state, [Send(_start_message(state))]


def _end(state: CoordinatorState, now_ms: int) -> Step:
    ended = replace(
        state,
        name=CoordinatorName.ENDED_COMMIT,
        deadline_ms=now_ms + state.settings.write_timeout_ms,
        sent_ms=now_ms,
    )
    return ended, [Send(_end_message(ended))]


def _repeated(state: CoordinatorState, transaction: Transaction, now_ms: int) -> Step:
    """Repeat START for participants that have not joined, and END for those without a report."""
    if now_ms - state.sent_ms < state.settings.resend_ms:
        return state, []
    messages: list[Message] = []
    if not all(map(state.has_joined, state.missing())):
        messages.append(_start_message(state))
    if state.name is CoordinatorName.ENDED_COMMIT:
        messages.append(_end_message(state))
    if state.name is CoordinatorName.STARTED_COMMIT and _has_reported_unheard(state, transaction):
        messages = [_start_message(state)]  # Answered with the report.
    return replace(state, sent_ms=now_ms), [Send(message) for message in messages]


def _has_reported_unheard(state: CoordinatorState, transaction: Transaction) -> bool:
    """Check whether a participant reported a failure before END and the report was lost."""
    return any(
        state.has_joined(partition)
        and state.participants[partition].state is ParticipantName.PREPARED
        for partition in transaction.offsets
    )


def _all_reported(state: CoordinatorState, now_ms: int) -> Step:
    assert state.transaction is not None, state
    if state.transaction.is_empty and not state.settings.commits_empty:
        healthy = replace(state, failures=0, deaths=0)
        return aborted(healthy, CoordinatorName.INIT, "nothing was read")
    state = replace(state, name=CoordinatorName.WRITE_STATUS_RCVD, deadline_ms=now_ms)
    return commit_or_settle(state)


# Stopping -------------------------------------------------------------------------------------


def _stop_requested(state: CoordinatorState, stop: StopRequested) -> Step:
    if state.stopping and (stop.is_graceful or not state.stopping.is_graceful):
        return state, []
    state = replace(state, stopping=Stopping(stop.is_graceful, stop.reason))
    if state.work is not Work.NOTHING or state.is_leaving:
        return state, []  # Work in progress ends first.
    transaction = state.transaction
    if transaction is None or (transaction.is_unknown and not stop.is_graceful):
        return left(state, stop.now_ms)
    if not stop.is_graceful or not transaction.members:
        return aborted(state, CoordinatorName.INIT, stop.reason)
    if state.name is CoordinatorName.STARTED_COMMIT:
        return _end(state, stop.now_ms)
    return state, []


def _start_message(state: CoordinatorState) -> StartCommit:
    transaction = state.transaction
    assert transaction is not None, state
    return StartCommit(
        state.epoch,
        transaction.instant,
        state.coordinator_id,
        transaction.offsets,
        transaction.members,
        transaction.schema,
        transaction.read_at,
        state.refused_fields,
        transaction.topic_id,
        transaction.cluster_id,
    )


def _end_message(state: CoordinatorState) -> EndCommit:
    assert state.transaction is not None, state
    return EndCommit(state.epoch, state.transaction.instant, state.coordinator_id)


def _listed(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions))


def _ignored(state: CoordinatorState, cause: Ignored) -> Step:
    counts = {**state.ignored, cause: state.ignored.get(cause, 0) + 1}
    return replace(state, ignored=counts), []
