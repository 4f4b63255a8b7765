"""Words for what happens to a coordinator with two partitions, and for what it asks for."""

from __future__ import annotations

from collections.abc import Iterable

from workers.sink.coordinator import step
from workers.sink.coordinator_events import (
    Abort,
    AbortEnded,
    Begin,
    BeginFailed,
    Begun,
    Commit,
    CommitEnded,
    CommitFailed,
    Committed,
    CommitUnknown,
    CoordinatorEffect,
    CoordinatorEvent,
    EvolveSchema,
    Fenced,
    NothingToRead,
    SchemaEvolved,
    SchemaRefused,
    Settle,
    Settled,
    Started,
    Stopped,
    StopRequested,
)
from workers.sink.coordinator_state import CoordinatorSettings, CoordinatorState, Work
from workers.sink.messages import (
    AckCommit,
    EndCommit,
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
from workers.sink.offsets import Stale, StaleCause

SETTINGS = CoordinatorSettings(
    interval_ms=10_000, write_timeout_ms=50_000, resend_ms=2_000, silence_ms=20_000
)
OFFSETS = {0: 10, 1: 20}
DONE = {0: 15, 1: 20}
NOW = 12_500
"""When the events of the table happen; START of t1 was sent at 1,000 and END at 11,000."""


def heard(message: Message, now_ms: int = NOW) -> MessageReceived:
    return MessageReceived(message, now_ms)


def ready(
    partition: int,
    state: ParticipantName = ParticipantName.IDLE,
    *,
    now_ms: int = NOW,
    instant: str = "",
    who: str = "a",
    since_ms: int = 5,
    epoch: int = 2,
) -> MessageReceived:
    message = Ready(epoch, instant, f"p{partition}-{who}", partition, state, 10, since_ms)
    return heard(message, now_ms)


def report(
    partition: int,
    outcome: Outcome = Outcome.PREPARED,
    *,
    instant: str = "t1",
    who: str = "a",
    start: int | None = None,
    end: int | None = None,
    epoch: int = 2,
) -> MessageReceived:
    start = OFFSETS[partition] if start is None else start
    end = DONE[partition] if end is None else end
    sender = f"p{partition}-{who}"
    reason, fields = ("full", "") if outcome is Outcome.FAILED else ("", "f" * 3)
    return heard(
        Report(
            epoch, instant, sender, partition, outcome, start, end, reason=reason, new_fields=fields
        )
    )


def committed(now_ms: int = NOW) -> CommitEnded:
    return CommitEnded(Committed(DONE), now_ms)


def commit_ended(result: Stale | CommitFailed | CommitUnknown) -> CommitEnded:
    return CommitEnded(result, NOW)


def stale(cause: StaleCause) -> CommitEnded:
    return commit_ended(Stale(cause, f"stale {cause}"))


OPEN, PREPARED, GONE = ParticipantName.OPEN, ParticipantName.PREPARED, ParticipantName.STOPPED

EVENTS: dict[str, CoordinatorEvent] = {
    "tick soon": Tick(NOW),
    "tick in 2 s": Tick(NOW + 2_000),
    "tick in 20 s": Tick(NOW + 20_000),
    "tick at the timeout": Tick(NOW + 60_000),
    "ready p1": ready(1),
    "ready p1 in t1": ready(1, OPEN, instant="t1"),
    "ready p1, younger": ready(1, who="b", since_ms=6),
    "ready p1, older": ready(1, who="z", since_ms=4),
    "ready p1, after silence": ready(1, who="z", since_ms=4, now_ms=NOW + 30_000),
    "ready p1, stopped": ready(1, GONE),
    "ready p1, epoch 3": ready(1, epoch=3),
    "ready p1, epoch 0": ready(1, epoch=0),
    "ready of no member": ready(7),
    "report p1": report(1),
    "report p0": report(0),
    "report p1 of t0": report(1, instant="t0"),
    "report p1 of epoch 1": report(1, epoch=1),
    "report p1, no member": report(1, who="b"),
    "report p1 from 19": report(1, start=19),
    "report p1 to 19": report(1, end=19),
    "report p1, failed": report(1, Outcome.FAILED),
    "report p1, new fields": report(1, Outcome.NEEDS_SCHEMA),
    "START of epoch 1": heard(StartCommit(1, "t0", "c1", OFFSETS, {}, "{}", "")),
    "START of its own": heard(StartCommit(2, "t1", "c2", OFFSETS, {}, "{}", "")),
    "END of epoch 3": heard(EndCommit(3, "t0", "c3")),
    "stop": StopRequested(True, "asked", NOW),
    "stop hard": StopRequested(False, "now", NOW),
    "fenced": Fenced("lost", NOW),
}
ANSWERS: dict[str, CoordinatorEvent] = {
    "begun t2": Begun("t2", OFFSETS, "{}", "", NOW),
    "nothing to read": NothingToRead(NOW),
    "begin failed": BeginFailed("disk", NOW),
    "begin refused": BeginFailed("topic", NOW, is_final=True),
    "committed": committed(),
    "commit failed": commit_ended(CommitFailed("conflict")),
    "commit failed for now": commit_ended(CommitFailed("disk", can_retry=True)),
    "commit unknown": commit_ended(CommitUnknown("cut")),
    "stale epoch": stale(StaleCause.EPOCH),
    "stale offsets": stale(StaleCause.OFFSETS),
    "stale topic": stale(StaleCause.TOPIC),
    "settled, committed": Settled(Committed(DONE), NOW),
    "settled, not committed": Settled(CommitFailed("rolled back"), NOW),
    "not settled": Settled(CommitUnknown("cut"), NOW),
    "abort ended": AbortEnded(NOW),
    "schema evolved": SchemaEvolved(NOW),
    "schema refused": SchemaRefused(("x",), "a name", NOW),
    "schema not evolved": SchemaRefused((), "lock", NOW),
}
"""What only the runtime says, when it was asked."""

_BEGINS: list[CoordinatorEvent] = [Started(0), Tick(100)]
_BEGUN = Begun("t1", OFFSETS, "{}", "", 500)
_READY = [ready(0, now_ms=900), ready(1, now_ms=1_000)]
_STARTED = [*_BEGINS, _BEGUN, *_READY]
_JOINED = [ready(one, OPEN, now_ms=1_100, instant="t1") for one in OFFSETS]
_ENDED = [*_STARTED, *_JOINED, Tick(11_000)]
_COMMITS = [*_ENDED, report(0), report(1)]
_UNKNOWN = ANSWERS["commit unknown"]
TO_STATE: dict[str, list[CoordinatorEvent]] = {
    "new": [Started(NOW)],
    "begins": _BEGINS,
    "waits": [*_BEGINS, _BEGUN, ready(0, now_ms=900)],
    "started": [*_STARTED, *_JOINED],
    "not joined": [*_STARTED, _JOINED[0]],
    "ended": _ENDED,
    "half": [*_ENDED, report(0)],
    "commits": _COMMITS,
    "retries": [*_COMMITS, ANSWERS["commit failed for now"]],
    "settles": [*_COMMITS, _UNKNOWN],
    "unsettled": [*_COMMITS, _UNKNOWN, ANSWERS["not settled"]],
    "aborts": [*_ENDED, report(0, Outcome.FAILED)],
    "failed": [*_ENDED, report(0, Outcome.FAILED), AbortEnded(NOW)],
    "evolves": [*_ENDED, report(0, Outcome.NEEDS_SCHEMA), AbortEnded(NOW)],
    "acked": [*_COMMITS, committed()],
    "leaves": [*_COMMITS, committed(), StopRequested(True, "asked", NOW)],
    "stopped": [Started(0), StopRequested(True, "asked", 0), Tick(5_000)],
    "fenced": [Started(0), Fenced("lost", 0)],
    "begins, stopping": [*_BEGINS, StopRequested(True, "asked", NOW)],
    "commits, stopping": [*_COMMITS, StopRequested(True, "asked", NOW)],
    "settles, hard": [*_COMMITS, _UNKNOWN, StopRequested(False, "now", NOW)],
    "aborts, stopping": [*_ENDED, report(0, Outcome.FAILED), StopRequested(True, "asked", NOW)],
    "evolves, stopping": [
        *_ENDED,
        report(0, Outcome.NEEDS_SCHEMA),
        AbortEnded(NOW),
        StopRequested(True, "asked", NOW),
    ],
    "begins, fenced": [*_BEGINS, Fenced("lost", NOW)],
    "commits, fenced": [*_COMMITS, Fenced("lost", NOW)],
    "settles, fenced": [*_COMMITS, _UNKNOWN, Fenced("lost", NOW)],
    "aborts, fenced": [*_ENDED, Fenced("lost", NOW)],
    "evolves, fenced": [
        *_ENDED,
        report(0, Outcome.NEEDS_SCHEMA),
        AbortEnded(NOW),
        Fenced("lost", NOW),
    ],
}


def new(settings: CoordinatorSettings = SETTINGS) -> CoordinatorState:
    return CoordinatorState("c2", 2, "run", settings)


def after(
    events: Iterable[CoordinatorEvent], state: CoordinatorState | None = None
) -> tuple[CoordinatorState, list[CoordinatorEffect]]:
    state, effects = state or new(), list[CoordinatorEffect]()
    for event in events:
        state, effects = step(state, event)
    return state, effects


def shown(state: CoordinatorState) -> str:
    return state.name if state.work is Work.NOTHING else f"{state.name}/{state.work}"


def effect_text(effect: CoordinatorEffect) -> str:
    match effect:
        case Send(StartCommit() as start):
            return f"START({start.instant} {' '.join(start.members.values())})"
        case Send(EndCommit() as end):
            return f"END({end.instant})"
        case Send(AckCommit() as ack):
            return f"ACK({ack.instant or '-'}{' last' if ack.ends_run else ''})"
        case Begin():
            return "begin"
        case Commit(instant, reports):
            return f"commit({instant} {' '.join(one.sender for one in reports)})"
        case Settle(instant):
            return f"settle({instant})"
        case Abort(_, reason):
            return f"abort({reason})"
        case EvolveSchema(fields):
            return f"evolve({fields})"
        case Stopped(reason, is_error):
            return f"{'error' if is_error else 'stopped'}({reason})"
        case _:
            raise AssertionError(effect)
