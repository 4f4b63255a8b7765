"""Somebody sleeps between two storage calls, past his lease, and wakes when the table has moved on.

Finer than stop points: a thread sleeps inside one call of its storage, with all its other threads
ended, and the others' clock is an hour ahead, so that nobody has to wait for a lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from tests.support.clocks import ManualClock, SkewedClock
from tests.support.scenario_table import CITIES, ScenarioTable, ScenarioTables, ScenarioWriter
from tests.support.watched_storage import At, Died, Sleep, WatchedStorage, fails
from workers.concurrency import late_writers
from workers.errors import InstantRolledBack, LakehouseError, LockTimeout
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.timeline.instant import Action
from workers.write.local import write_arrow
from workers.write.request import WriteRequest

OPTIONS = write_options({})
HOUR_MS = 3_600_000


@contextmanager
def asleep_in(
    sleeper: ScenarioWriter, sleep: Sleep, action: Callable[[], Any]
) -> Iterator[Future[Any]]:
    """Within the block the sleeper sleeps in the middle of `action`; afterwards he has ended."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(action)
        sleep.await_asleep()
        sleeper.falls_silent()
        try:
            yield future
        finally:
            sleep.wake()


def sleeper_at(table: ScenarioTable, call: str, part: str) -> tuple[ScenarioWriter, Sleep]:
    sleep = Sleep()
    storage = WatchedStorage(table.location, before=At(call, part, sleep))
    return table.writer("sleeper", storage=storage), sleep


def later(table: ScenarioTable, name: str) -> ScenarioWriter:
    return table.writer(name, clock=SkewedClock(HOUR_MS))


def an_admin(table: ScenarioTable, instant: str) -> RollbackRequest:
    return RollbackRequest(instant, by="admin", reason="test", is_forced=True)


def test_publisher_who_wakes_after_his_commit_was_undone_does_not_bring_it_back(
    table: ScenarioTable,
) -> None:
    """Decided, and asleep right before the completed file; another finishes it, an admin undoes
    it.
    """
    sleep = Sleep()
    at_publishing = At("put_if_absent", ".commit", sleep)
    storage = WatchedStorage(
        table.location,
        before=lambda call, path: at_publishing(call, path) if "_" in path else None,
    )
    sleeper = table.writer("sleeper", storage=storage).upsert({"id": 1, "city": "Oslo"})

    with asleep_in(sleeper, sleep, sleeper.commit) as publishing:
        admin = later(table, "admin").table
        rollback(admin, an_admin(table, sleeper.last_instant), OPTIONS)
        assert table.rows() == []

    publishing.result()
    # Before anybody else came, who would have repaired it.
    assert table.table.timeline().find(sleeper.last_instant) is None
    assert table.rows() == []
    later(table, "next").upsert_and_commit({"id": 2, "city": "Bergen"})
    assert table.rows() == [{"id": 2, "city": "Bergen"}]
    assert table.table.timeline().find(sleeper.last_instant) is None


def test_decider_who_wakes_after_a_takeover_finds_that_he_lost(table: ScenarioTable) -> None:
    sleeper, sleep = sleeper_at(table, "put_if_absent", ".sluice/decision")
    sleeper.upsert({"id": 1, "city": "Oslo"})

    with asleep_in(sleeper, sleep, sleeper.is_told_rolled_back):
        later(table, "next").upsert_and_commit({"id": 1, "city": "Bergen"})

    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    assert table.orphan_files() == []


def test_validator_who_wakes_after_a_rival_committed_sees_the_rival(table: ScenarioTable) -> None:
    """Asleep between validation and the lease check's next step: metadata is not written yet."""
    sleeper, sleep = sleeper_at(table, "put", ".sluice/metadata")
    sleeper.upsert({"id": 1, "city": "Oslo"})

    with asleep_in(sleeper, sleep, sleeper.is_told_rolled_back):
        later(table, "rival").upsert_and_commit({"id": 1, "city": "Bergen"})

    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    assert table.orphan_files() == []
    assert table.leftovers() == []


