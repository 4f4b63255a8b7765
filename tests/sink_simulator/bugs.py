"""Planted bugs: holes of Hudi's and Iceberg's sinks, and steps of ours left out.

Each is the engine's machine with one thing done differently. A simulator that does not find them
proves nothing about machines in which it finds none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.sink_simulator.rules import Rules
from workers.sink import coordinator, participant
from workers.sink.coordinator_events import (
    AbortEnded,
    CommitEnded,
    CommitFailed,
    CommitUnknown,
    CoordinatorEffect,
    CoordinatorEvent,
    Stopped,
)
from workers.sink.coordinator_state import CoordinatorName, CoordinatorState, Work
from workers.sink.coordinator_transitions import commit_or_settle
from workers.sink.messages import (
    AckCommit,
    EndCommit,
    Message,
    MessageReceived,
    Outcome,
    ParticipantName,
    Report,
    StartCommit,
    Tick,
)
from workers.sink.offsets import Attempt, SinkCommit, Stale
from workers.sink.participant import ParticipantState
from workers.sink.participant_events import (
    NeedsSchema,
    ParticipantEffect,
    ParticipantEvent,
    Polled,
    Seek,
    Write,
    WriteFailed,
)

ParticipantStep = tuple[ParticipantState, list[ParticipantEffect]]
CoordinatorStep = tuple[CoordinatorState, list[CoordinatorEffect]]


def no_compare_and_set(last_commit: SinkCommit, attempt: Attempt) -> Stale | None:
    """3.4 no. 1, K7: a zombie commits what another has committed meanwhile."""
    return None


def _hears(event: object, kind: type[Message]) -> Message | None:
    if isinstance(event, MessageReceived) and isinstance(event.message, kind):
        return event.message
    return None


def everybody_joins(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """Hudi's START names nobody: two that believe to own a partition both write."""
    start = _hears(event, StartCommit)
    if isinstance(start, StartCommit) and state.partition in start.offsets:
        members = {**start.members, state.partition: state.participant_id}
        event = MessageReceived(replace(start, members=members), 0)
    return participant.step(state, event)


