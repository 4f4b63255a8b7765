"""Die at every changing storage call of an operation, then at every call of the recovery from that,
then recover.

Whatever the moment: a reader sees the old or the new table and never a mix, what was decided stays
decided, nothing is left behind, and hudi-rs agrees on each distinct end state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.operations import ALONE, COLUMNS, FIRST, SCHEMA, Operation
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MOMENTS, Crash, FaultyStorage, Files, MemoryStorage, Moment
from tests.support.referee import referee_rows
from workers.config import WriteOptions, write_options
from workers.errors import InstantRolledBack, PlanOvertaken
from workers.files.names import parse_base_file, parse_log_file
from workers.lakehouse import LakehouseTable, create_table, open_table, write_arrow
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.services.registry import service
from workers.services.service import ServiceRequest
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import read_rollback_targets
from workers.write.client import WriteRequest

DEAD_AFTER_MS = 600_000
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


@dataclass(frozen=True, slots=True)
class Kind:
    """Which table, and how it is written."""

    name: str
    table_type: str
    mode: str

    @property
    def options(self) -> dict[str, str]:
        return {
            "hoodie.write.markers.type": "direct",
            "hoodie.write.concurrency.mode": self.mode,
        }


COW = Kind("cow", "COPY_ON_WRITE", "OPTIMISTIC_CONCURRENCY_CONTROL")
MOR = Kind("mor", "MERGE_ON_READ", "OPTIMISTIC_CONCURRENCY_CONTROL")
NBCC = Kind("nbcc", "MERGE_ON_READ", "NON_BLOCKING_CONCURRENCY_CONTROL")


@dataclass(frozen=True, slots=True)
class State:
    """A table's files at a moment."""

    files: Files
    now_ms: int

    def later(self, ms: int) -> State:
        return State(self.files, self.now_ms + ms)


def made(kind: Kind, before: Iterable[Operation]) -> State:
    """A table with three rows, after the operations of `before` ran undisturbed."""
    clock = StillClock()
    storage = MemoryStorage(clock)
    table = create_table(
        storage.location,
        name="crash",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        table_type=kind.table_type,
        options={"hoodie.bucket.index.num.buckets": "2"},
        ports=still_ports(clock, prefix="setup"),
        storage=storage,
    )
    write_arrow(table.table, FIRST, WriteRequest(), kind.options)
    for operation in before:
        if not operation.runs_on(kind.name):
            continue
        clock.sleep(1)
        operation.run(table, kind.options)
    clock.sleep(1)
    return State(storage.files, clock.now_ms())


