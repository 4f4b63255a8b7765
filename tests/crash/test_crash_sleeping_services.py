"""Whoever cleans, archives, rolls back, one or several, restores or repairs freezes at every call
of its storage, also at those that only look; others do the same work to its end, write, and do it
once more. Then it wakes up.

Whatever the moment: the rows, the past that could still be read and the history stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest

from tests.crash.harness import COW, DEAD_AFTER_MS, Rows, State, made
from tests.crash.operations import ALONE, COLUMNS, SECOND, UPSERT, rows
from tests.crash.test_crash_sleepers import Patient
from tests.crash.test_crash_successors import CallingStorage
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Files
from workers.errors import (
    InstantRolledBack,
    LakehouseError,
    LeaseLost,
    LockTimeout,
    MalformedTable,
    PlanChanged,
    RollbackRefused,
    ServiceBusy,
    ServiceRefused,
)
from workers.lakehouse import LakehouseTable, open_table, write_arrow
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceOutcome, ServiceRequest
from workers.write.client import WriteRequest

SEED = int(os.environ["SLUICE_TEST_SEED"])
EVERY = 6
"""Of this many calls one, beginning where the seed says; in the soak all of them."""
STOPPED = (
    InstantRolledBack,
    LeaseLost,
    LockTimeout,
    PlanChanged,
    RollbackRefused,
    ServiceBusy,
    ServiceRefused,
)
"""Why a sleeper did not do its work. MalformedTable is never among them."""
SECOND_ROUND = [rows((name, 5, "Turin", "p"), (name, 5, "Turin", "q")) for name in "uvwxyz"]
SHORT = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}
Work = Callable[[LakehouseTable, str], object]
"""Table, and the instant of the write that it is about."""


def serve(name: str, **parameters: str) -> Work:
    def work(table: LakehouseTable, newest: str) -> object:
        request = ServiceRequest(
            by="test", reason="test", parameters=ALONE.get(name, {}) | parameters
        )
        return get_service(name).run(table.table, request, write_options(COW.options))

    return work


def restore(table: LakehouseTable, goal: str) -> object:
    return serve("restore", instant=goal)(table, goal)


def roll_several_back(table: LakehouseTable, newest: str) -> object:
    return serve("rollback_several", instants=newest)(table, newest)


def roll_back(table: LakehouseTable, newest: str) -> object:
    request = RollbackRequest(newest, by="test", reason="test")
    return rollback(table.table, request, write_options(COW.options))


@dataclass(frozen=True, slots=True)
class Kind:
    work: Work
    writes: int = 4
    """Before it begins."""
    is_repeated: bool = True
    """Others do it once more after they have written."""
    newer: int = 0
    """Writes behind the one that it is about."""
    count: int = 1
    """Of the writes that it is about: the newest of them, and those before it."""


KINDS: Mapping[str, Kind] = {
    "archive": Kind(serve("archive", **SHORT), writes=5),
    "clean": Kind(serve("clean", **{"hoodie.clean.commits.retained": "1"})),
    "repair": Kind(serve("repair")),
    "restore": Kind(restore, is_repeated=False, newer=2),
    "rollback": Kind(roll_back, is_repeated=False),
    "rollback_several": Kind(roll_several_back, is_repeated=False, count=2),
}


@dataclass(frozen=True, slots=True)
class Seen:
    rows: Rows
    past: Mapping[str, Rows | str]
    """As of each commit that anybody knows of; or why it cannot be read."""
    history: frozenset[str]


def seen(files: Files, now_ms: int) -> Seen:
    table = opened(files, StillClock(now_ms), "look")
    history = frozenset(one.requested_at for one in table.table.list_archived_times())
    active = {one.requested_at for one in table.table.timeline().list_completed_writes()}
    past = {at: rows_at(table, at) for at in sorted(history | active)}
    return Seen(plain(table.read().to_pylist()), past, history)


def is_planned_anew(answer: object, before: Seen) -> bool:
    """Whether a restore was planned by who had woken up: it takes back what it finds then."""
    if not isinstance(answer, ServiceOutcome) or answer.service != "restore":
        return False
    return answer.instant is not None and answer.instant > max(before.past)


def rows_at(table: LakehouseTable, instant: str) -> Rows | str:
    try:
        return plain(table.read(as_of=instant).to_pylist())
    except MalformedTable:
        raise
    except LakehouseError as error:
        return type(error).__name__


def plain(rows: list[dict[str, object]]) -> Rows:
    return sorted(tuple(row[name] for name in COLUMNS) for row in rows)


def opened(
    files: Files,
    clock: StillClock,
    prefix: str,
    before_call: Callable[[str, str], None] = lambda call, path: None,
) -> LakehouseTable:
    storage = CallingStorage(clock, files)
    ports = replace(still_ports(clock, prefix=prefix), processes=Patient())
    table = open_table(storage.location, ports=ports, storage=storage)
    storage.before_call = before_call
    return table


def write(table: LakehouseTable, number: int) -> None:
    write_arrow(table.table, SECOND_ROUND[number], WriteRequest(), dict(COW.options))


@dataclass
class Story:
    kind: Kind
    start: State
    about: str
    then: Rows
    """Once that write was visible."""
    calls: int = 0

    def played(self, freeze_at: int) -> tuple[object, Seen | None, Seen]:
        """What the sleeper answered; and what was seen before and after it woke up."""
        clock, files = StillClock(self.start.now_ms), dict(self.start.files)
        before: list[Seen] = []
        self.calls = 0

        def freeze(call: str, path: str) -> None:
            self.calls += 1
            if self.calls == freeze_at:
                self._others_go_on(files, clock)
                before.append(seen(files, clock.now_ms()))

        try:
            answer = self.kind.work(opened(files, clock, "sleeper", freeze), self.about)
        except LakehouseError as error:
            answer = error
        return answer, before[0] if before else None, seen(files, clock.now_ms())

    def _others_go_on(self, files: Files, clock: StillClock) -> None:
        clock.sleep(DEAD_AFTER_MS / 1000)
        other = opened(files, clock, "other")
        roll_back_dead_writers(other.table, write_options(COW.options))
        try:
            self.kind.work(other, self.about)
        except (
            InstantRolledBack
        ):  # The sleeper was deciding: its plan is fenced, and one made anew.
            self.kind.work(other, self.about)
        for number in range(3):
            write(other, number)
        if self.kind.is_repeated:
            self.kind.work(other, self.about)


def begun(kind: Kind) -> Story:
    start = made(COW, (UPSERT,))
    clock, files = StillClock(start.now_ms), dict(start.files)
    table = opened(files, clock, "before")
    for number in range(kind.writes):
        write(table, number % len(SECOND_ROUND))
    write_arrow(table.table, SECOND, WriteRequest(), dict(COW.options))
    writes = table.table.timeline().list_completed_writes()
    about = writes[-1 - kind.newer]
    names = [one.requested_at for one in writes[: len(writes) - kind.newer][-kind.count :]]
    then = plain(table.read(as_of=about.completed_at).to_pylist())
    clock.sleep(1)
    return Story(kind, State(files, clock.now_ms()), ",".join(names), then)


@pytest.mark.sampled(every=8)
@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("every", [EVERY, pytest.param(1, marks=pytest.mark.soak)])
def test_service_that_freezes_at_any_call_takes_nothing_away_when_it_wakes(
    name: str, every: int
) -> None:
    story = begun(KINDS[name])
    whole, _, _ = story.played(0)
    assert not isinstance(whole, LakehouseError), whole
    for moment in range(1 + SEED % every, story.calls + 1, every):
        answer, before, after = story.played(moment)
        at = f"SLUICE_TEST_SEED={SEED}, frozen before call {moment}"
        if isinstance(answer, LakehouseError):
            assert isinstance(answer, STOPPED), (at, answer)
        if before is not None and is_planned_anew(answer, before):
            assert after.rows == story.then, (at, answer)
        else:
            assert after == before, (at, answer)
