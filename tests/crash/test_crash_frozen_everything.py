"""Every kind of write and service freezes before every call of its storage, also before those that
only look. Others roll back, restore, archive or clean. Then it wakes up and goes on, or is killed.

Whatever the moment: the rows are those of what was committed, hudi-rs reads the same, writers and
services go on, and nothing stays pending.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.crash.harness import (
    COW,
    DEAD_AFTER_MS,
    MOR,
    SERVICE_OF,
    Kind,
    Rows,
    State,
    made,
    rows_of,
)
from tests.crash.operations import ALONE, CLUSTER, COMPACT, OPERATIONS, UPSERT, Operation, rows
from tests.crash.test_crash_sleepers import Patient, files_of_nobody, read_by_others
from tests.crash.test_crash_successors import CallingStorage
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Crash, Files
from workers.concurrency.outcome import Committed, Conflicted, RolledBack
from workers.errors import (
    InstantRolledBack,
    LakehouseError,
    LeaseLost,
    LockTimeout,
    PlanChanged,
    PlanOvertaken,
    RollbackRefused,
    ServiceBusy,
    ServiceRefused,
    SnapshotExpired,
)
from workers.lakehouse import LakehouseTable, open_table, write_arrow
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.timeline import decisions
from workers.write.client import WriteRequest

SEED = int(os.environ["SLUICE_TEST_SEED"])
EVERY = 40
"""Of this many calls one, beginning where the seed says; in the soak all of them."""
KINDS = (COW, MOR)
BATCHES = [rows((name, 5, "Turin", "p"), (name, 5, "Turin", "q")) for name in "uvwxy"]
LAST = rows(("last", 9, "Graz", "p"), ("last", 9, "Graz", "q"))
SHORT = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "1"}
NEWEST = {"hoodie.clean.commits.retained": "1"}
STOPPED = (
    Crash,
    Conflicted,
    InstantRolledBack,
    LeaseLost,
    LockTimeout,
    PlanChanged,
    PlanOvertaken,
    RollbackRefused,
    RolledBack,
    ServiceBusy,
    ServiceRefused,
    SnapshotExpired,
)
"""Why a sleeper did not do its work. A damaged table is never among them."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that works on the table."""

    table: LakehouseTable
    kind: Kind

    def write(self, number: int) -> None:
        batch = BATCHES[number] if number < len(BATCHES) else LAST
        outcome = write_arrow(self.table.table, batch, WriteRequest(), dict(self.kind.options))
        assert isinstance(outcome, Committed), outcome

    def serve(self, name: str, **parameters: str) -> None:
        request = ServiceRequest(
            by="others", reason="test", parameters=ALONE.get(name, {}) | parameters
        )
        get_service(name).run(self.table.table, request, write_options(self.kind.options))

    def compact(self) -> None:
        if self.kind.table_type == MOR.table_type:
            self.serve("compaction")

    def take_over(self) -> None:
        """Roll back dead writers, and carry out the plans that are pending. One that is fenced
        while its executor was deciding comes back as another one.
        """
        roll_back_dead_writers(self.table.table, write_options(self.kind.options))
        met: set[str] = set()
        while plans := [
            plan
            for plan in self.table.table.timeline().pending()
            if plan.action in SERVICE_OF and plan.requested_at not in met
        ]:
            met.add(plans[0].requested_at)
            with suppress(InstantRolledBack):
                self.serve(SERVICE_OF[plans[0].action], instant=plans[0].requested_at)


def _roll_back(other: Process) -> None:
    other.write(0)
    other.write(1)
    newest = other.table.table.timeline().list_completed_writes()[-1].requested_at
    request = RollbackRequest(newest, by="others", reason="test")
    rollback(other.table.table, request, write_options(other.kind.options))
    other.write(2)


def _restore(other: Process) -> None:
    other.write(0)
    goal = other.table.table.timeline().list_completed_writes()[-1].requested_at
    other.write(1)
    other.serve("restore", instant=goal)
    other.write(2)


def _archive(other: Process) -> None:
    for number in range(3):
        other.write(number)
    other.compact()
    other.write(3)
    other.serve("archive", **SHORT)


def _clean(other: Process) -> None:
    for number in range(3):
        other.write(number)
    other.compact()
    other.write(3)
    other.serve("clean", **NEWEST)


OTHERS: Mapping[str, Callable[[Process], None]] = {
    "rollback": _roll_back,
    "restore": _restore,
    "archive": _archive,
    "clean": _clean,
}


def opened(
    files: Files, clock: StillClock, kind: Kind, prefix: str
) -> tuple[Process, CallingStorage]:
    storage = CallingStorage(clock, files)
    ports = replace(still_ports(clock, prefix=prefix), processes=Patient())
    return Process(open_table(storage.location, ports=ports, storage=storage), kind), storage


