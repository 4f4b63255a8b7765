"""What the coordinator shows of the sink: `state.json`, written again when something has changed.

The file is for people and pages. It is written by the coordinator's thread, not more often than it
can be read, and whatever goes wrong with it disturbs nothing. While that thread is kept by its
work, by a commit that waits for the table's lock, another one says its last word again.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from workers.clock import Clock, InstantTime, format_instant, parse_instant
from workers.errors import LakehouseError
from workers.sink.coordinator_events import Abort, CommitResult, Committed
from workers.sink.coordinator_state import CoordinatorState, Seen, Work
from workers.sink.messages import (
    AckCommit,
    EndCommit,
    Ignored,
    Message,
    Ready,
    Report,
    StartCommit,
    type_name,
)
from workers.sink.state_file import (
    PASSED_OVER,
    TRACE_MAX,
    TRANSACTIONS_MAX,
    ParticipantShown,
    SinkState,
    TraceEntry,
    TransactionShown,
    put_state,
    read_state,
)
from workers.storage.base import Storage

_CHANGED_MS = 250
_ALWAYS_MS = 2_000
_TRANSITION = "TRANSITION"
VOICE = "sink's voice"
WORK_SHOWN_S_MAX = 600
"""What takes longer is not said to be under way any more: the sink falls silent."""
_WORDS_OF_WAITING = {
    Work.COMMIT: "all partitions have reported, and the commit is under way",
    Work.SETTLE: "whether the commit stands is being found out",
    Work.ABORT: "the transaction is being rolled back",
}
_log = logging.getLogger(__name__)


class SinkShown:
    """What one coordinator shows; its predecessors' trace and transactions stay."""

    def __init__(
        self,
        storage: Storage,
        sink_id: str,
        topic: str,
        owner: str,
        clock: Clock,
        *,
        work_shown_s_max: float = WORK_SHOWN_S_MAX,
    ) -> None:
        self._storage = storage
        self._sink_id, self._topic, self._owner = sink_id, topic, owner
        self._clock = clock
        self._work_shown_s_max = work_shown_s_max
        before = _former(storage, sink_id)
        self._trace = deque(before.trace if before else (), maxlen=TRACE_MAX)
        self._transactions = deque(before.transactions if before else (), maxlen=TRANSACTIONS_MAX)
        self._ends: Mapping[int, tuple[int, int]] = {}
        self._read_before_look: Mapping[int, int] = {}
        self._table_offsets: Mapping[int, int] = {}
        self._counters: dict[str, int] = {}
        self._tombstones: Counter[str] = Counter()
        self._has_changed = True
        self._written_ms = 0
        self._former: CoordinatorState | None = None
        self._last_state: SinkState | None = None
        self._writing = threading.Lock()

    # What happens -----------------------------------------------------------------------------

    def message(self, message: Message, now_ms: int) -> None:
        """A message sent or received; a READY that says nothing new is left out."""
        if isinstance(message, Ready) and not self._is_news(message):
            return
        partition = message.partition if isinstance(message, Report | Ready) else None
        self._add(
            TraceEntry(
                now_ms,
                type_name(message),
                message.sender,
                partition,
                message.instant,
                _detail(message),
            )
        )

    def topic(self, ends: Mapping[int, tuple[int, int]]) -> None:
        """Partition to the first offset that is left and the end, as the broker said just now."""
        self._ends = ends
        seen = self._former.participants if self._former else {}
        self._read_before_look = {partition: one.offset for partition, one in seen.items()}
        self._has_changed = True

    def table(self, offsets: Mapping[int, int]) -> None:
        """Partition to the next offset that the table lacks."""
        self._table_offsets = offsets
        self._has_changed = True

    def committed(self, instant: InstantTime, reports: tuple[Report, ...], now_ms: int) -> None:
        """The transaction of these reports is in the table; counts its tombstones."""
        rows = sum(one.records - one.bad_records for one in reports)
        bad = sum(one.bad_records for one in reports)
        for report in reports:
            self._tombstones["tombstones"] += report.tombstones
            self._tombstones["tombstones_unmet"] += report.tombstones_unmet
            self._tombstones["tombstones_not_looked_for"] += report.tombstones_not_looked_for
        # What was read proves more of the topic than the last look at it.
        read = {one.partition: one.end for one in reports}
        self._ends = {
            partition: (first, max(end, read.get(partition, end)))
            for partition, (first, end) in self._ends.items()
        }
        self._ended(instant, "committed", "", now_ms, rows, bad)

    def not_committed(self, instant: InstantTime, result: CommitResult, now_ms: int) -> None:
        """A line of the trace with the reason; nothing for a result that is a commit."""
        if not isinstance(result, Committed):
            detail = f"{type(result).__name__}: {result.reason}"
            self._add(TraceEntry(now_ms, _TRANSITION, self._owner, None, instant, detail))

    def aborted(self, abort: Abort, now_ms: int) -> None:
        """The transaction is over without a commit."""
        self._ended(abort.instant, "aborted", abort.reason, now_ms)

    def passed_over(self, records: Mapping[Ignored, int]) -> None:
        """What the control topic had that was no message of this sink."""
        counters = {f"{PASSED_OVER}{cause}": count for cause, count in records.items()}
        self._has_changed |= counters != self._counters
        self._counters = counters

    def state(self, state: CoordinatorState, now_ms: int) -> None:
        """The coordinator's after each step; written when it is time."""
        former, self._former = self._former, state
        if former is None or former.name is not state.name:
            instant = state.transaction.instant if state.transaction else ""
            self._add(TraceEntry(now_ms, _TRANSITION, self._owner, None, instant, str(state.name)))
        self._has_changed |= former is not state
        is_news = former is None or former.work is not state.work
        wait_ms = _CHANGED_MS if self._has_changed else _ALWAYS_MS
        # What was asked for is done by this thread: until it is, nothing else is told.
        is_last_word = state.is_over or (is_news and state.work in _WORDS_OF_WAITING)
        if now_ms - self._written_ms >= wait_ms or is_last_word:
            self._write(state, now_ms)

    # What is written --------------------------------------------------------------------------

    def _write(self, state: CoordinatorState, now_ms: int) -> None:
        self._written_ms, self._has_changed = now_ms, False
        sink_state = SinkState(
            sink_id=self._sink_id,
            topic=self._topic,
            epoch=state.epoch,
            state=str(state.name),
            instant=state.transaction.instant if state.transaction else "",
            deadline_ms=state.deadline_ms or None,
            owner=self._owner,
            updated_ms=now_ms,
            reason=_reason(state, now_ms),
            participants=tuple(self._participants(state)),
            transactions=tuple(self._transactions),
            trace=tuple(self._trace),
            counters=self._all_counters(state),
        )
        with self._writing:
            self._last_state = sink_state
            self._put(sink_state)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """What is done in here may take long, and its thread tells nothing meanwhile."""
        is_done = threading.Event()
        voice = threading.Thread(target=self._repeat, args=(is_done,), name=VOICE, daemon=True)
        voice.start()
        try:
            yield
        finally:
            is_done.set()
            voice.join()

    def _repeat(self, is_done: threading.Event) -> None:
        began_s = self._clock.monotonic_s()
        while not is_done.wait(_ALWAYS_MS / 1000):
            took_s = self._clock.monotonic_s() - began_s
            if took_s > self._work_shown_s_max:
                return
            with self._writing:
                if self._last_state is not None and not is_done.is_set():
                    reason = f"{self._last_state.reason or 'at work'}, for {took_s:.0f} s"
                    now_ms = self._clock.now_ms()
                    self._put(replace(self._last_state, updated_ms=now_ms, reason=reason))

    def _put(self, sink_state: SinkState) -> None:
        try:
            put_state(self._storage, sink_state)
        except LakehouseError as error:
            _log.warning("the sink's state is not written: %s", error)

    def _participants(self, state: CoordinatorState) -> list[ParticipantShown]:
        transaction = state.transaction
        partitions = {*self._ends, *state.participants, *self._table_offsets}
        shown = []
        for partition in sorted(partitions):
            seen = state.participants.get(partition)
            shown.append(
                ParticipantShown(
                    partition=partition,
                    participant=seen.participant_id if seen else "",
                    worker=_worker_of(seen.participant_id) if seen else "",
                    state=str(seen.state) if seen else "",
                    local_offset=seen.offset if seen else None,
                    table_offset=self._table_offsets.get(partition),
                    broker_offset=self._end(partition, seen),
                    has_reported=bool(transaction and partition in transaction.reports),
                    is_member=transaction is None or partition in transaction.offsets,
                    seen_ms=seen.at_ms if seen else 0,
                )
            )
        return shown

    def _end(self, partition: int, seen: Seen | None) -> int | None:
        """Of the topic. What was read since the last look at it proves more; what was read before
        proves nothing, the topic may be another one by now.
        """
        if (ends := self._ends.get(partition)) is None:
            return None
        if seen is None:
            return ends[1]
        in_table = self._table_offsets.get(partition, seen.offset)
        has_read = seen.offset > self._read_before_look.get(partition, in_table)
        return max(ends[1], seen.offset) if has_read else ends[1]

    def _all_counters(self, state: CoordinatorState) -> dict[str, int]:
        ignored = {f"ignored_{cause}": count for cause, count in state.ignored.items()}
        tombstones = +self._tombstones
        return {**self._counters, **ignored, **tombstones, "failures_in_a_row": state.failures}

    def _ended(
        self,
        instant: InstantTime,
        outcome: str,
        reason: str,
        now_ms: int,
        rows: int = 0,
        bad_rows: int = 0,
    ) -> None:
        began_ms = parse_instant(instant)
        self._transactions.append(
            TransactionShown(instant, outcome, began_ms, now_ms, rows, bad_rows, reason)
        )
        self._has_changed = True

    def _is_news(self, ready: Ready) -> bool:
        seen = self._former.participants.get(ready.partition) if self._former else None
        known = (seen.participant_id, seen.state, seen.instant) if seen else None
        return known != (ready.sender, ready.state, ready.instant)

    def _add(self, entry: TraceEntry) -> None:
        self._trace.append(entry)
        self._has_changed = True


