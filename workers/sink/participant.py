"""The participant of one partition: a pure state machine for reads and writes.

It joins a transaction only when START names it, and only a transaction that is newer than all it
has received. So no file is written into a transaction that may be over. It has no timeout: the
next START repairs its state. Records are taken only from batches that were read after the last
seek, in the order of the consumer. So the broker has no record for a missing offset, and the
participant does not seek back.

A runtime passes events to `step`, and performs the effects in their order before the next event.
`OpenWriter`, `Write` and `CloseWriter` may run elsewhere. Their result is an event that names the
instant, and is ignored when the transaction is over. Each batch of the consumer arrives as
`Polled` in any state, or as the event of its failure. The next batch begins where it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from workers.clock import InstantTime
from workers.sink.messages import (
    AckCommit,
    CoordinatorMessage,
    EndCommit,
    Ignored,
    MessageReceived,
    Outcome,
    ParticipantName,
    Ready,
    Report,
    Send,
    StartCommit,
    Tick,
)
from workers.sink.participant_events import (
    Assigned,
    Closed,
    CloseWriter,
    DropWriter,
    Finished,
    LeaveRequested,
    NeedsSchema,
    OpenWriter,
    ParticipantEffect,
    ParticipantEvent,
    Pause,
    Polled,
    Resume,
    Seek,
    StoreOffset,
    Write,
    WriteFailed,
)

READY_MS = 3_000
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class ParticipantState:
    """Complete state of one participant; `step` returns the next one."""

    partition: int
    participant_id: str
    """Always unique: a partition that is assigned again has a new participant."""
    since_ms: int
    run_id: str
    """Launch of the sink that it belongs to."""
    name: ParticipantName = ParticipantName.IDLE
    newest: tuple[int, InstantTime | str] = (0, "")
    """Epoch and instant of the newest transaction received, joined or not."""
    joined: StartCommit | None = None
    """The transaction it is in, or was in last."""
    offset: int = 0
    """The next one to write: RFC-32's local offset."""
    gaps: int = 0
    """Number of offsets of this transaction without a record."""
    report: Report | None = None
    seeks: int = 0
    position: int = _UNKNOWN
    """Next offset of the consumer. It is known only after a transaction that ended normally."""
    ready_at_ms: int = 0
    """When to send the next READY."""
    ignored: Mapping[Ignored, int] = field(default_factory=dict)


Step = tuple[ParticipantState, list[ParticipantEffect]]


def step(state: ParticipantState, event: ParticipantEvent) -> Step:
    """Return the next state, and the effects that the runtime performs in this order. Pure."""
    if state.name is ParticipantName.STOPPED:
        return _answer_when_stopped(state, event)
    match event:
        case Assigned():
            ready = _announce(replace(state, ready_at_ms=event.now_ms + READY_MS))
            return ready[0], [Pause(), *ready[1]]
        case Tick():
            if event.now_ms < state.ready_at_ms:
                return state, []
            return _announce(replace(state, ready_at_ms=event.now_ms + READY_MS))
        case MessageReceived():
            if isinstance(event.message, Report | Ready):
                return state, []  # Messages of other participants, and its own.
            return _handle_message(state, event.message)
        case Polled():
            return _take_batch(state, event)
        case Closed():
            return _report_prepared(state, event)
        case WriteFailed():
            return _fail(state, event.instant, Outcome.FAILED, reason=event.reason)
        case NeedsSchema():
            return _fail(state, event.instant, Outcome.NEEDS_SCHEMA, new_fields=event.new_fields)
        case LeaveRequested():
            return _leave(state, event.reason)
        case _:
            assert_never(event)


def _answer_when_stopped(state: ParticipantState, event: ParticipantEvent) -> Step:
    """Answer only START and ACK, so that the coordinator receives the stop."""
    if isinstance(event, MessageReceived) and isinstance(event.message, StartCommit | AckCommit):
        return _announce(state)
    return state, []


def _handle_message(state: ParticipantState, message: CoordinatorMessage) -> Step:
    if message.epoch < state.newest[0]:
        return _ignore(state, Ignored.EPOCH)
    if message.epoch > state.newest[0]:
        # From now on messages of the older coordinator are ignored. Its transaction stays open
        # until the START of the new one: END and ACK of other transactions do not affect it.
        state = replace(state, newest=(message.epoch, ""))
    match message:
        case StartCommit():
            if message.instant > state.newest[1]:
                return _start(replace(state, newest=(message.epoch, message.instant)), message)
            return _repeat_start(state, message)
        case EndCommit():
            return _end(state, message)
        case AckCommit():
            return _acknowledge(state, message)
        case _:
            assert_never(message)


def _start(state: ParticipantState, start: StartCommit) -> Step:
    dropped = _drop_writer(state)
    offset = start.offsets.get(state.partition)
    if offset is None or start.members.get(state.partition) != state.participant_id:
        idle, effects = _announce(
            replace(_count_ignored(state, Ignored.SENDER), name=ParticipantName.IDLE)
        )
        return idle, [*dropped, *([Pause()] if dropped else []), *effects]
    opened = replace(
        state,
        name=ParticipantName.OPEN,
        joined=start,
        offset=offset,
        gaps=0,
        report=None,
    )
    seek: list[ParticipantEffect] = []
    if dropped or state.position != offset:
        opened = replace(opened, seeks=state.seeks + 1, position=offset)
        seek = [Seek(offset, opened.seeks)]
    ready, effects = _announce(opened)
    return ready, [*dropped, *seek, OpenWriter(start), Resume(), *effects]


def _repeat_start(state: ParticipantState, start: StartCommit) -> Step:
    """Handle a repeated or outdated START. It opens nothing. It is answered if it names the joined
    transaction: the coordinator may have missed the first answer.
    """
    if not _is_joined(state, start):
        return _ignore(state, Ignored.INSTANT)
    return _answer(state)


