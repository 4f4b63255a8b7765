"""A process that starts a pending compaction, clustering or restore freezes at any call of its
storage; others carry the plan out, write, clean and archive. Then it wakes up, and goes on or is
killed.

Whatever the moment, the plan stays archived: every reader keeps its rows, the services that come
next delete none of them, writers go on, and no pending file of the plan stays.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.harness import COW, MOR, Kind, State, made, rows_of
from tests.crash.operations import PLAN_CLUSTERING, PLAN_COMPACTION, UPSERT, Operation, Options
from tests.crash.test_crash_executors import TOLD, Story
from tests.crash.test_crash_sleepers import (
    NEWEST,
    SHORT,
    FreezingStorage,
    WatchfulStorage,
    read_by_others,
)
from tests.support.memory_storage import Crash, MemoryStorage
from workers.errors import NotFound, ServiceRefused
from workers.lakehouse import LakehouseTable
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.table_services.execution import schedule
from workers.timeline.instant import Action
from workers.timeline.savepoint_metadata import RestorePlanFile

SOAK = pytest.mark.soak
BEHIND = 12
"""Calls after the inflight file that still belong to the start: the lock, the former attempt."""
STOPPED = (*TOLD, ServiceRefused, NotFound)
"""NotFound: a file that it looked at for a new plan was cleaned."""


def _plan_restore(table: LakehouseTable, options: Options) -> None:
    *_, goal, newest = table.table.timeline().list_completed_writes()
    plan = RestorePlanFile(goal.requested_at, ((newest.requested_at, newest.action.value),))
    schedule(table.table, write_options(options), Action.RESTORE, lambda *_: plan.encode())


PLAN_RESTORE = Operation("plan-restore", _plan_restore)
CASES = [
    (MOR, "compaction", PLAN_COMPACTION),
    (COW, "clustering", PLAN_CLUSTERING),
    (MOR, "clustering", PLAN_CLUSTERING),
    (COW, "restore", PLAN_RESTORE),
]


def _carry_out_and_archive(story: Story, other: LakehouseTable) -> None:
    roll_back_dead_writers(other.table, write_options(story.kind.options))
    story.serve(other, story.service, **story.parameters)
    for number in (0, 1):
        story.write(other, number)
    _compact(story, other)
    for number in (2, 0):
        story.write(other, number)
    story.serve(other, "clean", **NEWEST)
    story.serve(other, "archive", **SHORT)


def _compact(story: Story, table: LakehouseTable) -> None:
    if story.kind is MOR:
        story.serve(table, "compaction")


def _begun(kind: Kind, name: str, planned: Operation) -> tuple[Story, str]:
    """The story, and the instant of the plan."""
    start = made(kind, (UPSERT, planned))
    [plan] = [path for path in start.files if path.endswith(f".{name}.requested")]
    instant = plan.rpartition("/")[2].partition(".")[0]
    named = {"instant": instant} if name == "restore" else {}
    story = Story(
        kind,
        start,
        name,
        _carry_out_and_archive,
        storage_type=WatchfulStorage,
        parameters=named,
    )
    return story, instant


def _inflight_call(story: Story, instant: str) -> int:
    """The number of the call that puts the plan's inflight file."""
    calls = 0

    class Counting(WatchfulStorage):
        def put_if_absent(self, path: str, content: bytes) -> bool:
            nonlocal calls
            created = super().put_if_absent(path, content)
            if path.endswith(f"/{instant}.{story.service}.inflight"):
                calls = self.calls
            return created

    replace(story, storage_type=Counting).played(0, dies=False)
    assert calls > 0, "the service put no inflight file"
    return calls


def _pending_files(storage: MemoryStorage, instant: str) -> list[str]:
    return [path for path in storage.files if path.startswith(f".hoodie/timeline/{instant}.")]


def _end_of(storage: FreezingStorage) -> State:
    return State(storage.files, max(at for _, at in storage.files.values()))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("kind", "name", "planned"), CASES, ids=lambda given: getattr(given, "name", str(given))
)
@pytest.mark.parametrize(
    "at_all_calls",
    [pytest.param(False, id="inflight-file"), pytest.param(True, marks=SOAK, id="all-calls")],
)
def test_plan_that_was_archived_is_never_pending_again(
    kind: Kind, name: str, planned: Operation, at_all_calls: bool, tmp_path: Path
) -> None:
    """In the gate: before the look at the plan, the inflight file, and the second look."""
    story, instant = _begun(kind, name, planned)
    inflight = _inflight_call(story, instant)
    moments = range(1, inflight + BEHIND) if at_all_calls else range(inflight - 1, inflight + 2)
    for moment in moments:
        for dies in (False, True):
            storage, answer, before = story.played(moment, dies=dies)
            at = f"frozen before call {moment}, dies={dies}: {answer!r}"
            assert isinstance(answer, STOPPED), at
            assert rows_of(_end_of(storage)) == before, at
            if not isinstance(answer, Crash):
                assert _pending_files(storage, instant) == [], at
            after = story.repaired(storage)
            assert _pending_files(storage, instant) == [], at
            assert rows_of(after) == before == read_by_others(after, tmp_path), at
            other = story.other(storage)
            story.write(other)
            _compact(story, other)
            story.serve(other, "clean", **NEWEST)
            assert rows_of(_end_of(storage)) == before, at
