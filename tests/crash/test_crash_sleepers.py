"""A writer freezes at every changing call of its storage, or at any call; meanwhile others roll it
back, commit, restore, archive and clean; then it wakes up, and goes on or is killed at once.

Whatever the moment, nobody ever sees rows of a write that was not told to be committed, and no file
of it stays.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import pytest

from tests.crash.digests import digest_for_readers
from tests.crash.harness import (
    COW,
    COW_SIMPLE,
    DEAD_AFTER_MS,
    MOR,
    Kind,
    Rows,
    State,
    made,
    rows_of,
)
from tests.crash.operations import ALONE, COLUMNS, SECOND, rows
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Crash, MemoryStorage
from tests.support.referee import referee_rows
from workers.concurrency.outcome import Committed, RolledBack
from workers.durability import Durability
from workers.errors import InstantRolledBack, LakehouseError, LockTimeout
from workers.files.names import parse_name_instant
from workers.lakehouse import LakehouseTable, open_table, write_arrow
from workers.options.write_options import write_options
from workers.processes import ProcessName
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.storage.base import FileInfo
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.write.client import WriteRequest

OTHERS = [rows((name, 5, "Turin", "p"), (name, 5, "Turin", "q")) for name in "uvw"]
SHORT = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "1"}
NEWEST = {"hoodie.clean.commits.retained": "1"}
NO_WAIT = {"sluice.archive.late.writer.hours": "0"}
SEED = int(os.environ["SLUICE_TEST_SEED"])
EVERY = 6
"""Of this many calls that a writer freezes at one, beginning where the seed says."""
READ: dict[str, Rows] = {}
"""What hudi-rs read, by what it could look at."""


class FreezingStorage(MemoryStorage):
    """Its process freezes before its n-th changing call, while `meanwhile` happens."""

    def __init__(self, clock: StillClock, start: State, freeze_at: int, *, dies: bool) -> None:
        super().__init__(clock, start.files)
        self.meanwhile: Callable[[], None] = lambda: None
        self.calls = 0
        self._freeze_at = freeze_at
        self._dies = dies
        self._one = threading.RLock()
        """While its process is frozen no thread of it changes anything."""

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        self._reach()
        super().put(path, content, durability)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self._reach()
        return super().put_if_absent(path, content)

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        self._reach()
        return super().replace_if_match(path, content, tag, durability)

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        with super().create_data(path, durability) as stream:
            yield stream
            self._reach()

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        self._reach()
        super().delete(path, durability)

    def delete_tree(self, directory: str) -> None:
        self._reach()
        super().delete_tree(directory)

    def _reach(self) -> None:
        with self._one:
            self.calls += 1
            if self._dies and self.calls > self._freeze_at:
                raise Crash
            if self.calls == self._freeze_at:
                self.meanwhile()


class WatchfulStorage(FreezingStorage):
    """As that, at calls that only look as well."""

    def read(self, path: str) -> bytes:
        self._reach()
        return super().read(path)

    def info(self, path: str) -> FileInfo | None:
        self._reach()
        return super().info(path)

    def list_tree(self, directory: str) -> list[FileInfo]:
        self._reach()
        return super().list_tree(directory)

    def list_directories(self, directory: str) -> list[str]:
        self._reach()
        return super().list_directories(directory)


class Patient:
    """Nobody has proved that any other process has ended."""

    def here(self) -> ProcessName:
        return ProcessName("still", "boot", 2, "others")

    def has_ended(self, process: ProcessName) -> bool:
        return False


@dataclass
class Story:
    kind: Kind
    start: State
    waits: bool
    """Archiving waits for the sleeper; else a person has decided that it is dead."""
    storage_type: type[FreezingStorage] = FreezingStorage
    restores: bool = False
    """The others take one of their own writes back."""

    def played(self, freeze_at: int, *, dies: bool) -> tuple[FreezingStorage, object, Rows]:
        """The storage in the end, what the sleeper answered, and the rows before it woke up."""
        clock = StillClock(self.start.now_ms)
        storage = self.storage_type(clock, self.start, freeze_at, dies=dies)
        before: list[Rows] = []

        def meanwhile() -> None:
            self._others_go_on(storage, clock)
            before.append(rows_of(State(storage.files, clock.now_ms())))

        storage.meanwhile = meanwhile
        sleeper = open_table(
            storage.location, ports=still_ports(clock, prefix="sleeper"), storage=storage
        )
        try:
            answer: object = write_arrow(
                sleeper.table, SECOND, WriteRequest(), dict(self.kind.options)
            )
        except (LakehouseError, Crash) as error:
            answer = error
        return storage, answer, before[0] if before else []

    def _others_go_on(self, storage: MemoryStorage, clock: StillClock) -> None:
        other = self._others(storage, clock, DEAD_AFTER_MS)
        roll_back_dead_writers(other.table, write_options(self.kind.options))
        for batch in OTHERS:
            write_arrow(other.table, batch, WriteRequest(), dict(self.kind.options))
        if self.restores:
            goal = other.table.timeline().list_completed_writes()[-2].requested_at
            self._serve(other, "restore", instant=goal)
            write_arrow(other.table, OTHERS[1], WriteRequest(), dict(self.kind.options))
        if self.kind.table_type == MOR.table_type:
            self._serve(other, "compaction")
            write_arrow(other.table, OTHERS[0], WriteRequest(), dict(self.kind.options))
        self._serve(other, "archive", **SHORT, **({} if self.waits else NO_WAIT))
        self._serve(other, "clean", **(NEWEST if self.restores else {}))

    def _others(self, storage: MemoryStorage, clock: StillClock, later_ms: int) -> LakehouseTable:
        clock.sleep(later_ms / 1000)
        shared = MemoryStorage(clock)
        shared.files = storage.files
        ports = replace(still_ports(clock, prefix=f"other{later_ms}-"), processes=Patient())
        return open_table(shared.location, ports=ports, storage=shared)

    def _serve(self, table: LakehouseTable, name: str, **parameters: str) -> None:
        request = ServiceRequest(
            by="others", reason="test", parameters=ALONE.get(name, {}) | parameters
        )
        get_service(name).run(table.table, request, write_options(self.kind.options))

    def cleaned(self, storage: MemoryStorage) -> State:
        """After everything that goes on beside a sleeper went on once more."""
        clock = StillClock(max(at for _, at in storage.files.values()))
        table = self._others(storage, clock, 2 * DEAD_AFTER_MS)
        roll_back_dead_writers(table.table, write_options(self.kind.options))
        self._serve(table, "clean")
        return State(storage.files, clock.now_ms())


def all_moments(story: Story) -> int:
    storage, answer, _ = story.played(0, dies=False)
    assert isinstance(answer, Committed), answer
    return storage.calls


def read_by_others(state: State, directory: Path) -> Rows:
    name = digest_for_readers(state.files)
    if name not in READ:
        place = directory / str(len(READ))
        MemoryStorage(StillClock(state.now_ms), state.files).dump(place)
        read_rows = referee_rows(place, COLUMNS)
        READ[name] = sorted(tuple(row[column] for column in COLUMNS) for row in read_rows)
    return READ[name]


def files_of_nobody(state: State) -> list[str]:
    """Data files of an instant that is neither on the timeline nor archived."""
    storage = MemoryStorage(StillClock(state.now_ms), state.files)
    ports = still_ports(StillClock(state.now_ms), prefix="look")
    table = open_table(storage.location, ports=ports, storage=storage).table
    known = {one.requested_at for one in (*table.timeline().instants, *table.list_archived_times())}
    names = [path for path in state.files if not path.startswith(".hoodie")]
    return [
        path
        for path in names
        if (instant := parse_name_instant(path.rpartition("/")[2])) and instant not in known
    ]


COW_ON_THREADS = replace(COW, threads=2)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("kind", [COW, MOR, COW_ON_THREADS], ids=["cow", "mor", "cow-threads"])
@pytest.mark.parametrize("waits", [True, False], ids=["waited-for", "given-up"])
@pytest.mark.sampled(every=2)
def test_writer_that_freezes_at_any_call_and_wakes_behind_its_archive_shows_nothing(
    kind: Kind, waits: bool, tmp_path: Path
) -> None:
    story = Story(kind, made(kind, ()), waits)
    late = 0
    for moment in range(1, all_moments(story) + 1):
        for dies in (True, False):
            storage, answer, before = story.played(moment, dies=dies)
            end = State(storage.files, max(at for _, at in storage.files.values()))
            seen = rows_of(end)
            if isinstance(answer, Committed) and seen != before:
                assert {row[0] for row in seen} - {row[0] for row in before} <= {"a", "d"}
            else:
                assert seen == before, (moment, dies, answer)
            late += bool(files_of_nobody(end))
            if waits:
                assert read_by_others(end, tmp_path) == seen, (moment, dies)
            after = story.cleaned(storage)
            assert rows_of(after) == seen
            assert files_of_nobody(after) == [], (moment, dies)
            assert read_by_others(after, tmp_path) == seen
    assert late > 0, "no sleeper left a file: the story does not meet what it is about"


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("kind", [COW, COW_SIMPLE, MOR], ids=lambda kind: kind.name)
@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.soak)])
def test_writer_that_freezes_at_any_call_hears_what_became_of_its_write(
    kind: Kind, every: int
) -> None:
    """Never of a table that is broken: what it was to read was archived and cleaned."""
    story = Story(kind, made(kind, ()), True, WatchfulStorage, restores=True)
    for moment in range(1 + SEED % every, all_moments(story) + 1, every):
        storage, answer, before = story.played(moment, dies=False)
        at = f"SLUICE_TEST_SEED={SEED}, frozen before call {moment}"

        assert isinstance(answer, Committed | RolledBack | InstantRolledBack | LockTimeout), at
        seen = rows_of(State(storage.files, max(at for _, at in storage.files.values())))
        if not isinstance(answer, Committed):
            assert seen == before, (at, answer)
        else:
            assert {("a", 2, "Bergen", "p"), ("d", 2, "Paris", "r")} <= {*seen}, at
        assert files_of_nobody(story.cleaned(storage)) == [], (at, answer)
