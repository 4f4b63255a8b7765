"""Writers die; the next writer cleans up after them, once, and leaves the living alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.support.clocks import ManualClock
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.lock_takeover import load_published_timeline
from workers.errors import InstantRolledBack
from workers.markers.store import delete_markers, read_markers
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackOutcome, RollbackRequest, rollback
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action

OPTIONS = write_options({})


def test_dead_writer_is_rolled_back_by_the_next_one_before_it_begins(table: ScenarioTable) -> None:
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()
    assert len(table.data_files()) == 1

    table.writer("next", mode="single").upsert_and_commit({"id": 2, "city": "Bergen"})

    assert table.rows() == [{"id": 2, "city": "Bergen"}]
    assert [action for action, _ in table.timeline()] == ["commit", "rollback", "commit"]
    assert table.orphan_files() == []
    assert table.leftovers() == []
    decision = decisions.read(table.storage, dead.last_instant)
    assert isinstance(decision, RollbackDecision)
    assert "heartbeat is" in decision.reason


def test_live_writer_is_left_alone_and_commits(table: ScenarioTable) -> None:
    slow = table.writer("slow").upsert({"id": 1, "city": "Oslo"})

    table.writer("next").upsert_and_commit({"id": 2, "city": "Bergen"})

    slow.wins()
    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]


def test_silent_writer_is_left_alone_until_its_own_bound_is_over(table: ScenarioTable) -> None:
    silent = table.writer("silent").upsert({"id": 1, "city": "Oslo"})
    silent.falls_silent()

    assert roll_back_dead_writers(table.table, OPTIONS) == []

    silent.wins()


def test_writers_are_judged_by_the_bound_they_named_themselves(tables: ScenarioTables) -> None:
    clock = ManualClock()
    table = tables(clock=clock)
    short = {
        "hoodie.client.heartbeat.interval_in_ms": "10000",
        "hoodie.client.heartbeat.tolerable.misses": "1",
    }
    hasty = table.writer("hasty", options=short).upsert({"id": 1, "city": "Oslo"})
    patient = table.writer("patient").upsert({"id": 2, "city": "Oslo"})
    hasty.falls_silent()
    patient.falls_silent()
    clock.advance(10_000)
    assert roll_back_dead_writers(table.table, OPTIONS) == []

    clock.advance(1)
    outcomes = roll_back_dead_writers(table.table, OPTIONS)

    assert [outcome.target for outcome in outcomes] == [hasty.last_instant]


def test_dead_writer_that_wakes_learns_that_it_was_rolled_back(table: ScenarioTable) -> None:
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()
    table.writer("next").upsert_and_commit({"id": 1, "city": "Bergen"})

    rolled_back = dead.is_told_rolled_back()

    assert rolled_back.instant == dead.last_instant
    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    assert table.orphan_files() == []
    assert table.leftovers() == []


def test_dead_writer_that_wakes_before_anybody_noticed_commits(table: ScenarioTable) -> None:
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()

    dead.wins()

    assert roll_back_dead_writers(table.table, OPTIONS) == []
    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_dead_writer_that_wakes_to_write_more_is_refused_its_marker(table: ScenarioTable) -> None:
    dead = table.writer("dead").begin(table.batch([{"id": 1, "city": "Oslo"}]).schema)
    dead.dies()
    table.writer("next").upsert_and_commit({"id": 2, "city": "Bergen"})

    with pytest.raises(InstantRolledBack):
        dead.write({"id": 1, "city": "Oslo"})

    assert table.orphan_files() == []


def test_eight_writers_that_find_one_dead_instant_make_one_rollback(table: ScenarioTable) -> None:
    """Bug B1: one rollback instant, no error to the other seven."""
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"})
    dead.dies()
    finders = [table.writer(f"finder{n}") for n in range(8)]
    together = Barrier(len(finders))

    def clean_up(number: int) -> list[RollbackOutcome]:
        together.wait()
        return roll_back_dead_writers(finders[number].table, OPTIONS)

    with ThreadPoolExecutor(len(finders)) as pool:
        list(pool.map(clean_up, range(len(finders))))

    rollbacks = [one for one in table.instants() if one.action is Action.ROLLBACK]
    assert [one.is_completed for one in rollbacks] == [True]
    assert table.rows() == []
    assert table.orphan_files() == []
    assert table.leftovers() == []


def test_eight_writers_begin_at_once_over_a_dead_one_and_all_commit(table: ScenarioTable) -> None:
    table.writer("dead").upsert({"id": 100, "city": "Oslo"}).dies()
    writers = [table.writer(f"w{n}", mode="optimistic") for n in range(8)]
    together = Barrier(len(writers))

    def write(number: int) -> None:
        together.wait()
        writers[number].upsert_and_commit({"id": number, "city": "Oslo"})

    with ThreadPoolExecutor(len(writers)) as pool:
        list(pool.map(write, range(len(writers))))

    assert [row["id"] for row in table.rows()] == list(range(8))
    actions = [one.action for one in table.instants()]
    assert actions.count(Action.ROLLBACK) == 1


def test_writer_that_completed_in_between_is_not_rolled_back(table: ScenarioTable) -> None:
    """The cleaner read the timeline while it was pending, then saw no heartbeat any more (bug
    B2).
    """
    quick = table.writer("quick").upsert({"id": 1, "city": "Oslo"})
    seen = quick.last_instant
    quick.wins()

    outcome = rollback(
        table.table,
        RollbackRequest(seen, by="cleaner", reason="no heartbeat", is_only_pending=True),
        OPTIONS,
    )

    assert outcome.is_committed
    assert outcome.rollback_instant is None
    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    assert all(one.action is not Action.ROLLBACK for one in table.instants())


def test_dead_writer_is_cleaned_even_when_its_markers_are_lost(table: ScenarioTable) -> None:
    """Bug B3: the markers went before the rollback had looked."""
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()
    delete_markers(table.storage, dead.last_instant)

    roll_back_dead_writers(table.table, OPTIONS)

    assert table.data_files() == []


def test_marker_without_a_data_file_does_not_stop_a_rollback(table: ScenarioTable) -> None:
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    [path] = table.data_files()
    (table.location / path).unlink()
    dead.dies()
    assert len(read_markers(table.storage, dead.last_instant)) == 1

    [outcome] = roll_back_dead_writers(table.table, OPTIONS)

    assert outcome.files_deleted == 0
    assert table.leftovers() == []


@pytest.mark.parametrize("by_markers", ["true", "false"])
def test_file_that_a_late_task_wrote_during_the_rollback_does_not_stay(
    table: ScenarioTable, by_markers: str
) -> None:
    """The task had its marker before the decision and wrote after the files were listed (bug
    D11).
    """
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()
    [first] = table.data_files()
    late = first.replace("_0-0-0_", "_7-0-0_")
    content = (table.location / first).read_bytes()

    def task_writes_late(done: int, total: int) -> None:
        (table.location / late).write_bytes(content)

    rollback(
        table.table,
        RollbackRequest(dead.last_instant, by="cleaner", reason="dead", is_only_pending=True),
        write_options({"hoodie.rollback.using.markers": by_markers}),
        on_progress=task_writes_late,
    )

    assert table.data_files() == []


def test_dead_lock_free_writer_takes_only_its_own_log_files_with_it(
    tables: ScenarioTables,
) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    dead = table.writer("dead", mode="non-blocking")
    alive = table.writer("alive", mode="non-blocking")
    dead.upsert({"id": "a", "ts": 9, "value": 9})
    alive.upsert({"id": "a", "ts": 1, "value": 1})
    dead.dies()
    alive.wins()

    table.writer("next", mode="non-blocking").upsert_and_commit({"id": "b", "ts": 1, "value": 2})

    assert table.rows("id", "value") == [{"id": "a", "value": 1}, {"id": "b", "value": 2}]
    assert table.orphan_files() == []


def test_dead_first_writer_of_a_partition_leaves_nothing_readable(tables: ScenarioTables) -> None:
    table = tables(partition_by=["city"])
    table.writer("dead").upsert({"id": 1, "city": "Oslo"}).dies()

    table.writer("next").upsert_and_commit({"id": 1, "city": "Bergen"})

    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    assert table.orphan_files() == []


def test_a_live_writer_with_an_older_instant_outlives_a_younger_dead_one(
    table: ScenarioTable,
) -> None:
    alive = table.writer("alive").upsert({"id": 1, "city": "Oslo"})
    table.writer("dead").upsert({"id": 2, "city": "Oslo"}).dies()

    table.writer("next").upsert_and_commit({"id": 3, "city": "Oslo"})

    alive.wins()
    assert [row["id"] for row in table.rows()] == [1, 3]


def test_a_dead_older_writer_is_rolled_back_beside_a_younger_live_one(
    table: ScenarioTable,
) -> None:
    """Hudi demands to roll back greater commits first (bug B10)."""
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    alive = table.writer("alive").upsert({"id": 2, "city": "Oslo"})
    dead.dies()

    [outcome] = roll_back_dead_writers(table.table, OPTIONS)

    assert outcome.target == dead.last_instant
    alive.wins()


def test_cleaning_up_five_times_ends_as_once(table: ScenarioTable) -> None:
    """Bug B6: what an earlier attempt left does not stop the next."""
    table.writer("dead").upsert({"id": 1, "city": "Oslo"}).dies()
    roll_back_dead_writers(table.table, OPTIONS)
    once = table.listing()

    for _ in range(4):
        assert roll_back_dead_writers(table.table, OPTIONS) == []

    assert table.listing() == once


def test_heartbeats_end_with_their_writers(table: ScenarioTable) -> None:
    winner = table.writer("winner").upsert({"id": 1, "city": "Oslo"})
    loser = table.writer("loser").upsert({"id": 1, "city": "Bergen"})
    quitter = table.writer("quitter").upsert({"id": 2, "city": "Oslo"})
    assert {beat.writer for beat in read_heartbeats(table.storage)} == {
        "winner",
        "loser",
        "quitter",
    }

    winner.wins()
    loser.loses()
    quitter.abort()

    assert read_heartbeats(table.storage) == []
    assert list(load_published_timeline(table.table).pending()) == []
