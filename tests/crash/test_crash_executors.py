"""Whoever carries out a compaction or a clustering freezes at every changing call of its storage;
meanwhile another process takes the plan up, or a writer of Apache Hudi rolls it back. Then it wakes
up, and goes on or is killed at once.

Whatever the moment, everybody sees the rows that stood before it woke, and no file of it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.crash.harness import COW, DEAD_AFTER_MS, MOR, Kind, Rows, State, made, rows_of
from tests.crash.operations import ALONE, PLAN_CLUSTERING, PLAN_COMPACTION, UPSERT, Operation
from tests.crash.test_crash_sleepers import (
    OTHERS,
    FreezingStorage,
    Patient,
    files_of_nobody,
    read_by_others,
)
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Crash, MemoryStorage
from workers.concurrency.locks.storage_record import StorageRecord
from workers.errors import (
    InstantRolledBack,
    LakehouseError,
    LeaseLost,
    LockTimeout,
    PlanOvertaken,
    ServiceBusy,
)
from workers.lakehouse import LakehouseTable, open_table, write_arrow
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.plan import find_files
from workers.table.schema_history import read_instant
from workers.table_services.attempt import AttemptHeartbeat
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceOutcome, ServiceRequest
from workers.timeline import decisions, transitions
from workers.timeline.instant import Action, Instant
from workers.timeline.metadata import RollbackPlanFile
from workers.write.client import WriteRequest

TOLD = (
    ServiceOutcome,
    PlanOvertaken,
    ServiceBusy,
    InstantRolledBack,
    LockTimeout,
    LeaseLost,
    Crash,
)
"""What a sleeper may answer: it was done, or why it stopped."""
SORTED = {"clustering": {"hoodie.clustering.plan.strategy.sort.columns": "city"}}
BEATS = {
    "hoodie.client.heartbeat.interval_in_ms": "5000",
    "hoodie.client.heartbeat.tolerable.misses": "2",
}
Meanwhile = Callable[["Story", LakehouseTable], None]


def take_up(story: Story, other: LakehouseTable) -> None:
    roll_back_dead_writers(other.table, write_options(story.kind.options))
    story.serve(other, story.service)
    story.write(other)


def plan_a_rollback_of_hudi(story: Story, other: LakehouseTable) -> None:
    """Hudi asks under the lock, and deletes the files without it; it has not got further."""
    for plan in _undecided_plans(other):
        content = RollbackPlanFile(plan.requested_at, plan.action.value, {}).encode(story.location)
        later = str(int(plan.requested_at) + 50)
        transitions.request(other.table.storage, later, Action.ROLLBACK, content)
        _delete_files(other, plan.requested_at)


def finish_a_rollback_of_hudi(story: Story, other: LakehouseTable) -> None:
    """Its rollback is archived already."""
    for plan in _undecided_plans(other):
        _delete_files(other, plan.requested_at)
        for file in other.table.storage.list_files(".hoodie/timeline"):
            if file.name.startswith(f"{plan.requested_at}."):
                other.table.storage.delete(file.path)
    story.write(other)


def _undecided_plans(other: LakehouseTable) -> list[Instant]:
    """Under our lock, and once something is decided, an engine that knows neither our fence nor our
    decisions is not let in: see the page on foreign tables.
    """
    lock = StorageRecord(other.table.storage).read()
    if lock is not None and not lock.state.is_expired:
        return []
    return [
        one
        for one in other.table.timeline().pending()
        if one.action.is_rewrite and decisions.read(other.table.storage, one.requested_at) is None
    ]


def _delete_files(other: LakehouseTable, instant: str) -> None:
    for file in find_files(other.table, instant):
        other.table.storage.delete(file.path)


@dataclass
class Story:
    kind: Kind
    start: State
    service: str
    meanwhile: Meanwhile
    location: str = ""
    storage_type: type[FreezingStorage] = FreezingStorage
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the service that freezes."""

    def played(self, freeze_at: int, *, dies: bool) -> tuple[FreezingStorage, object, Rows]:
        """The storage in the end, what the sleeper answered, and the rows before it woke up."""
        clock = StillClock(self.start.now_ms)
        storage = self.storage_type(clock, self.start, freeze_at, dies=dies)
        self.location = storage.location
        before: list[Rows] = []

        def meanwhile() -> None:
            self.meanwhile(self, self._others(storage, clock, DEAD_AFTER_MS))
            before.append(rows_of(State(storage.files, clock.now_ms())))

        storage.meanwhile = meanwhile
        ports = still_ports(clock, prefix="sleeper")
        sleeper = open_table(storage.location, ports=ports, storage=storage)
        try:
            answer: object = self.serve(sleeper, self.service, **self.parameters)
        except (LakehouseError, Crash) as error:
            answer = error
        return storage, answer, before[0] if before else []

    def serve(self, table: LakehouseTable, name: str, **more: str) -> ServiceOutcome:
        parameters = ALONE.get(name, {}) | SORTED.get(name, {}) | more
        request = ServiceRequest(by="others", reason="test", parameters=parameters)
        return get_service(name).run(table.table, request, write_options(self.kind.options))

    def write(self, table: LakehouseTable, number: int = 0) -> None:
        write_arrow(table.table, OTHERS[number], WriteRequest(), dict(self.kind.options))

    def _others(self, storage: MemoryStorage, clock: StillClock, later_ms: int) -> LakehouseTable:
        clock.sleep(later_ms / 1000)
        shared = MemoryStorage(clock)
        shared.files = storage.files
        ports = replace(still_ports(clock, prefix=f"other{later_ms}-"), processes=Patient())
        return open_table(shared.location, ports=ports, storage=shared)

    def other(self, storage: MemoryStorage, clock: StillClock | None = None) -> LakehouseTable:
        """The table as another process opens it later."""
        clock = clock or StillClock(max(at for _, at in storage.files.values()))
        return self._others(storage, clock, 2 * DEAD_AFTER_MS)

    def repaired(self, storage: MemoryStorage) -> State:
        """After the next writer, who also finishes what is decided, and a repair."""
        clock = StillClock(max(at for _, at in storage.files.values()))
        table = self.other(storage, clock)
        roll_back_dead_writers(table.table, write_options(self.kind.options))
        self.serve(table, "repair")
        return State(storage.files, clock.now_ms())


