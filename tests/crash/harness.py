"""Die at every changing storage call of an operation, then at every call of the recovery from that,
then recover.

Whatever the moment: a reader sees the old or the new table and never a mix, what was decided stays
decided, nothing is left behind, and hudi-rs agrees on each distinct end state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.crash.digests import digest, digest_for_readers
from tests.crash.operations import ALONE, COLUMNS, FIRST, SCHEMA, Operation
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Files, MemoryStorage, RecordingStorage
from tests.support.referee import referee_rows
from workers.errors import InstantRolledBack, PlanOvertaken, ServiceRefused
from workers.files.names import parse_base_file, parse_log_file
from workers.lakehouse import LakehouseTable, create_table, open_table, write_arrow
from workers.options.write_options import WriteOptions, write_options
from workers.ports import Ports
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.storage.base import Storage
from workers.table_layout import DECISIONS
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import read_rollback_targets
from workers.write.client import WriteRequest

DEAD_AFTER_MS = 600_000
Recorder = Callable[[StillClock, Files], RecordingStorage]
Rows = list[tuple[object, ...]]
SERVICE_OF = {
    Action.COMPACTION: "compaction",
    Action.CLUSTERING: "clustering",
    Action.CLEAN: "clean",
    Action.RESTORE: "restore",
}
RUNS_MAX = 2
"""A fenced plan may come back as another one."""
NAMED = frozenset({Action.COMPACTION, Action.CLUSTERING, Action.RESTORE})
"""Taken up by the plan's instant; the others take up whatever is pending."""


TINY_FILES = {
    "hoodie.parquet.max.file.size": "8000",
    "hoodie.parquet.small.file.limit": "7500",
    "hoodie.copyonwrite.record.size.estimate": "1000",
}
"""So that a few inserts fill a file, where keys are looked up."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Which table, and how it is written."""

    name: str
    table_type: str
    mode: str
    index: str = "BUCKET"
    threads: int = 1

    @property
    def options(self) -> dict[str, str]:
        more = {} if self.index == "BUCKET" else TINY_FILES
        return more | {
            "sluice.write.threads": str(self.threads),
            "hoodie.write.markers.type": "direct",
            "hoodie.write.concurrency.mode": self.mode,
        }

    @property
    def table_options(self) -> dict[str, str]:
        if self.index == "BUCKET":
            return {"hoodie.bucket.index.num.buckets": "2"}
        filters = {"hoodie.index.bloom.num_entries": "50"} if "BLOOM" in self.index else {}
        return {"hoodie.index.type": self.index, **filters}

    @property
    def is_global(self) -> bool:
        return self.index.startswith("GLOBAL")


COW = Kind("cow", "COPY_ON_WRITE", "OPTIMISTIC_CONCURRENCY_CONTROL")
MOR = Kind("mor", "MERGE_ON_READ", "OPTIMISTIC_CONCURRENCY_CONTROL")
COW_SIMPLE = Kind("cow-simple", "COPY_ON_WRITE", COW.mode, "SIMPLE")
MOR_BLOOM = Kind("mor-bloom", "MERGE_ON_READ", MOR.mode, "BLOOM")
COW_GLOBAL = Kind("cow-global", "COPY_ON_WRITE", COW.mode, "GLOBAL_BLOOM")
MOR_GLOBAL = Kind("mor-global", "MERGE_ON_READ", MOR.mode, "GLOBAL_SIMPLE")
NBCC = Kind("nbcc", "MERGE_ON_READ", "NON_BLOCKING_CONCURRENCY_CONTROL")


@dataclass(frozen=True, slots=True)
class State:
    """A table's files at a moment."""

    files: Files
    now_ms: int


def made(kind: Kind, before: Iterable[Operation]) -> State:
    """A table with three rows, after the operations of `before` ran undisturbed."""
    return _after(kind, tuple(one for one in before if one.runs_on(kind.name)))


@cache
def _after(kind: Kind, before: tuple[Operation, ...]) -> State:
    """Sequences share their beginnings, so each beginning is made once."""
    if not before:
        return _with_three_rows(kind)
    earlier = _after(kind, before[:-1])
    clock = StillClock(earlier.now_ms)
    storage = MemoryStorage(clock, earlier.files)
    before[-1].run(_opened(storage, clock, f"setup{len(before)}-"), kind.options)
    clock.sleep(1)
    return State(storage.files, clock.now_ms())