def _former(storage: Storage, sink_id: str) -> SinkState | None:
    try:
        return read_state(storage, sink_id)
    except LakehouseError as error:
        _log.warning("what the sink showed before is not read: %s", error)
        return None


def _worker_of(participant_id: str) -> str:
    """`<partition>@<host>:<pid>:...`"""
    return ":".join(participant_id.partition("@")[2].split(":")[:2])


def _reason(state: CoordinatorState, now_ms: int) -> str:
    """Why it stands as it stands: whom or what it waits for comes first."""
    if state.work in _WORDS_OF_WAITING:
        what = _WORDS_OF_WAITING[state.work]
        return f"{what} since {format_instant(now_ms)}: waits for the table's storage"
    if state.transaction is not None and not state.transaction.members:
        absent = ", ".join(map(str, state.absent(now_ms)))
        return f"waits for a participant of partition {absent}" if absent else state.reason
    return state.reason


def _detail(message: Message) -> str:
    match message:
        case StartCommit(offsets=offsets):
            return ", ".join(f"{one}={at}" for one, at in sorted(offsets.items()))
        case EndCommit():
            return ""
        case AckCommit(offsets=offsets, ends_run=ends_run):
            detail = ", ".join(f"{one}={at}" for one, at in sorted(offsets.items()))
            return f"{detail}; the last one" if ends_run else detail
        case Report():
            detail = f"{message.outcome} {message.start}..{message.end}, {message.records} records"
            return f"{detail}: {message.reason}" if message.reason else detail
        case Ready():
            return f"{message.state} at {message.offset}"
