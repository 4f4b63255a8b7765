"""Whoever carries out a compaction or a clustering freezes at every call of its storage, also at
those that only look; it wakes while another process, which took the plan up, is in the middle of
it, with markers on storage.

Whatever the moment, the successor keeps its markers, its files and its heart, and ends well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO

import pytest

from tests.crash.harness import COW, DEAD_AFTER_MS, MOR, Kind, Rows, State, made, rows_of
from tests.crash.operations import ALONE, PLAN_CLUSTERING, PLAN_COMPACTION, UPSERT, Operation
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Files, MemoryStorage
from workers.durability import Durability
from workers.errors import (
    InstantRolledBack,
    LakehouseError,
    LeaseLost,
    LockTimeout,
    PlanOvertaken,
    ServiceBusy,
    ServiceRefused,
)
from workers.files.names import parse_name_instant
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.storage.base import FileInfo
from workers.table_layout import HEARTBEATS, MARKERS
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceOutcome, ServiceRequest

SLEEPERS_ANSWERS = (
    ServiceOutcome,
    InstantRolledBack,
    LeaseLost,
    LockTimeout,
    PlanOvertaken,
    ServiceBusy,
    ServiceRefused,
)
PARAMETERS = {
    "clustering": ALONE["clustering"] | {"hoodie.clustering.plan.strategy.sort.columns": "city"},
    "compaction": ALONE["compaction"],
}
_WAIT_MAX_S = 30.0


class CallingStorage(MemoryStorage):
    """Tells `before_call` of each call, whether it looks or changes."""

    def __init__(self, clock: StillClock, files: Files) -> None:
        super().__init__(clock)
        self.files = files  # Shared, not copied: several processes have one table.
        self.before_call: Callable[[str, str], None] = lambda call, path: None

    def read(self, path: str) -> bytes:
        self.before_call("read", path)
        return super().read(path)

    def info(self, path: str) -> FileInfo | None:
        self.before_call("info", path)
        return super().info(path)

    def list_tree(self, directory: str) -> list[FileInfo]:
        self.before_call("list_tree", directory)
        return super().list_tree(directory)

    def list_directories(self, directory: str) -> list[str]:
        self.before_call("list_directories", directory)
        return super().list_directories(directory)

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        self.before_call("put", path)
        super().put(path, content, durability)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self.before_call("put_if_absent", path)
        return super().put_if_absent(path, content)

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        self.before_call("replace_if_match", path)
        return super().replace_if_match(path, content, tag, durability)

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        with super().create_data(path, durability) as stream:
            yield stream
        self.before_call("created", path)

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        self.before_call("delete", path)
        super().delete(path, durability)

    def delete_many(self, paths: Sequence[str]) -> None:
        self.before_call("delete_many", "")
        super().delete_many(paths)

    def delete_tree(self, directory: str) -> None:
        self.before_call("delete_tree", directory)
        super().delete_tree(directory)


@dataclass
class Sleeper:
    """A process that freezes before its n-th call, and answers once it was woken."""

    freeze_at: int
    calls: int = 0
    answer: object = None
    frozen: threading.Event = field(default_factory=threading.Event)
    _awake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def before_call(self, call: str, path: str) -> None:
        self.calls += 1
        if self.calls == self.freeze_at:
            self.frozen.set()
            assert self._awake.wait(_WAIT_MAX_S), "nobody woke the sleeper"

    def begin(self, work: Callable[[], ServiceOutcome]) -> None:
        """Returns once it is frozen, or has ended before."""

        def run() -> None:
            try:
                self.answer = work()
            except LakehouseError as error:
                self.answer = error
            finally:
                self.frozen.set()

        self._thread = threading.Thread(target=run)
        self._thread.start()
        assert self.frozen.wait(_WAIT_MAX_S)

    def wakes_and_ends(self) -> None:
        assert self._thread is not None
        self._awake.set()
        self._thread.join(_WAIT_MAX_S)
        assert not self._thread.is_alive()


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of the successor while the sleeper was awake."""

    before: Files
    after: Files

    @property
    def lost(self) -> list[str]:
        """Of what is a live attempt's own."""
        own = (f"{MARKERS.path}/", f"{HEARTBEATS.path}/")
        return [
            path
            for path, content in self.before.items()
            if (path.startswith(own) or parse_name_instant(path.rpartition("/")[2]) is not None)
            and self.after.get(path) != content
        ]


@dataclass(frozen=True, slots=True)
class Ending:
    sleeper: Sleeper
    seen: Seen | None
    """None where nothing was left to do for the successor."""
    rows: Rows


@dataclass(frozen=True, slots=True)
class Story:
    kind: Kind
    start: State
    service: str

    def run(self, table: LakehouseTable) -> ServiceOutcome:
        request = ServiceRequest(by="others", reason="test", parameters=PARAMETERS[self.service])
        return get_service(self.service).run(table.table, request, write_options(self.kind.options))

    def played(self, freeze_at: int) -> Ending:
        clock, files = StillClock(self.start.now_ms), dict(self.start.files)
        sleeper = Sleeper(freeze_at)
        sleepers_table = opened(files, clock, "sleeper", sleeper.before_call)
        sleeper.begin(lambda: self.run(sleepers_table))
        seen: list[Seen] = []

        def wake(call: str, path: str) -> None:
            """With its first file and the marker of that on storage."""
            if call == "created" and not seen:
                before = dict(files)
                sleeper.wakes_and_ends()
                seen.append(Seen(before, dict(files)))

        clock.sleep(DEAD_AFTER_MS / 1000)
        try:
            self.run(opened(files, clock, "successor", wake))
        except LakehouseError as error:
            raise AssertionError(freeze_at) from error
        sleeper.wakes_and_ends()
        rows = rows_of(State(files, clock.now_ms()))
        return Ending(sleeper, seen[0] if seen else None, rows)


def opened(
    files: Files, clock: StillClock, prefix: str, before_call: Callable[[str, str], None]
) -> LakehouseTable:
    storage = CallingStorage(clock, files)
    table = open_table(storage.location, ports=still_ports(clock, prefix=prefix), storage=storage)
    storage.before_call = before_call
    return table


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("kind", "name", "planned"),
    [(MOR, "compaction", PLAN_COMPACTION), (COW, "clustering", PLAN_CLUSTERING)],
    ids=lambda given: getattr(given, "name", str(given)),
)
@pytest.mark.slow
def test_executor_that_wakes_beside_its_successor_takes_nothing_of_it_away(
    kind: Kind, name: str, planned: Operation
) -> None:
    story = Story(kind, made(kind, (UPSERT, planned)), name)
    rows = rows_of(story.start)
    calls = story.played(0).sleeper.calls
    beside = 0
    for moment in range(1, calls + 1):
        ending = story.played(moment)
        assert isinstance(ending.sleeper.answer, SLEEPERS_ANSWERS), (moment, ending.sleeper.answer)
        assert ending.rows == rows, moment
        if ending.seen is not None:
            assert ending.seen.lost == [], (moment, ending.sleeper.answer)
            beside += 1
    assert beside > calls / 2, "hardly ever was the successor at work"
