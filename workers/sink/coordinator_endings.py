"""How a transaction of the coordinator ends, and how the coordinator does; pure, see `coordinator`.

Whatever ends, the same order holds: what became of the instant is settled, the instant is rolled
back where it is not committed, and only then comes the next transaction, or the end.
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


def requested(state: CoordinatorState, work: Work, effect: CoordinatorEffect) -> Step:
    """The state with this work under way, and the one effect that asks for it. No other may be."""
    assert state.work is Work.NOTHING, (state, effect)
    return replace(state, work=work), [effect]


def answered(state: CoordinatorState, work: Work) -> CoordinatorState:
    """The state without the work that was under way, which is this."""
    assert state.work is work, (state, work)
    return replace(state, work=Work.NOTHING)


def scheduled(state: CoordinatorState, now_ms: int, delay_ms: int) -> Step:
    """The next transaction, or the end where somebody asked for it."""
    if state.name is CoordinatorName.FENCED:
        return over(state, state.reason)
    if state.stopping:
        return left(state, now_ms)
    return replace(state, deadline_ms=now_ms + delay_ms), []


def backoff_ms(state: CoordinatorState) -> int:
    """Nothing is gained by waiting for a participant that was replaced: START waits for all."""
    doubled = state.settings.restart_delay_ms << min(max(state.failures - state.deaths - 1, 0), 20)
    return min(doubled, state.settings.restart_delay_max_ms)


def begin_failed(state: CoordinatorState, failed: BeginFailed) -> Step:
    """After a growing pause comes the next `Begin`; the sink stops where the failure is final."""
    state = replace(state, failures=state.failures + 1)
    if state.name is not CoordinatorName.FENCED:
        state = replace(state, name=CoordinatorName.FAILED_COMMIT, reason=failed.reason)
    if failed.is_final:
        state = _stopping_for(state, failed.reason)
    return scheduled(state, failed.now_ms, backoff_ms(state))


def timed_out(state: CoordinatorState, reason: str) -> Step:
    """Abort the transaction: somebody did not come, or did not report, in time. Counts as a
    failure.
    """
    state = replace(state, failures=state.failures + 1)
    return aborted(state, CoordinatorName.WRITE_STATUS_TIMEDOUT, reason)


def failed(state: CoordinatorState, reason: str) -> Step:
    """Abort the transaction, and count a failure: the next one begins after a pause, and is
    shorter.
    """
    state = replace(state, failures=state.failures + 1)
    return aborted(state, CoordinatorName.FAILED_COMMIT, reason)


def died(state: CoordinatorState, reason: str) -> Step:
    """A participant of the transaction will never report."""
    return failed(replace(state, deaths=state.deaths + 1), reason)


def aborted(state: CoordinatorState, name: CoordinatorName, reason: str) -> Step:
    """Ask for the transaction's rollback. Its fate must not be unknown; `abort_ended` goes on from
    there.
    """
    transaction = state.transaction
    assert transaction is not None, state
    assert not transaction.is_unknown, state
    state = replace(state, name=name, reason=reason)
    return requested(state, Work.ABORT, Abort(transaction.instant, reason))


def abort_ended(state: CoordinatorState, now_ms: int) -> Step:
    """The transaction is over: next come columns that it lacked, a new one, or the end."""
    state = replace(state, transaction=None)
    goes_on = state.name is not CoordinatorName.FENCED and state.stopping is None
    if state.needed_fields and goes_on:
        return requested(state, Work.EVOLVE, EvolveSchema(state.needed_fields))
    delay_ms = backoff_ms(state) if state.failures else state.settings.init_delay_ms
    return scheduled(state, now_ms, delay_ms)


def schema_refused(state: CoordinatorState, refused: SchemaRefused) -> Step:
    """Fields that can never become columns are left out from now on: one bad record must not stop
    the sink. Anything else is tried again, because records will ask again.
    """
    fields = tuple(dict.fromkeys((*state.refused_fields, *refused.fields)))
    state = replace(
        state,
        needed_fields="",
        refused_fields=fields,
        failures=state.failures + (not refused.fields),
        reason=refused.reason if state.name is not CoordinatorName.FENCED else state.reason,
    )
    if len(fields) > REFUSED_FIELDS_MAX:
        state = _stopping_for(state, "records bring too many fields that the table cannot take")
    delay_ms = state.settings.init_delay_ms if refused.fields else backoff_ms(state)
    return scheduled(state, refused.now_ms, delay_ms)


# Commits --------------------------------------------------------------------------------------


def commit_or_settle(state: CoordinatorState) -> Step:
    """Ask for the commit of what was reported; where it was tried and its fate is unknown, for
    that.
    """
    transaction = state.transaction
    assert transaction is not None, state
    if transaction.is_unknown:
        return requested(state, Work.SETTLE, Settle(transaction.instant))
    tried = replace(transaction, commits=transaction.commits + 1)
    commit = Commit(tried.instant, tried.ordered_reports)
    return requested(replace(state, transaction=tried), Work.COMMIT, commit)


def commit_ended(state: CoordinatorState, ended: CommitEnded) -> Step:
    """What follows from a commit: ACK and the next one, a new try, settling, or a rollback."""
    match ended.result:
        case Committed(offsets):
            return _committed(state, offsets, ended.now_ms)
        case Stale():
            return _stale(state, ended.result)
        case CommitFailed():
            return _commit_failed(state, ended.result, ended.now_ms)
        case CommitUnknown(reason):
            return _unknown(state, reason, ended.now_ms)
        case _:
            assert_never(ended.result)


def settled(state: CoordinatorState, ended: Settled) -> Step:
    """As `commit_ended`, once it was looked up what became of the commit."""
    assert state.transaction is not None, state
    match ended.result:
        case Committed(offsets):
            return _committed(state, offsets, ended.now_ms)
        case CommitFailed(reason):
            known = replace(state.transaction, is_unknown=False)
            return _lost(replace(state, transaction=known), reason)
        case CommitUnknown(reason):
            return _unknown(state, reason, ended.now_ms)
        case _:
            assert_never(ended.result)


def _committed(state: CoordinatorState, offsets: Mapping[int, int], now_ms: int) -> Step:
    state = replace(state, transaction=None, offsets=offsets, failures=0, deaths=0)
    if state.name is CoordinatorName.FENCED:
        return over(state, state.reason)  # The other's START carries these offsets.
    state = replace(state, name=CoordinatorName.ACKED_COMMIT, reason="")
    if state.stopping:
        return left(state, now_ms)
    acked, _ = scheduled(state, now_ms, state.settings.init_delay_ms)
    return acked, [Send(_ack(state, is_last=False))]


def _stale(state: CoordinatorState, stale: Stale) -> Step:
    match stale.cause:
        case StaleCause.EPOCH:
            return aborted(state, CoordinatorName.FENCED, stale.reason)
        case StaleCause.TOPIC:
            return _lost(_stopping_for(state, stale.reason), stale.reason)
        case StaleCause.OFFSETS:
            return _lost(state, stale.reason)
        case _:
            assert_never(stale.cause)


def _commit_failed(state: CoordinatorState, result: CommitFailed, now_ms: int) -> Step:
    assert state.transaction is not None, state
    is_hard = state.stopping is not None and not state.stopping.is_graceful
    has_tries = state.transaction.commits < state.settings.commit_tries
    if result.may_retry and has_tries and not is_hard and state.name is not CoordinatorName.FENCED:
        deadline_ms = now_ms + state.settings.restart_delay_ms
        return replace(state, deadline_ms=deadline_ms, reason=result.reason), []
    return _lost(state, result.reason)


def _lost(state: CoordinatorState, reason: str) -> Step:
    if state.name is CoordinatorName.FENCED:
        return aborted(state, CoordinatorName.FENCED, state.reason)
    return failed(state, reason)


def _unknown(state: CoordinatorState, reason: str, now_ms: int) -> Step:
    """Settle at once, then again and again: whatever came next could be built on sand."""
    assert state.transaction is not None, state
    if state.name is CoordinatorName.FENCED:
        return over(state, state.reason)
    is_first = not state.transaction.is_unknown
    state = replace(
        state,
        transaction=replace(state.transaction, is_unknown=True),
        failures=state.failures + 1,
        reason=reason,
    )
    if state.stopping and not state.stopping.is_graceful:
        return left(state, now_ms)
    if is_first:
        return commit_or_settle(state)
    return replace(state, deadline_ms=now_ms + backoff_ms(state)), []


# The end --------------------------------------------------------------------------------------


def fenced(state: CoordinatorState, reason: str) -> Step:
    """Publish nothing more. The instant that is open is rolled back, whoever comes first."""
    if state.name is CoordinatorName.FENCED:
        return state, []
    state = replace(state, name=CoordinatorName.FENCED, reason=reason)
    if state.work is not Work.NOTHING:
        return state, []
    if state.transaction and not state.transaction.is_unknown and not state.is_leaving:
        return aborted(state, CoordinatorName.FENCED, reason)
    return over(state, reason)


def left(state: CoordinatorState, now_ms: int) -> Step:
    """Tell participants, until they have stopped too, that there will be no other transaction.
    An instant whose fate is unknown stays as it is, for the next coordinator.
    """
    deadline_ms = now_ms + state.settings.farewell_ms
    state = replace(state, is_leaving=True, deadline_ms=deadline_ms, sent_ms=now_ms)
    last = Send(_ack(state, is_last=True))
    after, effects = left_or_repeated(state, now_ms)
    return after, [last, *effects]


def left_or_repeated(state: CoordinatorState, now_ms: int) -> Step:
    """Over when all have stopped; participants that are only starting get their chance to hear."""
    are_here = [state.present(one, now_ms) is not None for one in state.participants]
    if (are_here and not any(are_here)) or now_ms >= state.deadline_ms:
        assert state.stopping is not None, state
        return over(state, state.stopping.reason)
    if now_ms - state.sent_ms < state.settings.resend_ms:
        return state, []
    return replace(state, sent_ms=now_ms), [Send(_ack(state, is_last=True))]


def over(state: CoordinatorState, reason: str) -> Step:
    """The last state, STOPPED unless it is FENCED, and the last effect."""
    is_error = state.stopping is not None and state.stopping.is_error
    if state.name is not CoordinatorName.FENCED:
        state = replace(state, name=CoordinatorName.STOPPED)
    return replace(state, reason=reason), [Stopped(reason, is_error)]


def _stopping_for(state: CoordinatorState, reason: str) -> CoordinatorState:
    return replace(state, stopping=Stopping(is_graceful=False, reason=reason, is_error=True))


def _ack(state: CoordinatorState, *, is_last: bool) -> AckCommit:
    ends_run = state.run_id if is_last else ""
    return AckCommit(state.epoch, state.last_instant, state.coordinator_id, state.offsets, ends_run)
