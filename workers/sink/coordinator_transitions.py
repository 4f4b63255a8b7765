"""Transitions at the end of a transaction and of the coordinator. Pure, see `coordinator`.

The order is always the same. The outcome of the instant is settled first. The instant is rolled
back unless it is committed. Only then comes the next transaction, or the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from workers.sink.coordinator_events import (
    Abort,
    BeginFailed,
    Commit,
    CommitEnded,
    CommitFailed,
    Committed,
    CommitUnknown,
    CoordinatorEffect,
    EvolveSchema,
    SchemaRefused,
    Settle,
    Settled,
    Stopped,
)
from workers.sink.coordinator_state import CoordinatorName, CoordinatorState, Stopping, Work
from workers.sink.messages import AckCommit, Send
from workers.sink.offsets import Stale, StaleCause

REFUSED_FIELDS_MAX = 1_000
Step = tuple[CoordinatorState, list[CoordinatorEffect]]


def request_work(state: CoordinatorState, work: Work, effect: CoordinatorEffect) -> Step:
    """Return the state with this work in progress, and the effect that requests it. No other work
    may be in progress.
    """
    assert state.work is Work.NOTHING, (state, effect)
    return replace(state, work=work), [effect]


def finish_work(state: CoordinatorState, work: Work) -> CoordinatorState:
    """Return the state without this work, which must be in progress."""
    assert state.work is work, (state, work)
    return replace(state, work=Work.NOTHING)


def schedule_next(state: CoordinatorState, now_ms: int, delay_ms: int) -> Step:
    """Schedule the next transaction, or stop if that was requested."""
    if state.name is CoordinatorName.FENCED:
        return stop(state, state.reason)
    if state.stopping:
        return leave(state, now_ms)
    return replace(state, deadline_ms=now_ms + delay_ms), []


def compute_backoff_ms(state: CoordinatorState) -> int:
    """Return the delay before the next attempt. Failures of replaced participants do not count,
    because START waits for all participants anyway.
    """
    doubled = state.settings.restart_delay_ms << min(max(state.failures - state.deaths - 1, 0), 20)
    return min(doubled, state.settings.restart_delay_max_ms)


def handle_begin_failure(state: CoordinatorState, failure: BeginFailed) -> Step:
    """Schedule the next `Begin` after a growing delay. Stop the sink if the failure is final."""
    state = replace(state, failures=state.failures + 1)
    if state.name is not CoordinatorName.FENCED:
        state = replace(state, name=CoordinatorName.FAILED_COMMIT, reason=failure.reason)
    if failure.is_final:
        state = _stop_with_error(state, failure.reason)
    return schedule_next(state, failure.now_ms, compute_backoff_ms(state))


def time_out_transaction(state: CoordinatorState, reason: str) -> Step:
    """Abort the transaction because a participant did not join or report in time. This counts as
    a failure.
    """
    state = replace(state, failures=state.failures + 1)
    return abort_transaction(state, CoordinatorName.WRITE_STATUS_TIMEDOUT, reason)


def fail_transaction(state: CoordinatorState, reason: str) -> Step:
    """Abort the transaction, and count a failure. The next transaction begins after a delay, and
    is shorter.
    """
    state = replace(state, failures=state.failures + 1)
    return abort_transaction(state, CoordinatorName.FAILED_COMMIT, reason)


def fail_for_lost_participant(state: CoordinatorState, reason: str) -> Step:
    """Abort the transaction because a participant will never report."""
    return fail_transaction(replace(state, deaths=state.deaths + 1), reason)


def abort_transaction(state: CoordinatorState, name: CoordinatorName, reason: str) -> Step:
    """Request the transaction's rollback. Its outcome must not be unknown. `handle_abort_end`
    continues from there.
    """
    transaction = state.transaction
    assert transaction is not None, state
    assert not transaction.is_unknown, state
    state = replace(state, name=name, reason=reason)
    return request_work(state, Work.ABORT, Abort(transaction.instant, reason))


def handle_abort_end(state: CoordinatorState, now_ms: int) -> Step:
    """Continue after a rollback: add missing columns, schedule the next transaction, or stop."""
    state = replace(state, transaction=None)
    continues = state.name is not CoordinatorName.FENCED and state.stopping is None
    if state.needed_fields and continues:
        return request_work(state, Work.EVOLVE, EvolveSchema(state.needed_fields))
    delay_ms = compute_backoff_ms(state) if state.failures else state.settings.init_delay_ms
    return schedule_next(state, now_ms, delay_ms)


def handle_schema_refusal(state: CoordinatorState, refusal: SchemaRefused) -> Step:
    """Leave out fields that can never become columns from now on: one bad record must not stop the
    sink. Other failures are retried, because later records request the fields again.
    """
    fields = tuple(dict.fromkeys((*state.refused_fields, *refusal.fields)))
    state = replace(
        state,
        needed_fields="",
        refused_fields=fields,
        failures=state.failures + (not refusal.fields),
        reason=refusal.reason if state.name is not CoordinatorName.FENCED else state.reason,
    )
    if len(fields) > REFUSED_FIELDS_MAX:
        state = _stop_with_error(state, "records bring too many fields that the table cannot take")
    delay_ms = state.settings.init_delay_ms if refusal.fields else compute_backoff_ms(state)
    return schedule_next(state, refusal.now_ms, delay_ms)


# Commits --------------------------------------------------------------------------------------


def commit_or_settle(state: CoordinatorState) -> Step:
    """Request the commit of the reports, or the outcome of an earlier commit if it is unknown."""
    transaction = state.transaction
    assert transaction is not None, state
    if transaction.is_unknown:
        return request_work(state, Work.SETTLE, Settle(transaction.instant))
    tried = replace(transaction, commits=transaction.commits + 1)
    commit = Commit(tried.instant, tried.ordered_reports)
    return request_work(replace(state, transaction=tried), Work.COMMIT, commit)


def handle_commit_end(state: CoordinatorState, ended: CommitEnded) -> Step:
    """Continue after a commit: send ACK, retry, settle or roll back."""
    match ended.result:
        case Committed(offsets):
            return _acknowledge_commit(state, offsets, ended.now_ms)
        case Stale():
            return _handle_stale(state, ended.result)
        case CommitFailed():
            return _handle_commit_failure(state, ended.result, ended.now_ms)
        case CommitUnknown(reason):
            return _handle_unknown_outcome(state, reason, ended.now_ms)
        case _:
            assert_never(ended.result)


def handle_settled_outcome(state: CoordinatorState, ended: Settled) -> Step:
    """Continue after the outcome of a commit was determined, as `handle_commit_end` does."""
    assert state.transaction is not None, state
    match ended.result:
        case Committed(offsets):
            return _acknowledge_commit(state, offsets, ended.now_ms)
        case CommitFailed(reason):
            transaction = replace(state.transaction, is_unknown=False)
            return _fail_or_fence(replace(state, transaction=transaction), reason)
        case CommitUnknown(reason):
            return _handle_unknown_outcome(state, reason, ended.now_ms)
        case _:
            assert_never(ended.result)


def _acknowledge_commit(state: CoordinatorState, offsets: Mapping[int, int], now_ms: int) -> Step:
    state = replace(state, transaction=None, offsets=offsets, failures=0, deaths=0)
    if state.name is CoordinatorName.FENCED:
        return stop(state, state.reason)  # The other's START carries these offsets.
    state = replace(state, name=CoordinatorName.ACKED_COMMIT, reason="")
    if state.stopping:
        return leave(state, now_ms)
    acked, _ = schedule_next(state, now_ms, state.settings.init_delay_ms)
    return acked, [Send(_build_ack(state, is_last=False))]


def _handle_stale(state: CoordinatorState, stale: Stale) -> Step:
    match stale.cause:
        case StaleCause.EPOCH:
            return abort_transaction(state, CoordinatorName.FENCED, stale.reason)
        case StaleCause.TOPIC:
            return _fail_or_fence(_stop_with_error(state, stale.reason), stale.reason)
        case StaleCause.OFFSETS:
            return _fail_or_fence(state, stale.reason)
        case _:
            assert_never(stale.cause)


def _handle_commit_failure(state: CoordinatorState, result: CommitFailed, now_ms: int) -> Step:
    assert state.transaction is not None, state
    is_hard = state.stopping is not None and not state.stopping.is_graceful
    has_tries = state.transaction.commits < state.settings.commit_tries
    if result.can_retry and has_tries and not is_hard and state.name is not CoordinatorName.FENCED:
        deadline_ms = now_ms + state.settings.restart_delay_ms
        return replace(state, deadline_ms=deadline_ms, reason=result.reason), []
    return _fail_or_fence(state, result.reason)


def _fail_or_fence(state: CoordinatorState, reason: str) -> Step:
    if state.name is CoordinatorName.FENCED:
        return abort_transaction(state, CoordinatorName.FENCED, state.reason)
    return fail_transaction(state, reason)


def _handle_unknown_outcome(state: CoordinatorState, reason: str, now_ms: int) -> Step:
    """Settle at once, then repeatedly. No transaction may begin on an unknown outcome."""
    assert state.transaction is not None, state
    if state.name is CoordinatorName.FENCED:
        return stop(state, state.reason)
    is_first = not state.transaction.is_unknown
    state = replace(
        state,
        transaction=replace(state.transaction, is_unknown=True),
        failures=state.failures + 1,
        reason=reason,
    )
    if state.stopping and not state.stopping.is_graceful:
        return leave(state, now_ms)
    if is_first:
        return commit_or_settle(state)
    return replace(state, deadline_ms=now_ms + compute_backoff_ms(state)), []


# The end --------------------------------------------------------------------------------------


def fence(state: CoordinatorState, reason: str) -> Step:
    """Stop publishing. This or the next coordinator rolls the open instant back."""
    if state.name is CoordinatorName.FENCED:
        return state, []
    state = replace(state, name=CoordinatorName.FENCED, reason=reason)
    if state.work is not Work.NOTHING:
        return state, []
    if state.transaction and not state.transaction.is_unknown and not state.is_leaving:
        return abort_transaction(state, CoordinatorName.FENCED, reason)
    return stop(state, reason)


def leave(state: CoordinatorState, now_ms: int) -> Step:
    """Send the last ACK repeatedly until all participants have stopped. An instant with unknown
    outcome is left for the next coordinator.
    """
    deadline_ms = now_ms + state.settings.farewell_ms
    state = replace(state, is_leaving=True, deadline_ms=deadline_ms, sent_ms=now_ms)
    last = Send(_build_ack(state, is_last=True))
    after, effects = leave_or_repeat(state, now_ms)
    return after, [last, *effects]


def leave_or_repeat(state: CoordinatorState, now_ms: int) -> Step:
    """Stop when all participants have stopped or the time is over. Otherwise repeat the last ACK,
    also for participants that are only starting.
    """
    are_here = [
        state.find_participant(partition, now_ms) is not None for partition in state.participants
    ]
    if (are_here and not any(are_here)) or now_ms >= state.deadline_ms:
        assert state.stopping is not None, state
        return stop(state, state.stopping.reason)
    if now_ms - state.sent_ms < state.settings.resend_ms:
        return state, []
    return replace(state, sent_ms=now_ms), [Send(_build_ack(state, is_last=True))]


def stop(state: CoordinatorState, reason: str) -> Step:
    """Return the last state, STOPPED or FENCED, and the last effect."""
    is_error = state.stopping is not None and state.stopping.is_error
    if state.name is not CoordinatorName.FENCED:
        state = replace(state, name=CoordinatorName.STOPPED)
    return replace(state, reason=reason), [Stopped(reason, is_error)]


def _stop_with_error(state: CoordinatorState, reason: str) -> CoordinatorState:
    return replace(state, stopping=Stopping(is_graceful=False, reason=reason, is_error=True))


def _build_ack(state: CoordinatorState, *, is_last: bool) -> AckCommit:
    ends_run = state.run_id if is_last else ""
    return AckCommit(state.epoch, state.last_instant, state.coordinator_id, state.offsets, ends_run)
