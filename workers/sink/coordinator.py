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
    ParticipantStatus,
    Stopping,
    Transaction,
    Work,
)
from workers.sink.coordinator_transitions import (
    Step,
    abort_transaction,
    commit_or_settle,
    fail_for_lost_participant,
    fail_transaction,
    fence,
    finish_work,
    handle_abort_end,
    handle_begin_failure,
    handle_commit_end,
    handle_schema_refusal,
    handle_settled_outcome,
    leave,
    leave_or_repeat,
    request_work,
    schedule_next,
    time_out_transaction,
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
            return schedule_next(state, event.now_ms, state.settings.init_delay_ms)
        case Tick():
            return _handle_tick(state, event.now_ms)
        case MessageReceived():
            return _handle_message(state, event.message, event.now_ms)
        case Begun():
            return _open_transaction(finish_work(state, Work.BEGIN), event)
        case NothingToRead():
            return _handle_nothing_to_read(finish_work(state, Work.BEGIN), event.now_ms)
        case BeginFailed():
            return handle_begin_failure(finish_work(state, Work.BEGIN), event)
        case CommitEnded():
            return handle_commit_end(finish_work(state, Work.COMMIT), event)
        case Settled():
            return handle_settled_outcome(finish_work(state, Work.SETTLE), event)
        case AbortEnded():
            return handle_abort_end(finish_work(state, Work.ABORT), event.now_ms)
        case SchemaEvolved():
            evolved = replace(finish_work(state, Work.EVOLVE), needed_fields="")
            return schedule_next(evolved, event.now_ms, state.settings.init_delay_ms)
        case SchemaRefused():
            return handle_schema_refusal(finish_work(state, Work.EVOLVE), event)
        case StopRequested():
            return _handle_stop_request(state, event)
        case Fenced():
            return fence(state, event.reason)
        case _:
            assert_never(event)


def _handle_tick(state: CoordinatorState, now_ms: int) -> Step:
    if state.work is not Work.NOTHING:
        return state, []
    if state.is_leaving:
        return leave_or_repeat(state, now_ms)
    is_due = now_ms >= state.deadline_ms
    if state.transaction is None:
        return request_work(state, Work.BEGIN, Begin()) if is_due else (state, [])
    if state.name is CoordinatorName.WRITE_STATUS_RCVD:
        return commit_or_settle(state) if is_due else (state, [])
    if not state.transaction.members:
        if is_due:
            return time_out_transaction(
                state, f"no participant: {_format_partitions(state.list_absent(now_ms))}"
            )
        return _start_if_all_present(state, now_ms)
    if is_due and state.name is CoordinatorName.STARTED_COMMIT:
        return _end_reading(state, now_ms)
    if is_due:
        return time_out_transaction(state, f"no report: {_format_partitions(state.list_missing())}")
    return _repeat_messages(state, state.transaction, now_ms)


# Messages ------------------------------------------------------------------------------------


def _handle_message(state: CoordinatorState, message: Message, now_ms: int) -> Step:
    if message.epoch > state.epoch:
        return fence(state, f"{message.sender} speaks of epoch {message.epoch}")
    match message:
        case Ready():
            return _record_ready(state, message, now_ms)
        case Report():
            return _record_report(state, message, now_ms)
        case StartCommit() | EndCommit() | AckCommit():
            is_echo = message.sender == state.coordinator_id
            return (state, []) if is_echo else _ignore(state, Ignored.EPOCH)
        case _:
            assert_never(message)


def _record_ready(state: CoordinatorState, ready: Ready, now_ms: int) -> Step:
    current = state.participants.get(ready.partition)
    silence_ms = state.settings.silence_ms
    if current and not current.can_be_replaced_by(ready, now_ms=now_ms, silence_ms=silence_ms):
        return _ignore(state, Ignored.SENDER)
    status = ParticipantStatus(
        ready.sender, ready.since_ms, ready.state, ready.instant, ready.offset, at_ms=now_ms
    )
    state = replace(state, participants={**state.participants, ready.partition: status})
    if state.is_leaving:
        return leave_or_repeat(state, now_ms)
    if state.work is not Work.NOTHING or state.transaction is None:
        return state, []
    if not state.transaction.members:
        return _start_if_all_present(state, now_ms)
    if ready.partition not in state.list_missing():
        return state, []
    if ready.sender != state.transaction.members[ready.partition]:
        return fail_for_lost_participant(state, f"partition {ready.partition}: replaced")
    if ready.state is ParticipantName.STOPPED:
        return fail_for_lost_participant(state, f"partition {ready.partition}: stopped")
    return state, []


def _record_report(state: CoordinatorState, report: Report, now_ms: int) -> Step:
    transaction = state.transaction
    if transaction is None or (report.epoch, report.instant) != (state.epoch, transaction.instant):
        return _ignore(state, Ignored.INSTANT)
    if transaction.members.get(report.partition) != report.sender:
        return _ignore(state, Ignored.SENDER)
    if report.start != transaction.offsets[report.partition] or report.end < report.start:
        return _ignore(state, Ignored.OFFSETS)
    is_early = state.name is CoordinatorName.STARTED_COMMIT
    if is_early and report.outcome is Outcome.PREPARED:
        return _ignore(state, Ignored.STATE)  # END was not sent.
    if not (is_early or state.name is CoordinatorName.ENDED_COMMIT) or state.work is Work.ABORT:
        return _ignore(state, Ignored.STATE)
    if report.outcome is Outcome.FAILED:
        return fail_transaction(state, f"partition {report.partition}: {report.reason}")
    if report.outcome is Outcome.NEEDS_SCHEMA:
        needing = replace(state, needed_fields=report.new_fields)
        return abort_transaction(needing, CoordinatorName.FAILED_COMMIT, "records bring new fields")
    reports = {report.partition: report} | dict(transaction.reports)  # The first one stays.
    state = replace(state, transaction=replace(transaction, reports=reports))
    return (state, []) if state.list_missing() else _commit_reports(state, now_ms)


# One transaction ------------------------------------------------------------------------------


def _open_transaction(state: CoordinatorState, begun: Begun) -> Step:
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
        return abort_transaction(state, CoordinatorName.FENCED, state.reason)
    if state.stopping:
        return abort_transaction(state, CoordinatorName.INIT, state.stopping.reason)
    deadline_ms = begun.now_ms + state.settings.write_timeout_ms
    state = replace(state, name=CoordinatorName.STARTED_COMMIT, deadline_ms=deadline_ms)
    return _start_if_all_present(state, begun.now_ms)


def _handle_nothing_to_read(state: CoordinatorState, now_ms: int) -> Step:
    if state.name is not CoordinatorName.FENCED:
        state = replace(state, name=CoordinatorName.INIT, failures=0, deaths=0)
    return schedule_next(state, now_ms, state.settings.idle_delay_ms)


def _start_if_all_present(state: CoordinatorState, now_ms: int) -> Step:
    transaction = state.transaction
    assert transaction is not None, state
    if state.list_absent(now_ms):
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
    return state, [Send(_build_start(state))]


def _end_reading(state: CoordinatorState, now_ms: int) -> Step:
    ended = replace(
        state,
        name=CoordinatorName.ENDED_COMMIT,
        deadline_ms=now_ms + state.settings.write_timeout_ms,
        sent_ms=now_ms,
    )
    return ended, [Send(_build_end(ended))]


def _repeat_messages(state: CoordinatorState, transaction: Transaction, now_ms: int) -> Step:
    """Repeat START for participants that have not joined, and END for those without a report."""
    if now_ms - state.sent_ms < state.settings.resend_ms:
        return state, []
    messages: list[Message] = []
    if not all(map(state.has_joined, state.list_missing())):
        messages.append(_build_start(state))
    if state.name is CoordinatorName.ENDED_COMMIT:
        messages.append(_build_end(state))
    if state.name is CoordinatorName.STARTED_COMMIT and _has_lost_report(state, transaction):
        messages = [_build_start(state)]  # Answered with the report.
    return replace(state, sent_ms=now_ms), [Send(message) for message in messages]


def _has_lost_report(state: CoordinatorState, transaction: Transaction) -> bool:
    """Check whether a participant reported a failure before END and the report was lost."""
    return any(
        state.has_joined(partition)
        and state.participants[partition].state is ParticipantName.PREPARED
        for partition in transaction.offsets
    )


def _commit_reports(state: CoordinatorState, now_ms: int) -> Step:
    assert state.transaction is not None, state
    if state.transaction.is_empty and not state.settings.commits_empty:
        healthy = replace(state, failures=0, deaths=0)
        return abort_transaction(healthy, CoordinatorName.INIT, "nothing was read")
    state = replace(state, name=CoordinatorName.WRITE_STATUS_RCVD, deadline_ms=now_ms)
    return commit_or_settle(state)


# Stopping -------------------------------------------------------------------------------------


def _handle_stop_request(state: CoordinatorState, stop: StopRequested) -> Step:
    if state.stopping and (stop.is_graceful or not state.stopping.is_graceful):
        return state, []
    state = replace(state, stopping=Stopping(stop.is_graceful, stop.reason))
    if state.work is not Work.NOTHING or state.is_leaving:
        return state, []  # Work in progress ends first.
    transaction = state.transaction
    if transaction is None or (transaction.is_unknown and not stop.is_graceful):
        return leave(state, stop.now_ms)
    if not stop.is_graceful or not transaction.members:
        return abort_transaction(state, CoordinatorName.INIT, stop.reason)
    if state.name is CoordinatorName.STARTED_COMMIT:
        return _end_reading(state, stop.now_ms)
    return state, []


def _build_start(state: CoordinatorState) -> StartCommit:
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


def _build_end(state: CoordinatorState) -> EndCommit:
    assert state.transaction is not None, state
    return EndCommit(state.epoch, state.transaction.instant, state.coordinator_id)


def _format_partitions(partitions: Sequence[int]) -> str:
    return ", ".join(map(str, partitions))


def _ignore(state: CoordinatorState, cause: Ignored) -> Step:
    counts = {**state.ignored, cause: state.ignored.get(cause, 0) + 1}
    return replace(state, ignored=counts), []