def _end(state: ParticipantState, end: EndCommit) -> Step:
    if not _is_joined(state, end):
        return _ignore(state, Ignored.INSTANT)
    if state.name is not ParticipantName.OPEN:
        return _answer(state)
    closing, effects = _announce(replace(state, name=ParticipantName.CLOSING))
    return closing, [Pause(), CloseWriter(end.instant), *effects]


def _acknowledge(state: ParticipantState, ack: AckCommit) -> Step:
    effects: list[ParticipantEffect] = []
    if state.name is ParticipantName.PREPARED and _is_joined(state, ack):
        # If it differs from ours, the coordinator's offset is the one in the table.
        offset = ack.offsets.get(state.partition, state.offset)
        state = replace(state, name=ParticipantName.IDLE, offset=offset)
        effects.append(StoreOffset(offset))
    elif ack.ends_run != state.run_id:
        return _ignore(state, Ignored.INSTANT)
    if ack.ends_run == state.run_id:
        stopped, announcement = _stop(state, "the coordinator has stopped")
    else:
        stopped, announcement = _announce(state)
    return stopped, [*effects, *announcement]


def _take_batch(state: ParticipantState, batch: Polled) -> Step:
    if batch.seeks != state.seeks:
        return state, []  # Fetched before the consumer was sent elsewhere.
    if state.name is not ParticipantName.OPEN or batch.next_offset <= state.offset:
        return replace(state, position=batch.next_offset), []
    records = 0
    if batch.first_offset is not None:
        records = batch.records - max(0, state.offset - batch.first_offset)
    gaps = state.gaps + batch.next_offset - state.offset - max(0, records)
    at = batch.next_offset
    advanced = replace(state, position=at, offset=at, gaps=gaps)
    return advanced, [] if batch.first_offset is None else [Write(state.offset)]


def _report_prepared(state: ParticipantState, closed: Closed) -> Step:
    if state.name is not ParticipantName.CLOSING or not _is_in(state, closed.instant):
        return _ignore(state, Ignored.INSTANT)
    report = replace(
        _build_report(state, Outcome.PREPARED),
        records=closed.records,
        statuses=closed.statuses,
        letters=closed.letters,
        bad_records=closed.bad_records,
        left_out=closed.left_out,
        max_timestamp_ms=closed.max_timestamp_ms,
        tombstones=closed.tombstones,
        tombstones_unmet=closed.tombstones_unmet,
        tombstones_not_looked_for=closed.tombstones_not_looked_for,
    )
    return replace(state, name=ParticipantName.PREPARED, report=report), [Send(report)]


def _fail(
    state: ParticipantState,
    instant: InstantTime,
    outcome: Outcome,
    *,
    reason: str = "",
    new_fields: str = "",
) -> Step:
    # The failed batch may not have arrived as an event, though the consumer is past it.
    state = replace(state, position=_UNKNOWN)
    dropped = _drop_writer(state)
    if not dropped or not _is_in(state, instant):
        return _ignore(state, Ignored.INSTANT)
    report = replace(_build_report(state, outcome), reason=reason, new_fields=new_fields)
    prepared = replace(state, name=ParticipantName.PREPARED, report=report)
    return prepared, [Pause(), *dropped, Send(report)]


def _leave(state: ParticipantState, reason: str) -> Step:
    """Leave the sink. Report a failure to an open transaction, so that it need not time out."""
    failed: list[ParticipantEffect] = []
    if _drop_writer(state):
        failed = [Send(replace(_build_report(state, Outcome.FAILED), reason=reason))]
    stopped, effects = _stop(state, reason)
    return stopped, [*failed, *effects]


def _stop(state: ParticipantState, reason: str) -> Step:
    stopped, announcement = _announce(replace(state, name=ParticipantName.STOPPED))
    return stopped, [Pause(), *_drop_writer(state), *announcement, Finished(reason)]


def _answer(state: ParticipantState) -> Step:
    if state.name is ParticipantName.PREPARED and state.report is not None:
        return state, [Send(state.report)]
    return _announce(state)


def _announce(state: ParticipantState) -> Step:
    ready = Ready(
        epoch=state.newest[0],
        instant=state.joined.instant if state.joined else "",
        sender=state.participant_id,
        partition=state.partition,
        state=state.name,
        offset=state.offset,
        since_ms=state.since_ms,
    )
    return state, [Send(ready)]


def _build_report(state: ParticipantState, outcome: Outcome) -> Report:
    assert state.joined is not None, state
    return Report(
        epoch=state.joined.epoch,
        instant=state.joined.instant,
        sender=state.participant_id,
        partition=state.partition,
        outcome=outcome,
        start=state.joined.offsets[state.partition],
        end=state.offset,
        gaps=state.gaps,
    )


def _drop_writer(state: ParticipantState) -> list[ParticipantEffect]:
    """Return the effect that drops the open writer, if there is one."""
    if state.name not in (ParticipantName.OPEN, ParticipantName.CLOSING):
        return []
    assert state.joined is not None, state
    return [DropWriter(state.joined.instant)]


def _is_joined(state: ParticipantState, message: CoordinatorMessage) -> bool:
    return state.joined is not None and (state.joined.epoch, state.joined.instant) == (
        message.epoch,
        message.instant,
    )


def _is_in(state: ParticipantState, instant: InstantTime) -> bool:
    return state.joined is not None and state.joined.instant == instant


def _ignore(state: ParticipantState, cause: Ignored) -> Step:
    return _count_ignored(state, cause), []


def _count_ignored(state: ParticipantState, cause: Ignored) -> ParticipantState:
    return replace(state, ignored={**state.ignored, cause: state.ignored.get(cause, 0) + 1})
