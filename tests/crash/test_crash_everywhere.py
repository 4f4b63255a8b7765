"""Die at every changing storage call of an operation, then at every call of the recovery from that,
then recover.

Whatever the moment: a reader sees the old or the new table and never a mix, what was decided stays
decided, nothing is left behind, and hudi-rs agrees on each distinct end state.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MOMENTS, Crash, FaultyStorage, Files, MemoryStorage, Moment
from tests.support.referee import referee_rows
from workers.config import write_options
from workers.files.names import parse_base_file, parse_log_file
from workers.lakehouse import LakehouseTable, create_table, open_table, write_arrow
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision
from workers.timeline.instant import Action
from workers.timeline.metadata import read_rollback_targets
from workers.write.client import WriteRequest

TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "city": pa.string(),
    "part": pa.string(),
}
SCHEMA = pa.schema(TYPES)
FIRST = pa.table(
    {
        "id": ["a", "b", "c"],
        "ts": [1, 1, 1],
        "city": ["Oslo", "Rome", "Lima"],
        "part": ["p", "p", "q"],
    },
    schema=SCHEMA,
)
SECOND = pa.table(
    {"id": ["a", "d"], "ts": [2, 2], "city": ["Bergen", "Paris"], "part": ["p", "r"]}, schema=SCHEMA
)
OPTIONS = {"hoodie.write.markers.type": "direct"}
DEAD_AFTER_S = 600.0
Rows = list[tuple[object, ...]]
CASES_LEAST = 2_000


@dataclass(frozen=True)
class Operation:
    """Something that changes the table, from a state that `setup` made."""

    name: str
    table_type: str
    mode: str
    run: Callable[[LakehouseTable, dict[str, str]], None]

    @property
    def options(self) -> dict[str, str]:
        return {**OPTIONS, "hoodie.write.concurrency.mode": self.mode}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """Thousands of recoveries each say that they rolled something back."""
    logging.getLogger("workers.recovery").setLevel(logging.ERROR)


def upsert(table: LakehouseTable, options: dict[str, str]) -> None:
    write_arrow(table.table, SECOND, WriteRequest(), options)


def undo_newest(table: LakehouseTable, options: dict[str, str]) -> None:
    target = table.table.timeline().completed_writes()[-1].requested_at
    request = RollbackRequest(target, by="admin", reason="test")
    rollback(table.table, request, write_options(options))


OPERATIONS = [
    Operation(f"{name}-{kind}-{mode}", table_type, full_mode, run)
    for name, run in (("upsert", upsert), ("rollback", undo_newest))
    for kind, table_type, mode, full_mode in (
        ("cow", "COPY_ON_WRITE", "occ", "OPTIMISTIC_CONCURRENCY_CONTROL"),
        ("mor", "MERGE_ON_READ", "occ", "OPTIMISTIC_CONCURRENCY_CONTROL"),
        ("mor", "MERGE_ON_READ", "nbcc", "NON_BLOCKING_CONCURRENCY_CONTROL"),
    )
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_table_is_old_or_new_whatever_call_dies(
    operation: Operation, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    start, end_ms = _setup(operation)
    old = _rows(start, end_ms)
    new = _finished_rows(operation, start, end_ms)
    assert old != new
    ends: dict[str, tuple[Files, int, Rows]] = {}

    cases = 0
    for crashed, crashed_ms in _crashes(
        start, end_ms, lambda table: operation.run(table, operation.options)
    ):
        seen = _rows(crashed, crashed_ms)
        assert seen in (old, new)
        expected = new if _was_decided(operation, crashed, start) else old
        for again, again_ms in _recovery_crashes(operation, crashed, crashed_ms):
            cases += 1
            files, files_ms = _recovered(operation, again, again_ms)
            assert _rows(files, files_ms) == expected
            _assert_nothing_is_left(files, files_ms)
            ends[_digest(files)] = (files, files_ms, expected)

    for number, (files, files_ms, expected) in enumerate(ends.values()):
        directory = tmp_path / str(number)
        MemoryStorage(StillClock(files_ms), files).dump(directory)
        assert _plain(referee_rows(directory, SCHEMA.names)) == expected
    record_property("cases", cases)
    assert cases >= CASES_LEAST / len(OPERATIONS)


def _setup(operation: Operation) -> tuple[Files, int]:
    clock = StillClock()
    storage = MemoryStorage(clock)
    table = create_table(
        storage.location,
        name="crash",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        table_type=operation.table_type,
        options={"hoodie.bucket.index.num.buckets": "2"},
        ports=still_ports(clock, prefix="setup"),
        storage=storage,
    )
    write_arrow(table.table, FIRST, WriteRequest(), operation.options)
    clock.sleep(1)
    if operation.run is undo_newest:
        upsert(table, operation.options)
        clock.sleep(1)
    return storage.files, clock.now_ms()


def _finished_rows(operation: Operation, start: Files, now_ms: int) -> Rows:
    clock = StillClock(now_ms)
    storage = MemoryStorage(clock, start)
    operation.run(_opened(storage, clock, "done"), operation.options)
    return _rows(storage.files, clock.now_ms())


def _crashes(
    start: Files, now_ms: int, run: Callable[[LakehouseTable], None]
) -> Iterator[tuple[Files, int]]:
    """Every state that a crash of `run` can leave, with the time then."""
    for moment in MOMENTS:
        die_at = 0
        while True:
            die_at += 1
            left = _crashed(start, now_ms, run, die_at, moment)
            if left is None:
                break
            files, ends_ms, is_distinct = left
            if is_distinct:
                yield files, ends_ms


def _crashed(
    start: Files, now_ms: int, run: Callable[[LakehouseTable], None], die_at: int, moment: Moment
) -> tuple[Files, int, bool] | None:
    clock = StillClock(now_ms)
    storage = FaultyStorage(clock, start, die_at=die_at, moment=moment)
    try:
        run(_opened(storage, clock, f"x{now_ms}"))
    except Crash:
        return storage.files, clock.now_ms(), storage.had_middle
    return None


def _recovery_crashes(
    operation: Operation, crashed: Files, crashed_ms: int
) -> Iterator[tuple[Files, int]]:
    """The crashed state itself, and every state that a crash of its recovery leaves."""
    later_ms = crashed_ms + int(DEAD_AFTER_S * 1000)
    yield crashed, later_ms
    options = write_options(operation.options)
    yield from _crashes(
        crashed, later_ms, lambda table: _ignore(roll_back_dead_writers(table.table, options))
    )


def _ignore(_: object) -> None:
    return None


def _recovered(operation: Operation, files: Files, now_ms: int) -> tuple[Files, int]:
    """Recovery run to its end; running it once more changes nothing (RI)."""
    clock = StillClock(now_ms + int(DEAD_AFTER_S * 1000))
    storage = MemoryStorage(clock, files)
    table = _opened(storage, clock, f"r{now_ms}")
    options = write_options(operation.options)
    roll_back_dead_writers(table.table, options)
    once = dict(storage.files)
    roll_back_dead_writers(table.table, options)
    assert storage.files == once
    return once, clock.now_ms()


def _opened(storage: MemoryStorage, clock: StillClock, prefix: str) -> LakehouseTable:
    ports = still_ports(clock, prefix=prefix)
    return open_table(storage.location, ports=ports, storage=storage)


def _rows(files: Files, now_ms: int) -> Rows:
    clock = StillClock(now_ms)
    return _plain(_opened(MemoryStorage(clock, files), clock, "read").read().to_pylist())


def _plain(rows: list[dict[str, object]]) -> Rows:
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in rows)


def _was_decided(operation: Operation, crashed: Files, start: Files) -> bool:
    """Whether the operation's decision is durable: then it must come about, else it must not."""
    fresh = [path for path in crashed if path.startswith(decisions.DIRECTORY) and path not in start]
    storage = MemoryStorage(StillClock(), crashed)
    if operation.run is undo_newest:
        return any(".undo/" in path for path in fresh)
    names = [path.rpartition("/")[2] for path in fresh]
    return any(isinstance(decisions.read(storage, name), CommitDecision) for name in names)


def _assert_nothing_is_left(files: Files, now_ms: int) -> None:
    clock = StillClock(now_ms)
    storage = MemoryStorage(clock, files)
    timeline = _opened(storage, clock, "check").table.timeline()
    completed = {instant.requested_at for instant in timeline.completed()}
    assert list(timeline.pending()) == []
    times = [one.completed_at for one in timeline.completed()]
    assert len(times) == len(set(times))
    assert all((one.completed_at or "") > one.requested_at for one in timeline.completed())
    leftovers = [
        path
        for path in files
        if path.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/", ".hoodie/.sluice/metadata/"))
    ]
    assert leftovers == []
    assert [path for path in files if (at := _instant_of(path)) and at not in completed] == []
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
    digest = hashlib.sha256()
    for path in sorted(files):
        if not path.startswith(".hoodie/.locks/"):
            digest.update(path.encode() + b"\0" + hashlib.sha256(files[path][0]).digest())
    return digest.hexdigest()