def create_with_three_rows(kind: Kind, storage: Storage, ports: Ports) -> None:
    table = create_table(
        storage.location,
        name="crash",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        table_type=kind.table_type,
        options=kind.table_options,
        ports=ports,
        storage=storage,
    )
    write_arrow(table.table, FIRST, WriteRequest(), kind.options)


def _with_three_rows(kind: Kind) -> State:
    clock = StillClock()
    storage = MemoryStorage(clock)
    create_with_three_rows(kind, storage, still_ports(clock, prefix="setup"))
    clock.sleep(1)
    return State(storage.files, clock.now_ms())


@dataclass(frozen=True, slots=True)
class Recovery:
    deaths: list[State]
    """What its deaths on the way leave, and last what it ends in."""
    rows: Rows


_judged: dict[str, Rows] = {}
"""The rows that hudi-rs has read, by what it could look at. Many trials end in the same."""


@dataclass
class Trial:
    """One operation from one state, dying everywhere, and recoveries from that dying everywhere in
    turn.
    """

    kind: Kind
    operation: Operation
    start: State
    every: int = 1
    """Of this many states that the operation's death leaves, the recovery of one dies in turn."""
    offset: int = 0
    """Which one: the same moments should not be left out of every trial."""
    recorded_by: Recorder = RecordingStorage
    """What the operation runs on; recoveries from its deaths run on a RecordingStorage."""
    cases: dict[str, Recovery] = field(default_factory=dict)
    """By the digest of each distinct state that recovery began with."""
    _ends: dict[str, tuple[State, Rows]] = field(default_factory=dict)

    def run(self) -> None:
        deaths = died_everywhere(self.start, self._run, self.recorded_by)
        self.knows_rows(deaths[-1])
        if self.operation.keeps_rows:
            assert self.new == self.old
        for number, crashed in enumerate(deaths, self.offset):
            self._assert_old_or_new(crashed)
            expected = self.expected(crashed)
            deaths_again = self._recovered(crashed, expected)
            if number % self.every == 0:
                for crashed_again in deaths_again:
                    self._recovered(crashed_again, expected)

    def knows_rows(self, end: State) -> None:
        """What readers see before the operation, and after."""
        self.old, self.new = rows_of(self.start), rows_of(end)

    def judge(self, directory: Path) -> None:
        """hudi-rs reads every distinct end state as we do."""
        for number, (state, expected) in enumerate(self._ends.values()):
            name = digest_for_readers(state.files)
            if name not in _judged:
                place = directory / str(number)
                MemoryStorage(StillClock(state.now_ms), state.files).dump(place)
                _judged[name] = _plain(referee_rows(place, COLUMNS))
            assert _judged[name] == expected

    def _run(self, table: LakehouseTable) -> None:
        self.operation.run(table, self.kind.options)

    def _assert_old_or_new(self, crashed: State) -> None:
        if not self.operation.takes_back:
            assert rows_of(crashed) in (self.old, self.new)

    def expected(self, crashed: State) -> tuple[Rows, ...]:
        """What recovery must end in: a decision that is durable comes about, else nothing does."""
        if self.operation.keeps_rows:
            return (self.old,)
        if self.operation.takes_back:
            # Its plan is durable before its decision; either is a whole table.
            return (self.new,) if _was_undone(crashed, self.start) else (self.old, self.new)
        return (self.new,) if _was_committed(crashed, self.start) else (self.old,)

    def _recovered(self, crashed: State, expected: tuple[Rows, ...]) -> list[State]:
        """Recover to the end; what deaths on the way leave. A state that was recovered before
        ends in the same rows again.
        """
        case = digest(crashed.files)
        if case not in self.cases:
            later = State(crashed.files, crashed.now_ms + DEAD_AFTER_MS)
            deaths = died_everywhere(later, self._recover)
            self.cases[case] = Recovery(deaths, self._rows_in_the_end(deaths[-1]))
        assert self.cases[case].rows in expected
        return self.cases[case].deaths

    def _rows_in_the_end(self, end: State) -> Rows:
        """Nothing is left behind, and running recovery once more changes nothing (RI)."""
        name = digest(end.files)
        if name not in self._ends:
            clock = StillClock(end.now_ms)
            storage = MemoryStorage(clock, end.files)
            self._recover(_opened(storage, clock, "again"))
            assert storage.files == end.files
            assert_nothing_is_left(end)
            self._ends[name] = (end, rows_of(end))
        return self._ends[name][1]

    def _recover(self, table: LakehouseTable) -> None:
        recover(table, self.kind)