@dataclass
class Story:
    kind: Kind
    operation: Operation
    others: Callable[[Process], None]
    calls: int = 0
    at: str = ""

    def begin(self) -> State:
        return made(self.kind, (UPSERT, *self.operation.needs))

    def play(
        self,
        freeze_at: int,
        *,
        dies: bool,
        watch: Callable[[str, str], None] = lambda call, path: None,
    ) -> tuple[object, State | None, State]:
        """Return what the sleeper answered, the table before it woke up, and after."""
        start = self.begin()
        clock, files = StillClock(start.now_ms), dict(start.files)
        woken: list[State] = []
        sleeper, storage = opened(files, clock, self.kind, "sleeper")
        self.calls = 0

        def freeze(call: str, path: str) -> None:
            self.calls += 1
            watch(call, path)
            if self.calls == freeze_at:
                self.at = f"before call {freeze_at}, {call} {path}, dies={dies}"
                self._go_on(files, clock)
                woken.append(State(dict(files), clock.now_ms()))
            if dies and woken:
                raise Crash

        storage.before_call = freeze
        try:
            answer: object = self.operation.run(sleeper.table, self.kind.options)
        except (LakehouseError, Crash) as error:
            answer = error
        except IndexError:  # It looks for its goal after others archived all writes but one.
            assert self.operation.takes_back, self.at
            answer = ServiceRefused("nothing to take back")
        return answer, woken[0] if woken else None, State(files, clock.now_ms())

    def _go_on(self, files: Files, clock: StillClock) -> None:
        clock.sleep(DEAD_AFTER_MS / 1000)
        other, _ = opened(files, clock, self.kind, "other")
        other.take_over()
        self.others(other)

    def find_allowed(self, woken: State) -> list[Rows]:
        """Return what readers may see in the end: what was there before it woke up, or that with
        all of its work done once more. A restore that is planned then goes where it meant to go.
        """
        allowed = [rows_of(woken)]
        clock, files = StillClock(woken.now_ms), dict(woken.files)
        again, _ = opened(files, clock, self.kind, "again")
        if (
            self.operation.takes_back
            and len(again.table.table.timeline().list_completed_writes()) < 2
        ):
            return allowed
        try:
            self.operation.run(again.table, self.kind.options)
        except LakehouseError:
            return allowed
        allowed.append(rows_of(State(files, clock.now_ms())))
        return allowed

    def go_on_after(self, end: State) -> State:
        """What everybody does next works: writing, compacting, cleaning, archiving."""
        clock, files = StillClock(end.now_ms), dict(end.files)
        clock.sleep(DEAD_AFTER_MS / 1000)
        other, _ = opened(files, clock, self.kind, "next")
        other.take_over()
        other.write(len(BATCHES))
        other.compact()
        other.serve("clean", **NEWEST)
        other.serve("archive", **SHORT)
        pending = list(other.table.table.timeline().pending())
        assert pending == [], (self.at, pending)
        return State(files, clock.now_ms())


def cases() -> list[object]:
    return [
        pytest.param(kind, operation, name, id=f"{kind.name}-{operation.name}-{name}")
        for kind in KINDS
        for operation in OPERATIONS
        if operation.runs_on(kind.name)
        for name in OTHERS
    ]


@pytest.mark.parametrize("operation", [CLUSTER, COMPACT], ids=lambda operation: operation.name)
def test_executor_of_a_plan_that_others_carried_out_and_cleaned_reports_no_damage(
    operation: Operation,
) -> None:
    """It wakes up right before it looks at its first file, which is gone."""
    story = Story(MOR, operation, OTHERS["clean"])
    looked_at: list[int] = []
    started: list[str] = []

    def note(call: str, path: str) -> None:
        if call == "put_if_absent" and path.endswith(".inflight"):
            started.append(path)
        elif started and call == "info" and path.endswith(".parquet"):
            looked_at.append(story.calls)

    story.play(0, dies=False, watch=note)
    answer, woken, end = story.play(looked_at[0], dies=False)

    assert isinstance(answer, InstantRolledBack | ServiceBusy | PlanOvertaken), answer
    assert woken is not None
    assert rows_of(end) == rows_of(woken)


def test_restore_that_others_carried_out_is_not_planned_again_when_its_process_wakes() -> None:
    """It wakes up between its look at the timeline and its look at the plan's decision."""
    [restore] = [operation for operation in OPERATIONS if operation.name == "restore"]
    story = Story(COW, restore, OTHERS["rollback"])
    looked_at: list[int] = []
    planned: list[str] = []

    def note(call: str, path: str) -> None:
        if call == "put_if_absent" and path.endswith(".restore.requested"):
            planned.append(path.rpartition("/")[2].partition(".")[0])
        elif planned and call == "read" and path == decisions.get_decision_path(planned[0]):
            looked_at.append(story.calls)

    story.play(0, dies=False, watch=note)
    assert looked_at
    for moment in looked_at:
        answer, woken, end = story.play(moment, dies=False)
        assert woken is not None
        after = story.go_on_after(end)
        last = [("last", 9, "Graz", "p"), ("last", 9, "Graz", "q")]
        assert rows_of(after) == sorted([*rows_of(woken), *last]), (story.at, answer)


@pytest.mark.sampled(every=60)
@pytest.mark.parametrize(("kind", "operation", "others"), cases())
@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.soak)])
def test_whatever_freezes_beside_whatever_keeps_the_rows_and_leaves_nothing_pending(
    kind: Kind, operation: Operation, others: str, every: int, tmp_path: Path
) -> None:
    story = Story(kind, operation, OTHERS[others])
    whole, _, end = story.play(0, dies=False)
    assert not isinstance(whole, LakehouseError | Conflicted | RolledBack), whole
    meant = rows_of(end) if operation.name == "restore" else None
    for moment in range(1 + SEED % every, story.calls + 1, every):
        for dies in (False, True):
            answer, woken, end = story.play(moment, dies=dies)
            if woken is None:
                continue
            at = f"SLUICE_TEST_SEED={SEED}, frozen {story.at}: {answer!r}"
            if isinstance(answer, LakehouseError | Crash | Conflicted | RolledBack):
                assert isinstance(answer, STOPPED), at
            seen = rows_of(end)
            allowed = story.find_allowed(woken)
            if isinstance(answer, STOPPED):
                allowed = allowed[:1]
            assert seen in allowed or seen == meant, at
            after = story.go_on_after(end)
            last = [("last", 9, "Graz", "p"), ("last", 9, "Graz", "q")]
            assert rows_of(after) == sorted([*seen, *last]), at
            assert files_of_nobody(after) == [], at
            assert read_by_others(after, tmp_path) == rows_of(after), at