def test_admin_who_wakes_when_others_built_on_the_commit_does_not_undo_it(
    table: ScenarioTable,
) -> None:
    """Only the newest commit is undone, and it is not the newest any more: its rows live on in the
    files of the builder, so the admin must not be told that they are gone.
    """
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})
    admin, sleep = sleeper_at(table, "put_if_absent", ".undo")
    request = an_admin(table, wrong.instant)

    with asleep_in(admin, sleep, lambda: rollback(admin.table, request, OPTIONS)) as undoing:
        later(table, "builder").upsert_and_commit({"id": 9, "city": "Oslo"})

    assert isinstance(undoing.exception(), LakehouseError)
    later(table, "next").upsert_and_commit({"id": 2, "city": "Oslo"})
    assert table.table.timeline().find(wrong.instant) is not None
    assert [row["id"] for row in table.rows()] == [1, 2, 9]


@pytest.mark.parametrize("dies", [False, True])
def test_admin_who_wakes_after_another_undid_the_commit_does_not_cover_that_undo(
    table: ScenarioTable, dies: bool
) -> None:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})
    admin, sleep = sleeper_at(table, "put_if_absent", ".undo")
    request = an_admin(table, wrong.instant)
    other = table.writer(
        "other",
        clock=SkewedClock(HOUR_MS),
        storage=WatchedStorage(
            table.location, before=At("delete", ".parquet", fails(Died()), times=int(dies))
        ),
    )

    ending = pytest.raises(Died) if dies else nullcontext()
    with asleep_in(admin, sleep, lambda: rollback(admin.table, request, OPTIONS)), ending:
        rollback(other.table, request, OPTIONS)

    later(table, "next").upsert_and_commit({"id": 2, "city": "Bergen"})
    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]
    assert table.table.timeline().find(wrong.instant) is None
    assert table.orphan_files() == []
    again = rollback(later(table, "again").table, request, OPTIONS)
    assert again.rollback_instant is not None


def test_rollback_that_wakes_after_a_takeover_still_stands_on_the_timeline(
    table: ScenarioTable,
) -> None:
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()
    # The second decision is that of the rollback instant itself.
    sleep, seen = Sleep(), []

    def second_decision(call: str, path: str) -> None:
        if call == "put_if_absent" and ".sluice/decision" in path:
            seen.append(path)
            if len(seen) == 2:
                sleep()

    cleaner = table.writer(
        "cleaner", storage=WatchedStorage(table.location, before=second_decision)
    )

    with asleep_in(cleaner, sleep, lambda: roll_back_dead_writers(cleaner.table, OPTIONS)):
        later(table, "next").upsert_and_commit({"id": 2, "city": "Bergen"})

    later(table, "last").upsert_and_commit({"id": 3, "city": "Bergen"})
    assert [row["id"] for row in table.rows()] == [2, 3]
    rollbacks = [one for one in table.instants() if one.action is Action.ROLLBACK]
    assert [one.is_completed for one in rollbacks] == [True]
    assert table.leftovers() == []


def test_rollback_that_wakes_in_the_middle_of_deleting_touches_nothing_new(
    table: ScenarioTable,
) -> None:
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"})
    dead.dies()
    cleaner, sleep = sleeper_at(table, "delete", ".parquet")

    with asleep_in(cleaner, sleep, lambda: roll_back_dead_writers(cleaner.table, OPTIONS)):
        later(table, "next").upsert_and_commit({"id": 1, "city": "Bergen"})

    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    assert [one.action for one in table.instants()].count(Action.ROLLBACK) == 1
    assert table.leftovers() == []


@pytest.mark.parametrize("part", [".heartbeat", ".commit.requested", ".inflight"])
def test_beginner_who_wakes_after_his_lock_was_taken_begins_anew(
    tables: ScenarioTables, part: str
) -> None:
    """Both would take the same instant time under this clock; at most one gets it (bug A2)."""
    clock = ManualClock()
    table = tables(clock=clock)
    sleeper, sleep = sleeper_at(table, "put" if part == ".heartbeat" else "put_if_absent", part)

    with asleep_in(sleeper, sleep, lambda: sleeper.begin(CITIES)) as beginning:
        clock.advance(10 * HOUR_MS)
        other = table.writer("other").upsert({"id": 2, "city": "Oslo"})

    assert beginning.exception() is None
    assert sleeper.last_instant > other.last_instant
    other.wins()
    sleeper.write({"id": 1, "city": "Rome"})
    sleeper.wins()
    table.writer("next").upsert_and_commit({"id": 3, "city": "Oslo"})
    assert [row["id"] for row in table.rows()] == [1, 2, 3]