def recover(table: LakehouseTable, kind: Kind) -> None:
    """What the next writer and the next run of each service do."""
    options = write_options(kind.options)
    roll_back_dead_writers(table.table, options)
    for _ in range(RUNS_MAX):
        for instant in list(table.table.timeline().pending()):
            _take_up(table, instant, write_options(kind.options))


def _take_up(table: LakehouseTable, instant: Instant, options: WriteOptions) -> None:
    name = SERVICE_OF.get(instant.action)
    if name is None:
        return
    named = {"instant": instant.requested_at} if instant.action in NAMED else {}
    request = ServiceRequest(by="recovery", reason="test", parameters=ALONE.get(name, {}) | named)
    # A plan that a writer overtook, or that a takeover of the lock fenced, is gone or pending anew;
    # its run says so, or that of another plan before it has removed it.
    with suppress(InstantRolledBack, PlanOvertaken, ServiceRefused):
        get_service(name).run(table.table, request, options)


def died_everywhere(
    start: State,
    run: Callable[[LakehouseTable], object],
    recorded_by: Recorder = RecordingStorage,
) -> list[State]:
    """Every state that a death of `run` can leave, each once; the last is what it ends in.

    A death leaves what the storage held at that moment, so one run shows them all.
    """
    clock = StillClock(start.now_ms)
    storage = recorded_by(clock, start.files)
    run(_opened(storage, clock, f"x{start.now_ms}"))
    states = {digest(files): State(files, now_ms) for files, now_ms in storage.left}
    # What it ends in is the last one, though a death may have left the same before.
    end = State(storage.files, clock.now_ms())
    states.pop(digest(end.files), None)
    return [*states.values(), end]


def _opened(storage: MemoryStorage, clock: StillClock, prefix: str) -> LakehouseTable:
    ports = still_ports(clock, prefix=prefix)
    return open_table(storage.location, ports=ports, storage=storage)


def rows_of(state: State) -> Rows:
    clock = StillClock(state.now_ms)
    return _plain(_opened(MemoryStorage(clock, state.files), clock, "read").read().to_pylist())


def _plain(rows: list[dict[str, object]]) -> Rows:
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def _was_committed(crashed: State, start: State) -> bool:
    storage = MemoryStorage(StillClock(), crashed.files)
    names = [path.rpartition("/")[2] for path in _fresh_decisions(crashed, start)]
    return any(isinstance(decisions.read(storage, name), CommitDecision) for name in names)


def _was_undone(crashed: State, start: State) -> bool:
    return any(".undo/" in path for path in _fresh_decisions(crashed, start))


def _fresh_decisions(crashed: State, start: State) -> list[str]:
    return [
        path
        for path in crashed.files
        if path.startswith(DECISIONS.path) and path not in start.files
    ]


def assert_nothing_is_left(state: State) -> None:
    clock = StillClock(state.now_ms)
    storage = MemoryStorage(clock, state.files)
    timeline = _opened(storage, clock, "check").table.timeline()
    completed = {instant.requested_at for instant in timeline.iterate_completed()}
    assert list(timeline.pending()) == []
    times = [one.completed_at for one in timeline.iterate_completed()]
    assert len(times) == len(set(times))
    assert all((one.completed_at or "") > one.requested_at for one in timeline.iterate_completed())
    leftovers = [
        path
        for path in state.files
        if path.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/", ".hoodie/.sluice/metadata/"))
    ]
    assert leftovers == []
    first = timeline.first_time or ""
    strays = [
        path
        for path in state.files
        if (at := _instant_of(path)) and at not in completed and at >= first
    ]
    assert strays == []
    targets = [
        target
        for one in timeline.iterate_completed()
        if one.action is Action.ROLLBACK
        for target in read_rollback_targets(
            storage.read(f".hoodie/timeline/{one.requested_at}_{one.completed_at}.rollback")
        )
    ]
    assert len(targets) == len(set(targets)), targets


def _instant_of(path: str) -> str | None:
    name = path.rpartition("/")[2]
    parsed = parse_base_file(name) or parse_log_file(name)
    return parsed.instant if parsed else None