def missing_files(storage: MemoryStorage, answer: object) -> list[str]:
    """Of what the sleeper says that it has done."""
    if not isinstance(answer, ServiceOutcome) or answer.instant is None:
        return []
    shared = MemoryStorage(StillClock())
    shared.files = storage.files
    ports = still_ports(StillClock(), prefix="look")
    table = open_table(shared.location, ports=ports, storage=shared).table
    done = table.timeline().find(answer.instant)
    assert done is not None, answer
    return [path for path in read_instant(table, done).paths if path not in storage.files]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("meanwhile", [take_up, plan_a_rollback_of_hudi, finish_a_rollback_of_hudi])
@pytest.mark.parametrize(
    ("kind", "name", "planned"),
    [
        (MOR, "compaction", PLAN_COMPACTION),
        (MOR, "clustering", PLAN_CLUSTERING),
        (COW, "clustering", PLAN_CLUSTERING),
    ],
    ids=lambda given: getattr(given, "name", str(given)),
)
def test_executor_that_freezes_at_any_call_changes_nothing_that_others_decided(
    kind: Kind, name: str, planned: Operation, meanwhile: Meanwhile, tmp_path: Path
) -> None:
    story = Story(kind, made(kind, (UPSERT, planned)), name, meanwhile)
    whole, answer, _ = story.played(0, dies=False)
    assert isinstance(answer, ServiceOutcome), answer
    stopped = 0
    for moment in range(1, whole.calls + 1):
        for dies in (False, True):
            storage, answer, before = story.played(moment, dies=dies)
            assert isinstance(answer, TOLD), (moment, dies, answer)
            seen = rows_of(State(storage.files, max(at for _, at in storage.files.values())))
            assert seen == before, (moment, dies, answer)
            assert missing_files(storage, answer) == [], (moment, dies, answer)
            if meanwhile is plan_a_rollback_of_hudi and isinstance(answer, ServiceOutcome):
                named = [path for path in storage.files if path.endswith(".rollback.requested")]
                assert named == [], (moment, answer)
            after = story.repaired(storage)
            assert rows_of(after) == before, (moment, dies, answer)
            assert files_of_nobody(after) == [], (moment, dies, answer)
            if moment % 4 == 0:
                assert read_by_others(after, tmp_path) == before, (moment, dies, answer)
            stopped += not isinstance(answer, ServiceOutcome | Crash)
    assert stopped > 0, "nobody was in the sleeper's way"


def test_executor_that_beats_again_remembers_that_it_was_silent() -> None:
    """Whoever wakes beats before it commits."""
    clock = StillClock()
    storage = MemoryStorage(clock)
    options = write_options(BEATS)
    ports = still_ports(clock, prefix="sleeper")
    heartbeat = AttemptHeartbeat(storage, ports, "20240101000000000", service="x", options=options)
    heartbeat.start(None)
    lapsed = [heartbeat.has_lapsed]
    clock.sleep(20)

    heartbeat._beat()
    heartbeat._beat()
    lapsed.append(heartbeat.has_lapsed)

    assert lapsed == [False, True]
