"""Words for what happens to a participant of partition 1, and for what it asks for."""

from __future__ import annotations

from collections.abc import Iterable

from workers.sink.messages import (
    AckCommit,
    EndCommit,
    MessageReceived,
    Outcome,
    Ready,
    Report,
    Send,
    StartCommit,
    Tick,
)
from workers.sink.participant import READY_MS, ParticipantState, step
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

ME, OTHER = "p1-me", "p1-other"


def start(instant: str, offset: int = 10, *, epoch: int = 2, member: str = ME) -> MessageReceived:
    message = StartCommit(epoch, instant, "c", {0: 0, 1: offset}, {0: "p0", 1: member}, "{}", "")
    return MessageReceived(message, 0)


def end(instant: str, *, epoch: int = 2) -> MessageReceived:
    return MessageReceived(EndCommit(epoch, instant, "c"), 0)


def ack(instant: str, offset: int = 20, *, epoch: int = 2, ends_run: str = "") -> MessageReceived:
    return MessageReceived(AckCommit(epoch, instant, "c", {0: 0, 1: offset}, ends_run), 0)


def batch(first: int | None, next_offset: int, *, seeks: int = 1) -> Polled:
    records = 0 if first is None else next_offset - first
    return Polled(first, next_offset, records, seeks)


EVENTS: dict[str, ParticipantEvent] = {
    "START t1 again": start("t1"),
    "START t0": start("t0"),
    "START t2": start("t2", 20),
    "START t2 elsewhere": start("t2", 7),
    "START t2 for another": start("t2", member=OTHER),
    "START epoch 1": start("t9", epoch=1),
    "START epoch 3": start("t0", 20, epoch=3),
    "END t1": end("t1"),
    "END t2": end("t2"),
    "END epoch 1": end("t1", epoch=1),
    "END epoch 3": end("t1", epoch=3),
    "ACK t1": ack("t1"),
    "ACK t1 elsewhere": ack("t1", 15),
    "ACK t2": ack("t2"),
    "ACK epoch 3": ack("t1", epoch=3),
    "ACK t1, last": ack("t1", ends_run="run"),
    "ACK t2, last": ack("t2", ends_run="run"),
    "ACK of another run": ack("t2", ends_run="earlier"),
    "ACK last, epoch 1": ack("t1", epoch=1, ends_run="run"),
    "batch": batch(20, 25),
    "batch from before": batch(20, 25, seeks=0),
    "closed t1": Closed("t1", 10, ("file",)),
    "closed t0": Closed("t0", 10, ("file",)),
    "write failed t1": WriteFailed("t1", "full"),
    "write failed t0": WriteFailed("t0", "full"),
    "fields t1": NeedsSchema("t1", "f"),
    "leave": LeaveRequested("lost"),
    "report of another": MessageReceived(Report(9, "t1", OTHER, 1, Outcome.FAILED, 0, 0), 0),
    "tick": Tick(READY_MS),
    "early tick": Tick(READY_MS - 1),
}
"""What happens to a participant of partition 1 that took part in t1 of epoch 2."""

TO_STATE: dict[str, list[ParticipantEvent]] = {
    "IDLE": [Assigned(0)],
    "OPEN": [Assigned(0), start("t1"), batch(10, 20)],
    "CLOSING": [Assigned(0), start("t1"), batch(10, 20), end("t1")],
    "PREPARED": [Assigned(0), start("t1"), batch(10, 20), end("t1"), EVENTS["closed t1"]],
    "STOPPED": [Assigned(0), LeaveRequested("lost")],
}


def after(events: Iterable[ParticipantEvent]) -> tuple[ParticipantState, list[ParticipantEffect]]:
    state, effects = ParticipantState(1, ME, since_ms=5, run_id="run"), list[ParticipantEffect]()
    for event in events:
        state, effects = step(state, event)
    return state, effects


def effect_text(effect: ParticipantEffect) -> str:
    match effect:
        case Send(Ready() as ready):
            assert (ready.sender, ready.partition, ready.since_ms) == (ME, 1, 5)
            return f"ready({ready.instant or '-'} {ready.offset} e{ready.epoch})"
        case Send(Report() as report):
            detail = report.reason or report.new_fields or " ".join(report.statuses)
            return f"{report.outcome.lower()}({report.start}-{report.end} {detail})"
        case Seek(offset, seeks):
            return f"seek({offset} #{seeks})"
        case OpenWriter(message):
            return f"open({message.instant})"
        case Write(from_offset):
            return f"write({from_offset})"
        case CloseWriter(instant):
            return f"close({instant})"
        case DropWriter(instant):
            return f"drop({instant})"
        case StoreOffset(offset):
            return f"store({offset})"
        case Pause() | Resume():
            return type(effect).__name__.lower()
        case Finished():
            return "finished"
        case _:
            raise AssertionError(effect)
