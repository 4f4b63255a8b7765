"""A sink's coordinator and participants in memory, to die at every storage call, or to meet another
coordinator there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tests.crash.digests import digest
from tests.crash.harness import DEAD_AFTER_MS, State, assert_nothing_is_left
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Changes, Files, MemoryStorage, RecordingStorage
from tests.support.scenario_table import schema_of
from workers.errors import LakehouseError
from workers.lakehouse import open_table
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.sink.batch import DecodedBatch, Source
from workers.sink.config import sink_config
from workers.sink.context import SinkContexts, sink_write_options
from workers.sink.coordinator_events import CommitResult
from workers.sink.epoch import acquire_epoch
from workers.sink.ledger import SinkLedger, SinkTransaction
from workers.sink.messages import Outcome, Report
from workers.sink.sink_commits import SinkCommits
from workers.sink.tables import OFFSET, PARTITION, create_append_table
from workers.sink.writer import SinkWriter
from workers.storage.base import FileInfo
from workers.table.schema_history import read_instant

PAYLOAD = schema_of(id=pa.int64())
# Letters would be outside the table, which is all that this storage holds.
CONFIG = sink_config({"hoodie.kafka.topic": "orders", "hoodie.sink.on.bad.record": "fail"})
Placed = list[tuple[int, int]]


@dataclass(frozen=True)
class Topic:
    watermarks: dict[int, tuple[int, int]]
    topic_id: str = "topic-1"
    cluster_id: str = "cluster-1"

    @property
    def records(self) -> Placed:
        ends = self.watermarks.items()
        return sorted((one, offset) for one, (_, end) in ends for offset in range(end))


EARLIER = Topic({0: (0, 3), 1: (0, 2)})
NOW = Topic({0: (0, 5), 1: (0, 2), 2: (0, 4)})
LATER = Topic({0: (0, 6), 1: (0, 4), 2: (0, 4)})


def coordinator_on(storage: MemoryStorage, clock: StillClock, prefix: str) -> SinkLedger:
    table = open_table(
        storage.location, ports=still_ports(clock, prefix=prefix), storage=storage
    ).table
    epoch = acquire_epoch(storage, CONFIG.sink_id, table.ports, owner=prefix)
    return SinkLedger(table, CONFIG, epoch, sink_write_options(CONFIG, storage.location))


def written(ledger: SinkLedger, begun: SinkTransaction, topic: Topic, prefix: str) -> list[Report]:
    """What all participants report once they have read to the end of the topic."""
    contexts = SinkContexts(ledger.table, CONFIG, ledger.options)
    context = contexts.get_context(begun.instant, begun.schema, begun.read_at)
    reports = []
    for partition, start in begun.offsets.items():
        source = Source(
            CONFIG.topic, partition, f"{prefix}{partition}", begun.topic_id, begun.cluster_id
        )
        writer = SinkWriter(context, CONFIG, source, ledger.table.storage)
        end = topic.watermarks[partition][1]
        offsets = np.arange(start, end, dtype=np.int64)
        rows = pa.table({"id": pa.array(offsets)}, PAYLOAD)
        writer.add(DecodedBatch(rows, offsets, offsets))
        statuses = tuple(one.to_json() for one in writer.close().statuses)
        outcome = Outcome.PREPARED
        report = Report(1, begun.instant, prefix, partition, outcome, start, end, statuses=statuses)
        reports.append(report)
    return reports


def ingest(
    storage: MemoryStorage, clock: StillClock, prefix: str, topic: Topic = NOW
) -> CommitResult | None:
    """One coordinator from its epoch to its commit; None when there was nothing to read."""
    ledger = coordinator_on(storage, clock, prefix)
    begun = ledger.begin(topic)
    if begun is None:
        return None
    return ledger.commit(begun, written(ledger, begun, topic, prefix))


def abort(storage: MemoryStorage, clock: StillClock, prefix: str) -> None:
    ledger = coordinator_on(storage, clock, prefix)
    begun = ledger.begin(NOW)
    assert begun is not None
    written(ledger, begun, NOW, prefix)
    ledger.abort(begun, "for a test")


def settle(storage: MemoryStorage, clock: StillClock, prefix: str) -> None:
    """Its outcome was not told, and nothing had been decided."""
    ledger = coordinator_on(storage, clock, prefix)
    begun = ledger.begin(NOW)
    assert begun is not None
    written(ledger, begun, NOW, prefix)
    ledger.settle(begun)


def commit_and_settle(storage: MemoryStorage, clock: StillClock, prefix: str) -> None:
    """Its outcome was not told, and it had been committed."""
    ledger = coordinator_on(storage, clock, prefix)
    begun = ledger.begin(NOW)
    assert begun is not None
    result = ledger.commit(begun, written(ledger, begun, NOW, prefix))
    assert ledger.settle(begun) == result


Flow = Callable[[MemoryStorage, StillClock, str], object]


def made() -> State:
    """A table in which the sink has committed once."""
    clock = StillClock()
    storage = MemoryStorage(clock)
    create_append_table(
        storage,
        still_ports(clock, prefix="setup"),
        name="orders",
        schema=PAYLOAD,
        topic=CONFIG.topic,
        partitions=3,
    )
    ingest(storage, clock, "setup-", EARLIER)
    clock.sleep(1)
    return State(storage.files, clock.now_ms())


def deaths(start: State, flow: Flow, prefix: str) -> list[State]:
    """Every state that a death of the flow can leave, each once; the last is what it ends in."""
    clock = StillClock(start.now_ms)
    storage = RecordingStorage(clock, start.files)
    flow(storage, clock, prefix)
    states = {digest(files): State(files, now_ms) for files, now_ms in storage.left}
    end = State(storage.files, clock.now_ms())
    states.pop(digest(end.files), None)
    return [*states.values(), end]


def assert_offsets_and_rows_agree(state: State) -> Placed:
    """Whoever reads now sees each record below the committed offsets once, and no other."""
    clock = StillClock(state.now_ms)
    storage = MemoryStorage(clock, state.files)
    lake = open_table(storage.location, ports=still_ports(clock, prefix="read"), storage=storage)
    last_commit = SinkCommits(lake.table, CONFIG.sink_id).load_newest(lake.table.timeline())
    rows = lake.read().select([PARTITION, OFFSET]).to_pylist()
    positions = sorted((row[PARTITION], row[OFFSET]) for row in rows)
    ends = last_commit.offsets.items()
    assert positions == sorted((one, offset) for one, end in ends for offset in range(end))
    # Equal keys are one row to a reader: each record is written once as well.
    writes = lake.table.timeline().list_completed_writes()
    commits = [read_instant(lake.table, one) for one in writes]
    assert len(positions) == sum(stat.num_writes for one in commits for stat in one.stats)
    return positions


def after_ingest(state: State, prefix: str, topic: Topic = NOW) -> State:
    """Another coordinator comes, at once, and reads to the end; then time passes, and a writer
    sweeps what is nobody's.
    """
    clock = StillClock(state.now_ms)
    storage = MemoryStorage(clock, state.files)
    ingest(storage, clock, prefix, topic)
    return _swept(storage, clock)


def _swept(storage: MemoryStorage, clock: StillClock) -> State:
    clock.sleep(DEAD_AFTER_MS / 1000)
    table = open_table(
        storage.location, ports=still_ports(clock, prefix="sweep"), storage=storage
    ).table
    roll_back_dead_writers(table, sink_write_options(CONFIG, storage.location))
    end = State(storage.files, clock.now_ms())
    assert_nothing_is_left(end)
    return end


@dataclass
class Meeting:
    """What happens at the n-th storage call of somebody."""

    at: int
    happens: Callable[[], None]
    calls: int = 0
    is_over: bool = False

    def pass_by(self) -> None:
        self.calls += 1
        if self.calls == self.at and not self.is_over:
            self.is_over = True
            self.happens()


class MeetingStorage(MemoryStorage):
    """Lets somebody else do his work on the same files before each of its own calls in turn."""

    def __init__(self, clock: StillClock, files: Files) -> None:
        super().__init__(clock, files)
        self.meeting: Meeting | None = None

    def _meet(self) -> None:
        if self.meeting is not None:
            self.meeting.pass_by()

    def read(self, path: str) -> bytes:
        self._meet()
        return super().read(path)

    def list_tree(self, directory: str) -> list[FileInfo]:
        self._meet()
        return super().list_tree(directory)

    def info(self, path: str) -> FileInfo | None:
        self._meet()
        return super().info(path)

    def _change(self, changes: Changes, half: Changes | None = None) -> None:
        super()._change(changes, half)
        self._meet()


def meet(start: State, at: int) -> tuple[State, int]:
    """A coordinator works, and at its `at`-th call another one comes and does all of its work; what
    both end in, and how many calls the first one made.
    """
    clock = StillClock(start.now_ms)
    storage = MeetingStorage(clock, start.files)
    other = MemoryStorage(clock)
    other.files = storage.files  # The same table.

    def comes() -> None:
        ingest(other, clock, "other-")

    storage.meeting = meeting = Meeting(at, comes)
    try:
        ingest(storage, clock, "first-")
    except LakehouseError:
        assert meeting.is_over  # Nothing else stops it.
    return State(storage.files, clock.now_ms()), meeting.calls
