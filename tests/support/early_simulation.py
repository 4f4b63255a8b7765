"""Writers that look for each other, in one thread and one order per seed: the engine's own looking,
markers, heartbeats, decisions and rules, on a storage in memory.

Whenever somebody reads storage in the middle of a look, others may go on: so a look is torn apart
by what happens meanwhile, at every call that it makes. Only what is around it is simulated: when a
writer does its next step, dies or beats, and how it commits under the table lock.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

import pyarrow as pa

from tests.support.crash_ports import CountingIds, StillClock, StillScheduler
from tests.support.memory_storage import Files, MemoryStorage
from workers.clock import InstantTime, next_instant
from workers.concurrency.conflicts import (
    Conflict,
    FileGroupKey,
    WriteSet,
    find_concurrent_commits,
    overlapping_file_groups,
)
from workers.concurrency.heartbeat import HeartbeatContent, heartbeat_path
from workers.concurrency.locks.record import decode_lock
from workers.errors import EarlyConflict
from workers.files.names import BaseFileName, bucket_file_id
from workers.markers.detecting_markers import DirectDetectingMarkers
from workers.markers.detector import ConflictDetector
from workers.markers.direct import DirectMarkers
from workers.markers.early_conflict import raise_if_early_conflict, read_early_conflict
from workers.markers.marker import IOType, Marker
from workers.markers.store import delete_markers
from workers.options.early_detection import EarlyDetection, EarlyStrategy
from workers.options.table_keys import TableType
from workers.options.write_options import WriteOptions, write_options
from workers.ports import Ports
from workers.processes import this_process
from workers.schema.table_schema import TableSchema
from workers.storage.base import FileInfo
from workers.table.creation import create
from workers.table.definition import TableDefinition
from workers.table.table import Table
from workers.table_layout import LOCK
from workers.timeline import decisions, transitions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import WriteStat, commit_metadata
from workers.timeline.timeline import Timeline

INTERVAL_MS = 1_000
BOUND_MS = 2 * INTERVAL_MS
_STEPS_MAX = 400
_NESTED_CHANCE = 0.15
_DEATH_CHANCE = 0.02
_DEPTH_MAX = 2
_ALONE = 99
Ending = Literal["committed", "early", "late", "dead"]
_OPTIONS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
    "hoodie.client.heartbeat.interval_in_ms": str(INTERVAL_MS),
    "hoodie.client.heartbeat.tolerable.misses": "2",
    "hoodie.write.lock.wait_time_ms": "0",
}


@dataclass(eq=False, slots=True)
class SimulatedWriter:
    name: str
    plan: list[FileGroupKey]
    early: EarlyDetection | None
    instant: Instant | None = None
    at_start: Timeline | None = None
    claimed: list[FileGroupKey] = field(default_factory=list)
    ending: Ending | None = None
    ended_ms: int = 0
    conflict: Conflict | None = None
    refused: FileGroupKey | None = None
    """What it was about to claim when it was stopped."""
    is_busy: bool = False
    """In the middle of a step, in which others have their turn."""
    detector: ConflictDetector | None = None
    markers: DirectDetectingMarkers | DirectMarkers | None = None

    @property
    def requested_at(self) -> InstantTime:
        assert self.instant is not None
        return self.instant.requested_at

    @property
    def is_alive(self) -> bool:
        return self.instant is not None and self.ending is None


@dataclass(frozen=True, slots=True)
class Verdict:
    """An early conflict, and what was true around the look that found it."""

    loser: SimulatedWriter
    conflict: Conflict
    claimed_before: dict[InstantTime, frozenset[FileGroupKey]]
    live_before: frozenset[InstantTime]


class InterruptedStorage(MemoryStorage):
    """Gives others a turn in the middle of whatever reads."""

    def __init__(self, clock: StillClock, files: Files) -> None:
        super().__init__(clock, files)
        self.between: Callable[[], None] = lambda: None

    def read(self, path: str) -> bytes:
        self.between()
        return super().read(path)

    def list_tree(self, directory: str) -> list[FileInfo]:
        self.between()
        return super().list_tree(directory)


class Simulation:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = StillClock()
        self.storage = InterruptedStorage(self.clock, _new_table_files())
        self.ports = Ports(self.clock, CountingIds("t"), StillScheduler())
        self.table = replace(_new_table(), storage=self.storage, ports=self.ports)
        self.options = _options()
        self.has_deaths = self.random.random() < 0.3
        self.writers = [self._writer(f"w{n}") for n in range(self.random.randint(2, 6))]
        self.verdicts: list[Verdict] = []
        self.missed: list[SimulatedWriter] = []
        """Rivals whom a direct writer should have seen."""
        self._depth = 0

    def run(self) -> None:
        """Until everybody has ended and cleaned up."""
        self.storage.between = self._in_between
        for _ in range(_STEPS_MAX):
            waiting = [one for one in self.writers if one.ending is None]
            if not waiting:
                break
            self._step(self.random.choice(waiting))
        assert all(one.ending for one in self.writers), "the simulation never ends"

    def _writer(self, name: str) -> SimulatedWriter:
        keys = [(part, bucket_file_id(bucket)) for part in ("a", "b_1") for bucket in range(3)]
        plan = self.random.sample(keys, self.random.randint(1, 4))
        strategy = self.random.choice([*EarlyStrategy, None])
        checks = self.random.random() < 0.5
        early = EarlyDetection(strategy, checks_commits=checks) if strategy else None
        return SimulatedWriter(name, plan, early)

    def _in_between(self) -> None:
        if self._depth >= _DEPTH_MAX or self.random.random() > _NESTED_CHANCE:
            return
        free = [one for one in self.writers if not one.is_busy and one.ending is None]
        if self._is_locked():  # Whoever needs the lock has to wait.
            free = [one for one in free if _needs_no_lock(one)]
        if free:
            self._depth += 1
            self._step(self.random.choice(free))
            self._depth -= 1

    def _is_locked(self) -> bool:
        content, _ = self.storage.files.get(LOCK.path, (b"", 0))
        return bool(content) and not decode_lock(content).is_free(self.clock.now_ms())

    def _step(self, writer: SimulatedWriter) -> None:
        writer.is_busy = True
        try:
            self._act(writer)
        finally:
            writer.is_busy = False

    def _act(self, writer: SimulatedWriter) -> None:
        self._let_time_pass()
        if writer.instant is None:
            self._begin(writer)
        elif self.has_deaths and self.random.random() < _DEATH_CHANCE:
            self._end(writer, "dead")
        elif writer.conflict is not None:
            self._roll_back(writer)
        elif writer.detector is not None and self.random.random() < 0.4:
            self._look(writer)
        elif writer.plan:
            self._write_next(writer)
        else:
            self._commit(writer)

    def _let_time_pass(self) -> None:
        self.clock.sleep(self.random.choice([0.001, 0.001, 0.1, 1.5]))
        for writer in self.writers:
            if writer.is_alive:
                self.storage.put(heartbeat_path(writer.requested_at), _beat_of(writer.name))

    def _begin(self, writer: SimulatedWriter) -> None:
        """As under the table lock: nobody else has a turn."""
        depth, self._depth = self._depth, _ALONE
        timeline = self.table.timeline()
        requested_at = next_instant(self.clock, timeline.last_time)
        self.storage.put(heartbeat_path(requested_at), _beat_of(writer.name))
        requested = transitions.request(self.storage, requested_at, Action.COMMIT, b"")
        writer.instant = transitions.start(self.storage, requested)
        writer.at_start = timeline
        self._depth = depth
        writer.markers = plain = DirectMarkers(self.storage, requested_at)
        early = writer.early
        if early is None:
            return
        if early.strategy.is_direct:
            writer.markers = DirectDetectingMarkers(
                plain, self.table, self.options, requested_at, early
            )
        else:
            writer.detector = ConflictDetector(
                self.storage, requested_at, early, pool=_pool(), clock=self.clock, conflict=None
            )

    def _write_next(self, writer: SimulatedWriter) -> None:
        assert writer.markers is not None
        key = writer.plan.pop(0)
        name = BaseFileName(key[1], "0-0-0", writer.requested_at).text
        marker = Marker(key[0], name, IOType.MERGE)
        before = self._facts()
        writer.refused = key
        try:
            if writer.detector is not None:  # The server's answer to a doomed writer.
                raise_if_early_conflict(self.storage, writer.requested_at)
            writer.markers.create_all([marker])
        except EarlyConflict:
            self._doomed(writer, *before)
        else:
            writer.refused = None
            writer.claimed.append(key)
            if isinstance(writer.markers, DirectDetectingMarkers):
                self.missed += self._overlooked(writer, key, *before)

    def _overlooked(
        self,
        writer: SimulatedWriter,
        key: FileGroupKey,
        claims: dict[InstantTime, frozenset[FileGroupKey]],
        live: frozenset[InstantTime],
    ) -> list[SimulatedWriter]:
        """Older writers whose marker was there before and who lived through the whole step."""
        older = [one for one in self.writers if one.is_alive and one.conflict is None]
        return [
            one
            for one in older
            if one.requested_at < writer.requested_at
            and one.requested_at in live
            and key in claims[one.requested_at]
        ]

    def _look(self, writer: SimulatedWriter) -> None:
        assert writer.detector is not None
        before = self._facts()
        if writer.detector.look() and read_early_conflict(self.storage, writer.requested_at):
            self._doomed(writer, *before)

    def _facts(
        self,
    ) -> tuple[dict[InstantTime, frozenset[FileGroupKey]], frozenset[InstantTime]]:
        begun = [one for one in self.writers if one.instant is not None]
        claims = {one.requested_at: frozenset(one.claimed) for one in begun}
        return claims, frozenset(one.requested_at for one in begun if self.may_live(one))

    def may_live(self, writer: SimulatedWriter) -> bool:
        """A writer that died a moment ago is alive for everybody else."""
        if writer.ending == "dead":
            return self.clock.now_ms() - writer.ended_ms <= BOUND_MS
        return writer.is_alive

    def _doomed(
        self,
        writer: SimulatedWriter,
        claims: dict[InstantTime, frozenset[FileGroupKey]],
        live: frozenset[InstantTime],
    ) -> None:
        if writer.conflict is not None:
            return
        conflict = read_early_conflict(self.storage, writer.requested_at)
        assert conflict is not None, "who dooms a writer says why"
        writer.conflict = conflict
        self.verdicts.append(Verdict(writer, conflict, claims, live))

    def _roll_back(self, writer: SimulatedWriter) -> None:
        instant = writer.instant
        assert instant is not None
        decision = RollbackDecision(by="x", nonce=self.ports.ids.token(), reason="early")
        assert decisions.decide(self.storage, writer.requested_at, decision)
        transitions.discard(self.storage, writer.requested_at, instant.action)
        self._end(writer, "early")
        self._tidy(writer)

    def _commit(self, writer: SimulatedWriter) -> None:
        """As under the table lock: nobody else has a turn."""
        assert writer.instant is not None
        assert writer.at_start is not None
        depth, self._depth = self._depth, _ALONE
        timeline = self.table.timeline()
        ours = self.write_set(writer)
        by_time = {one.requested_at: one for one in self.writers if one.ending == "committed"}
        new = find_concurrent_commits(
            writer.at_start.instants, timeline.instants, writer.requested_at
        )
        met = [overlapping_file_groups(ours, self.write_set(by_time[r.requested_at])) for r in new]
        if any(met):
            decision = RollbackDecision(by="x", nonce=self.ports.ids.token(), reason="late")
            decisions.decide(self.storage, writer.requested_at, decision)
            transitions.discard(self.storage, writer.requested_at, writer.instant.action)
            self._end(writer, "late")
        else:
            stats = [
                WriteStat(file_id, f"{partition}/{file_id}_0-0-0_{ours.instant}.parquet", partition)
                for partition, file_id in sorted(ours.file_groups)
            ]
            content = commit_metadata(stats, extra={}, operation_type="UPSERT")
            done = writer.instant.complete(next_instant(self.clock, timeline.last_time))
            transitions.complete(
                self.storage,
                transitions.Completion(done, content.encode(Action.COMMIT), "n"),
            )
            writer.instant = done
            self._end(writer, "committed")
        self._depth = depth
        self._tidy(writer)

    def write_set(self, writer: SimulatedWriter) -> WriteSet:
        return WriteSet(writer.requested_at, frozenset(writer.claimed), writer.name)

    def _end(self, writer: SimulatedWriter, ending: Ending) -> None:
        writer.ending = ending
        writer.ended_ms = self.clock.now_ms()

    def _tidy(self, writer: SimulatedWriter) -> None:
        """Not always: a crash may leave markers and a fresh heartbeat of what is decided."""
        if self.random.random() < 0.7:
            delete_markers(self.storage, writer.requested_at)
            self.storage.delete(heartbeat_path(writer.requested_at))


def _needs_no_lock(writer: SimulatedWriter) -> bool:
    if writer.instant is None:
        return False
    if writer.conflict is not None:
        return True
    early = writer.early
    is_locking = early is not None and early.strategy is EarlyStrategy.TRANSACTIONAL_DIRECT
    return bool(writer.plan) and not is_locking


@cache
def _options() -> WriteOptions:
    return write_options(_OPTIONS)


@cache
def _beat_of(name: str) -> bytes:
    return HeartbeatContent(_options(), name, "upsert", None).encode(this_process())


@cache
def _pool() -> ThreadPoolExecutor:
    """Handed to detectors, which are only asked to look here and now."""
    return ThreadPoolExecutor(1)


@cache
def _new_table() -> Table:
    clock = StillClock()
    storage = MemoryStorage(clock)
    schema = TableSchema.from_arrow(pa.schema({"id": pa.int64()}), table_name="things")
    definition = TableDefinition("things", TableType.COPY_ON_WRITE, ("id",), schema=schema)
    ports = Ports(clock, CountingIds("c"), StillScheduler())
    return create(storage, definition, {}, ports)


def _new_table_files() -> Files:
    storage = _new_table().storage
    assert isinstance(storage, MemoryStorage)
    return storage.files