@dataclass
class Trial:
    """One operation, crashed everywhere from one state."""

    kind: Kind
    operation: Operation
    start: State
    cases: int = 0
    _ends: dict[str, tuple[State, Rows]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.old = rows_of(self.start)
        self.new = rows_of(self._undisturbed())
        if self.operation.keeps_rows:
            assert self.new == self.old

    def run(self, *, crash_recovery: bool) -> None:
        """Each distinct state that a crash leaves is one case, and each that a crash of its
        recovery leaves.
        """
        for crashed in _crashes(self.start, self._run):
            self._assert_old_or_new(crashed)
            expected = self._expected(crashed)
            later = crashed.later(DEAD_AFTER_MS)
            again = [later]
            if crash_recovery:
                again += _crashes(later, self._recover)
            for state in again:
                self.cases += 1
                self._check_recovery(state, expected)

    def judge(self, directory: Path) -> None:
        """hudi-rs reads every distinct end state as we do."""
        for number, (state, expected) in enumerate(self._ends.values()):
            place = directory / str(number)
            MemoryStorage(StillClock(state.now_ms), state.files).dump(place)
            assert _plain(referee_rows(place, COLUMNS)) == expected

    def _run(self, table: LakehouseTable) -> None:
        self.operation.run(table, self.kind.options)

    def _undisturbed(self) -> State:
        clock = StillClock(self.start.now_ms)
        storage = MemoryStorage(clock, self.start.files)
        self._run(_opened(storage, clock, "done"))
        return State(storage.files, clock.now_ms())

    def _assert_old_or_new(self, crashed: State) -> None:
        if not self.operation.takes_back:
            assert rows_of(crashed) in (self.old, self.new)

    def _expected(self, crashed: State) -> tuple[Rows, ...]:
        """What recovery must end in: a decision that is durable comes about, else nothing does."""
        if self.operation.keeps_rows:
            return (self.old,)
        if self.operation.takes_back:
            # Its plan is durable before its decision; either is a whole table.
            return (self.new,) if _was_undone(crashed, self.start) else (self.old, self.new)
        return (self.new,) if _was_committed(crashed, self.start) else (self.old,)

    def _recover(self, table: LakehouseTable) -> None:
        recover(table, self.kind)

    def _check_recovery(self, state: State, expected: tuple[Rows, ...]) -> None:
        """Recovery run to its end; running it once more changes nothing (RI)."""
        clock = StillClock(state.now_ms + DEAD_AFTER_MS)
        storage = MemoryStorage(clock, state.files)
        table = _opened(storage, clock, f"r{state.now_ms}")
        recover(table, self.kind)
        once = dict(storage.files)
        recover(table, self.kind)
        assert storage.files == once
        digest = _digest(once)
        if digest not in self._ends:
            end = State(once, clock.now_ms())
            assert_nothing_is_left(end)
            self._ends[digest] = (end, rows_of(end))
        assert self._ends[digest][1] in expected


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
    # its run says so.
    with suppress(InstantRolledBack, PlanOvertaken):
        service(name).run(table.table, request, options)


def _crashes(start: State, run: Callable[[LakehouseTable], None]) -> Iterator[State]:
    """Every state that a crash of `run` can leave, each once."""
    seen: set[str] = set()
    for moment in MOMENTS:
        die_at = 0
        while True:
            die_at += 1
            left = _crashed(start, run, die_at, moment)
            if left is None:
                break
            state, is_distinct = left
            if is_distinct and (digest := _digest(state.files)) not in seen:
                seen.add(digest)
                yield state


def _crashed(
    start: State, run: Callable[[LakehouseTable], None], die_at: int, moment: Moment
) -> tuple[State, bool] | None:
    clock = StillClock(start.now_ms)
    storage = FaultyStorage(clock, start.files, die_at=die_at, moment=moment)
    try:
        run(_opened(storage, clock, f"x{start.now_ms}"))
    except Crash:
        return State(storage.files, clock.now_ms()), storage.had_middle
    return None


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
        if path.startswith(decisions.DIRECTORY) and path not in start.files
    ]


def assert_nothing_is_left(state: State) -> None:
    clock = StillClock(state.now_ms)
    storage = MemoryStorage(clock, state.files)
    timeline = _opened(storage, clock, "check").table.timeline()
    completed = {instant.requested_at for instant in timeline.completed()}
    assert list(timeline.pending()) == []
    times = [one.completed_at for one in timeline.completed()]
    assert len(times) == len(set(times))
    assert all((one.completed_at or "") > one.requested_at for one in timeline.completed())
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
        for one in timeline.completed()
        if one.action is Action.ROLLBACK
        for target in read_rollback_targets(
            storage.read(f".hoodie/timeline/{one.requested_at}_{one.completed_at}.rollback")
        )
    ]
    assert len(targets) == len(set(targets)), targets


def _instant_of(path: str) -> str | None:
    name = path.rpartition("/")[2]
    found = parse_base_file(name) or parse_log_file(name)
    return found.instant if found else None


def _digest(files: Files) -> str:
    """Equal for states that differ in nothing but the lock."""
    digest = hashlib.sha256()
    for path in sorted(files):
        if not path.startswith(".hoodie/.locks/"):
            digest.update(f"{path}\0{hash(files[path][0])}\0".encode())
    return digest.hexdigest()
