"""Publisher of the sink's state: it writes `state.json` when the state has changed.

The file is for users and pages. The coordinator's thread writes it at a limited rate, and failures
of the file affect nothing else. While that thread waits for its work, such as a commit that waits
for the table's lock, another thread repeats the last state.
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
from workers.sink.coordinator_state import CoordinatorState, ParticipantStatus, Work
from workers.sink.messages import (
    AckCommit,
    EndCommit,
    Ignored,
    Message,
    Ready,
    Report,
    StartCommit,
    get_type_name,
)
from workers.sink.state_file import (
    IGNORED_PREFIX,
    TRACE_MAX,
    TRANSACTIONS_MAX,
    ParticipantSnapshot,
    SinkState,
    TraceEntry,
    TransactionSnapshot,
    put_state,
    read_state,
)
from workers.storage.base import Storage

_CHANGED_MS = 250
_ALWAYS_MS = 2_000
_TRANSITION = "TRANSITION"
VOICE = "sink's voice"
WORK_SHOWN_S_MAX = 600
"""Longer work is no longer reported as in progress, so the state becomes stale."""
_WORDS_OF_WAITING = {
    Work.COMMIT: "all partitions have reported, and the commit is under way",
    Work.SETTLE: "the outcome of the commit is being determined",
    Work.ABORT: "the transaction is being rolled back",
}
_log = logging.getLogger(__name__)


class StatePublisher:
    """Publisher of one coordinator. It continues the trace and transactions of earlier ones."""

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
        before = _read_former(storage, sink_id)
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

    def add_message(self, message: Message, now_ms: int) -> None:
        """Add a sent or received message to the trace, except a READY without a change."""
        if isinstance(message, Ready) and not self._is_news(message):
            return
        partition = message.partition if isinstance(message, Report | Ready) else None
        self._add_entry(
            TraceEntry(
                now_ms,
                get_type_name(message),
                message.sender,
                partition,
                message.instant,
                _format_detail(message),
            )
        )

    def set_topic_ends(self, ends: Mapping[int, tuple[int, int]]) -> None:
        """Set the first remaining offset and the end offset of each partition, from the broker."""
        self._ends = ends
        seen = self._former.participants if self._former else {}
        self._read_before_look = {partition: status.offset for partition, status in seen.items()}
        self._has_changed = True

    def set_table_offsets(self, offsets: Mapping[int, int]) -> None:
        """Set the next offset of each partition in the table."""
        self._table_offsets = offsets
        self._has_changed = True

    def record_commit(self, instant: InstantTime, reports: tuple[Report, ...], now_ms: int) -> None:
        """Record the committed transaction of these reports, and count its tombstones."""
        rows = sum(report.records - report.bad_records for report in reports)
        bad = sum(report.bad_records for report in reports)
        for report in reports:
            self._tombstones["tombstones"] += report.tombstones
            self._tombstones["tombstones_unmet"] += report.tombstones_unmet
            self._tombstones["tombstones_not_looked_for"] += report.tombstones_not_looked_for
        # The topic has at least the offsets that were read.
        read = {report.partition: report.end for report in reports}
        self._ends = {
            partition: (first, max(end, read.get(partition, end)))
            for partition, (first, end) in self._ends.items()
        }
        self._add_transaction(instant, "committed", "", now_ms, rows, bad)

    def record_failed_commit(self, instant: InstantTime, result: CommitResult, now_ms: int) -> None:
        """Add the reason to the trace, unless the result is a commit."""
        if not isinstance(result, Committed):
            detail = f"{type(result).__name__}: {result.reason}"
            self._add_entry(TraceEntry(now_ms, _TRANSITION, self._owner, None, instant, detail))

    def record_abort(self, abort: Abort, now_ms: int) -> None:
        """Record an aborted transaction."""
        self._add_transaction(abort.instant, "aborted", abort.reason, now_ms)

    def set_ignored_records(self, records: Mapping[Ignored, int]) -> None:
        """Set the counts of control records that are not messages of this sink."""
        counters = {f"{IGNORED_PREFIX}{cause}": count for cause, count in records.items()}
        self._has_changed |= counters != self._counters
        self._counters = counters

    def update_state(self, state: CoordinatorState, now_ms: int) -> None:
        """Update the state after a step of the coordinator. Write it if it is due."""
        former, self._former = self._former, state
        if former is None or former.name is not state.name:
            instant = state.transaction.instant if state.transaction else ""
            self._add_entry(
                TraceEntry(now_ms, _TRANSITION, self._owner, None, instant, str(state.name))
            )
        self._has_changed |= former is not state
        is_news = former is None or former.work is not state.work
        wait_ms = _CHANGED_MS if self._has_changed else _ALWAYS_MS
        # This thread performs the work next, and publishes nothing until it is done.
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
            reason=_format_reason(state, now_ms),
            participants=tuple(self._build_participants(state)),
            transactions=tuple(self._transactions),
            trace=tuple(self._trace),
            counters=self._build_counters(state),
        )
        with self._writing:
            self._last_state = sink_state
            self._put(sink_state)

    @contextmanager
    def repeat_state(self) -> Iterator[None]:
        """Repeat the last state from another thread while the block runs."""
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

    def _build_participants(self, state: CoordinatorState) -> list[ParticipantSnapshot]:
        transaction = state.transaction
        partitions = {*self._ends, *state.participants, *self._table_offsets}
        snapshots = []
        for partition in sorted(partitions):
            status = state.participants.get(partition)
            snapshots.append(
                ParticipantSnapshot(
                    partition=partition,
                    participant=status.participant_id if status else "",
                    worker=_get_worker(status.participant_id) if status else "",
                    state=str(status.state) if status else "",
                    local_offset=status.offset if status else None,
                    table_offset=self._table_offsets.get(partition),
                    broker_offset=self._find_end(partition, status),
                    has_reported=bool(transaction and partition in transaction.reports),
                    is_member=transaction is None or partition in transaction.offsets,
                    seen_ms=status.at_ms if status else 0,
                )
            )
        return snapshots

    def _find_end(self, partition: int, status: ParticipantStatus | None) -> int | None:
        """Return the end offset of the partition: the broker's, or a higher offset that was read
        since. Earlier reads do not count, because the topic may have been created again.
        """
        if (ends := self._ends.get(partition)) is None:
            return None
        if status is None:
            return ends[1]
        in_table = self._table_offsets.get(partition, status.offset)
        has_read = status.offset > self._read_before_look.get(partition, in_table)
        return max(ends[1], status.offset) if has_read else ends[1]

    def _build_counters(self, state: CoordinatorState) -> dict[str, int]:
        ignored = {f"ignored_{cause}": count for cause, count in state.ignored.items()}
        tombstones = +self._tombstones
        return {**self._counters, **ignored, **tombstones, "failures_in_a_row": state.failures}

    def _add_transaction(
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
            TransactionSnapshot(instant, outcome, began_ms, now_ms, rows, bad_rows, reason)
        )
        self._has_changed = True

    def _is_news(self, ready: Ready) -> bool:
        status = self._former.participants.get(ready.partition) if self._former else None
        last = (status.participant_id, status.state, status.instant) if status else None
        return last != (ready.sender, ready.state, ready.instant)

    def _add_entry(self, entry: TraceEntry) -> None:
        self._trace.append(entry)
        self._has_changed = True


def _read_former(storage: Storage, sink_id: str) -> SinkState | None:
    try:
        return read_state(storage, sink_id)
    except LakehouseError as error:
        _log.warning("what the sink showed before is not read: %s", error)
        return None


def _get_worker(participant_id: str) -> str:
    """Return host and process of a participant id: `<partition>@<host>:<pid>:...`."""
    return ":".join(participant_id.partition("@")[2].split(":")[:2])


def _format_reason(state: CoordinatorState, now_ms: int) -> str:
    """Return what the coordinator waits for, else the reason of its state."""
    if state.work in _WORDS_OF_WAITING:
        what = _WORDS_OF_WAITING[state.work]
        return f"{what} since {format_instant(now_ms)}: waits for the table's storage"
    if state.transaction is not None and not state.transaction.members:
        absent = ", ".join(map(str, state.list_absent(now_ms)))
        return f"waits for a participant of partition {absent}" if absent else state.reason
    return state.reason


def _format_detail(message: Message) -> str:
    match message:
        case StartCommit(offsets=offsets):
            return ", ".join(f"{partition}={at}" for partition, at in sorted(offsets.items()))
        case EndCommit():
            return ""
        case AckCommit(offsets=offsets, ends_run=ends_run):
            detail = ", ".join(f"{partition}={at}" for partition, at in sorted(offsets.items()))
            return f"{detail}; the last one" if ends_run else detail
        case Report():
            detail = f"{message.outcome} {message.start}..{message.end}, {message.records} records"
            return f"{detail}: {message.reason}" if message.reason else detail
        case Ready():
            return f"{message.state} at {message.offset}"