def test_task_that_wakes_after_its_writer_was_rolled_back_leaves_no_file(
    table: ScenarioTable,
) -> None:
    """Its marker was granted before the decision, its file comes after the deletion (bug D11)."""
    sleeper, sleep = sleeper_at(table, "create_data", ".parquet")

    with asleep_in(sleeper, sleep, lambda: sleeper.upsert({"id": 1, "city": "Oslo"})) as writing:
        later(table, "next").upsert_and_commit({"id": 1, "city": "Bergen"})
    assert isinstance(writing.exception(), InstantRolledBack)

    assert table.orphan_files() == []
    sleeper.is_told_rolled_back()
    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    assert table.orphan_files() == []


@pytest.mark.parametrize("files", [1, 2, 3])
def test_write_that_wakes_after_it_was_rolled_back_leaves_no_file(
    tables: ScenarioTables, files: int
) -> None:
    """Also the file that it was at, whichever of them, once the timeline is archived."""
    table = tables(options={"hoodie.bucket.index.num.buckets": "8"})
    sleep, opened = Sleep(), []

    def at_a_file(call: str, path: str) -> None:
        if call == "create_data" and path.endswith(".parquet"):
            opened.append(path)
            if len(opened) == files:
                sleep()

    storage = WatchedStorage(table.location, before=at_a_file)
    sleeper = table.writer("sleeper", storage=storage)
    batch = table.batch([{"id": number, "city": "Oslo"} for number in range(20)])

    def write() -> None:
        request = WriteRequest("upsert")
        write_arrow(sleeper.table, batch, request, {"hoodie.write.markers.type": "direct"})

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        sleep.await_asleep()
        sleeper.falls_silent()
        later(table, "next").upsert_and_commit({"id": 1, "city": "Bergen"})
        sleep.wake()
        assert isinstance(writing.exception(), InstantRolledBack)

    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    assert table.orphan_files() == []
    assert late_writers.list_late_writers(table.storage) == []


def test_late_file_of_a_task_whose_writer_never_came_back_goes_with_a_later_sweep(
    table: ScenarioTable,
) -> None:
    """As above, but the driver is dead: nobody calls commit any more."""
    sleeper, sleep = sleeper_at(table, "create_data", ".parquet")

    with asleep_in(sleeper, sleep, lambda: sleeper.upsert({"id": 1, "city": "Oslo"})):
        later(table, "next").upsert_and_commit({"id": 2, "city": "Bergen"})

    later(table, "last").upsert_and_commit({"id": 3, "city": "Bergen"})
    assert [row["id"] for row in table.rows()] == [2, 3]
    assert table.orphan_files() == []


def test_lock_holder_who_wakes_does_not_free_the_lock_of_his_successor(
    table: ScenarioTable,
) -> None:
    """Hudi's loser deletes the winner's lock file (bug F1)."""
    impatiently = {"hoodie.write.lock.wait_time_ms": "100"}
    sleep, successor_sleep = Sleep(), Sleep()
    sleeper = table.writer(
        "sleeper",
        storage=WatchedStorage(table.location, before=At("put", ".heartbeat", sleep)),
        options=impatiently,
    )
    successor = table.writer(
        "successor",
        clock=SkewedClock(HOUR_MS),
        storage=WatchedStorage(table.location, before=At("put", ".heartbeat", successor_sleep)),
    )

    with ThreadPoolExecutor(1) as pool:
        with asleep_in(sleeper, sleep, lambda: sleeper.begin(CITIES)) as beginning:
            holding = pool.submit(successor.begin, CITIES)
            successor_sleep.await_asleep()
        assert isinstance(beginning.exception(), LockTimeout)  # He begins anew, and waits.
        impatient = table.writer("impatient", clock=SkewedClock(HOUR_MS), options=impatiently)
        with pytest.raises(LakehouseError, match="lock stayed"):
            impatient.begin(CITIES)
        successor_sleep.wake()
        holding.result()

    successor.write({"id": 1, "city": "Oslo"})
    successor.wins()