def repeated_start_opens_again(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """Hudi begins anew with each START, also of a transaction that is committed by then."""
    start = _hears(event, StartCommit)
    if isinstance(start, StartCommit) and (start.epoch, start.instant) == state.newest:
        state = replace(state, newest=(start.epoch, ""))
    return participant.step(state, event)


def gaps_are_sought_back(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """3.4 no. 3, K8: what is above the expected offset is not accepted."""
    if (
        isinstance(event, Polled)
        and state.name is ParticipantName.OPEN
        and event.seeks == state.seeks
        and event.first_offset is not None
        and event.first_offset > state.offset
    ):
        sought = replace(state, seeks=state.seeks + 1)
        return sought, [Seek(state.offset, sought.seeks)]
    return participant.step(state, event)


def batches_from_before_a_seek_count(
    state: ParticipantState, event: ParticipantEvent
) -> ParticipantStep:
    """K1: whatever comes above the expected offset is taken, wherever it was read."""
    if isinstance(event, Polled):
        event = replace(event, seeks=state.seeks)
    return participant.step(state, event)


def never_seeks_twice(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """The consumer is believed to stand where the last transaction ended."""
    after, effects = participant.step(state, event)
    if state.seeks and after.seeks != state.seeks:
        return replace(after, seeks=state.seeks), [
            one for one in effects if not isinstance(one, Seek)
        ]
    return after, effects


def lost_batches_leave_the_position(
    state: ParticipantState, event: ParticipantEvent
) -> ParticipantStep:
    """Begin again where the batch that failed began, and do not send the consumer back there."""
    after, effects = participant.step(state, event)
    if isinstance(event, WriteFailed | NeedsSchema):
        after = replace(after, position=state.position)
    return after, effects


def end_of_another_ends_ours(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """K11."""
    end = _hears(event, EndCommit)
    if isinstance(end, EndCommit) and state.joined and end.epoch == state.joined.epoch:
        event = MessageReceived(replace(end, instant=state.joined.instant), 0)
    return participant.step(state, event)


def ack_of_another_is_ours(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """K10."""
    ack = _hears(event, AckCommit)
    if isinstance(ack, AckCommit) and state.joined and ack.epoch == state.joined.epoch:
        event = MessageReceived(replace(ack, instant=state.joined.instant), 0)
    return participant.step(state, event)


def older_epochs_are_obeyed(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """KS3: no fence at participants."""
    if isinstance(event, MessageReceived) and event.message.epoch < state.newest[0]:
        state = replace(state, newest=(event.message.epoch, ""))
    return participant.step(state, event)


def records_are_taken_while_closing(
    state: ParticipantState, event: ParticipantEvent
) -> ParticipantStep:
    if (
        isinstance(event, Polled)
        and state.name is ParticipantName.CLOSING
        and event.seeks == state.seeks
        and event.first_offset is not None
    ):
        after = replace(state, offset=event.next_offset, position=event.next_offset)
        return after, [Write(state.offset)]
    return participant.step(state, event)


def failure_is_an_empty_report(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """K2: Hudi reported a failed writer as one without files."""
    after, effects = participant.step(state, event)
    report = after.report
    if report and report.outcome is Outcome.FAILED:
        after = replace(after, report=replace(report, outcome=Outcome.PREPARED, gaps=_all(report)))
    return after, effects


def _all(report: Report) -> int:
    return report.end - report.start


def any_last_ack_stops(state: ParticipantState, event: ParticipantEvent) -> ParticipantStep:
    """The farewell of one launch ends the next one."""
    ack = _hears(event, AckCommit)
    if isinstance(ack, AckCommit) and ack.ends_run:
        event = MessageReceived(replace(ack, ends_run=state.run_id), 0)
    return participant.step(state, event)


def reports_of_other_transactions_count(
    state: CoordinatorState, event: CoordinatorEvent
) -> CoordinatorStep:
    """#17713: files of an earlier transaction are committed."""
    report = _hears(event, Report)
    if isinstance(report, Report) and report.epoch == state.epoch and state.transaction:
        like_ours = replace(
            report,
            instant=state.transaction.instant,
            sender=state.transaction.members.get(report.partition, ""),
        )
        event = MessageReceived(like_ours, 0)
    return coordinator.step(state, event)


def timeout_commits_what_arrived(
    state: CoordinatorState, event: CoordinatorEvent
) -> CoordinatorStep:
    """Iceberg's partial commit."""
    if (
        isinstance(event, Tick)
        and state.name is CoordinatorName.ENDED_COMMIT
        and state.transaction
        and state.transaction.reports
        and event.now_ms >= state.deadline_ms
    ):
        return commit_or_settle(replace(state, name=CoordinatorName.WRITE_STATUS_RCVD))
    return coordinator.step(state, event)


def unknown_is_failed(state: CoordinatorState, event: CoordinatorEvent) -> CoordinatorStep:
    """3.4 no. 7, K5: begin again, whatever became of the commit. And do not roll back."""
    if isinstance(event, CommitEnded) and isinstance(event.result, CommitUnknown):
        failed = CommitEnded(CommitFailed("unknown"), event.now_ms)
        after, _ = coordinator.step(state, failed)
        if after.work is Work.ABORT:
            return coordinator.step(after, AbortEnded(event.now_ms))
    return coordinator.step(state, event)


def a_fenced_coordinator_goes_on(
    state: CoordinatorState, event: CoordinatorEvent
) -> CoordinatorStep:
    """K3: the scheduler of a stopped coordinator still fires."""
    after, effects = coordinator.step(state, event)
    if after.name is CoordinatorName.FENCED and any(isinstance(one, Stopped) for one in effects):
        after = replace(after, name=CoordinatorName.INIT, transaction=None)
    return after, effects


def nobody_times_out(state: CoordinatorState, event: CoordinatorEvent) -> CoordinatorStep:
    """A transaction waits for its participants for ever."""
    if (
        isinstance(event, Tick)
        and state.name is CoordinatorName.ENDED_COMMIT
        and state.work is Work.NOTHING
    ):
        state = replace(state, deadline_ms=event.now_ms + 1)
    return coordinator.step(state, event)


def dead_participants_are_waited_for(
    state: CoordinatorState, event: CoordinatorEvent
) -> CoordinatorStep:
    """The first one that was heard of a partition stays its participant."""
    after, effects = coordinator.step(state, event)
    first = {
        partition: replace(seen, participant_id=state.participants[partition].participant_id)
        for partition, seen in after.participants.items()
        if partition in state.participants
    }
    return replace(after, participants={**after.participants, **first}), effects


def reports_are_counted(state: CoordinatorState, event: CoordinatorEvent) -> CoordinatorStep:
    """3.4 no. 5: as many reports as partitions, whosever they are."""
    report, transaction = _hears(event, Report), state.transaction
    if (
        isinstance(report, Report)
        and transaction is not None
        and transaction.reports.get(report.partition) == report
        and state.list_missing()
    ):
        reports = {**transaction.reports, state.list_missing()[0]: report}
        counted = replace(state, transaction=replace(transaction, reports=reports))
        if not counted.list_missing():
            return commit_or_settle(replace(counted, name=CoordinatorName.WRITE_STATUS_RCVD))
        return counted, []
    return coordinator.step(state, event)


def _participants(
    *steps: Callable[[ParticipantState, ParticipantEvent], ParticipantStep],
) -> dict[str, Rules]:
    return {one.__name__: Rules(participant=one) for one in steps}


def _coordinators(
    *steps: Callable[[CoordinatorState, CoordinatorEvent], CoordinatorStep],
) -> dict[str, Rules]:
    return {one.__name__: Rules(coordinator=one) for one in steps}


BUGS: dict[str, Rules] = {
    "no_compare_and_set": Rules(check=no_compare_and_set),
    **_participants(
        everybody_joins,
        repeated_start_opens_again,
        gaps_are_sought_back,
        batches_from_before_a_seek_count,
        never_seeks_twice,
        lost_batches_leave_the_position,
        end_of_another_ends_ours,
        ack_of_another_is_ours,
        older_epochs_are_obeyed,
        records_are_taken_while_closing,
        failure_is_an_empty_report,
        any_last_ack_stops,
    ),
    **_coordinators(
        reports_are_counted,
        reports_of_other_transactions_count,
        timeout_commits_what_arrived,
        unknown_is_failed,
        a_fenced_coordinator_goes_on,
        nobody_times_out,
        dead_participants_are_waited_for,
    ),
}
