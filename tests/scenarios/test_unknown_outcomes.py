"""Storage fails, or takes the write and loses the answer: what is told is true, and nothing that
may be committed is deleted.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from tests.support.clocks import ManualClock
from tests.support.scenario_table import CITIES, ScenarioTable, ScenarioTables, ScenarioWriter
from tests.support.watched_storage import At, WatchedStorage, fails
from workers.concurrency.outcome import Committed, Unknown
from workers.errors import LakehouseError, StorageFailed, WriteOutcomeUnknown
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers

OPTIONS = write_options({})
DECISION, COMPLETED = ".sluice/decision/", ".commit"


def writer_on(
    table: ScenarioTable,
    *,
    before: Callable[[str, str], None] | None = None,
    after: Callable[[str, str], None] | None = None,
) -> ScenarioWriter:
    nothing: Callable[[str, str], None] = lambda call, path: None  # noqa: E731
    storage = WatchedStorage(table.location, before=before or nothing, after=after or nothing)
    return table.writer("unlucky", storage=storage)


def published(effect: Callable[[], None], times: int = 1) -> Callable[[str, str], None]:
    """At the creation of a completed file, whose name alone has two times."""
    at = At("put_if_absent", COMPLETED, effect, times=times)
    return lambda call, path: at(call, path) if "_" in path.rpartition("/")[2] else None


def test_decision_whose_answer_was_lost_is_read_back_as_ones_own(table: ScenarioTable) -> None:
    lost = At("put_if_absent", DECISION, fails(WriteOutcomeUnknown("answer lost")))
    unlucky = writer_on(table, after=lost).upsert({"id": 1, "city": "Oslo"})

    unlucky.wins()

    assert lost.hits == 1
    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_decision_that_never_arrived_is_tried_again(table: ScenarioTable) -> None:
    failing = At("put_if_absent", DECISION, fails(StorageFailed("503")), times=2)
    unlucky = writer_on(table, before=failing).upsert({"id": 1, "city": "Oslo"})

    unlucky.wins()

    assert failing.hits == 2


def test_decision_that_cannot_be_made_leaves_the_outcome_unknown_and_every_file(
    table: ScenarioTable,
) -> None:
    failing = At("put_if_absent", DECISION, fails(StorageFailed("503")), times=100)
    unlucky = writer_on(table, before=failing).upsert({"id": 1, "city": "Oslo"})

    outcome = unlucky.commit()

    assert isinstance(outcome, Unknown)
    assert len(table.data_files()) == 1
    unlucky.dies()
    roll_back_dead_writers(table.table, OPTIONS)
    assert table.data_files() == []
    assert table.rows() == []
    assert table.leftovers() == []


def test_publishing_that_failed_after_the_decision_is_a_commit(table: ScenarioTable) -> None:
    unlucky = writer_on(table, before=published(fails(StorageFailed("503")), times=100))
    unlucky.upsert({"id": 1, "city": "Oslo"})

    outcome = unlucky.commit()

    assert isinstance(outcome, Committed)
    table.writer("next").upsert_and_commit({"id": 2, "city": "Bergen"})
    assert [row["id"] for row in table.rows()] == [1, 2]


def test_publishing_whose_answer_was_lost_is_a_commit(table: ScenarioTable) -> None:
    unlucky = writer_on(table, after=published(fails(WriteOutcomeUnknown("answer lost"))))
    unlucky.upsert({"id": 1, "city": "Oslo"})

    assert isinstance(unlucky.commit(), Committed)

    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_tidying_up_that_fails_does_not_turn_a_commit_into_an_error(table: ScenarioTable) -> None:
    failing = At("delete_tree", ".hoodie/.temp", fails(StorageFailed("503")))
    unlucky = writer_on(table, before=failing).upsert({"id": 1, "city": "Oslo"})

    outcome = unlucky.commit()

    assert isinstance(outcome, Committed)
    unlucky.dies()
    roll_back_dead_writers(table.table, OPTIONS)
    assert table.leftovers() == []


def test_full_disk_at_the_decision_does_not_leave_a_heart_beating_for_ever(
    table: ScenarioTable,
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    failing = At("put", ".sluice/metadata", fails(full), times=100)
    unlucky = writer_on(table, before=failing).upsert({"id": 1, "city": "Oslo"})

    try:
        outcome = unlucky.commit()
    except (OSError, LakehouseError):
        pass
    else:
        assert not isinstance(outcome, Committed)

    # Its own thread must not keep it alive: nobody else may clean up while it beats.
    assert not unlucky.is_beating
    unlucky.dies()
    roll_back_dead_writers(table.table, OPTIONS)
    assert table.data_files() == []


def test_full_disk_at_the_start_does_not_leave_a_heart_beating_for_ever(
    table: ScenarioTable,
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    failing = At("put_if_absent", ".commit.requested", fails(full), times=100)
    unlucky = writer_on(table, before=failing)

    with pytest.raises((OSError, LakehouseError)):
        unlucky.begin(CITIES)

    assert not unlucky.is_beating


def test_lock_that_cannot_be_given_back_runs_out_and_the_writer_goes_on(
    tables: ScenarioTables,
) -> None:
    clock = ManualClock()
    table = tables(clock=clock)
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    calls: list[str] = []

    def fails_at_release(call: str, path: str) -> None:
        if call == "replace_if_match" and ".locks" in path:
            calls.append(path)
            if len(calls) == 2:
                raise StorageFailed("503")

    unlucky = writer_on(table, before=fails_at_release).upsert({"id": 2, "city": "Bergen"})
    began_ms = clock.now_ms()

    unlucky.wins()

    assert len(calls) > 2
    assert clock.now_ms() - began_ms > 30_000
    assert table.rows("id") == [{"id": 1}, {"id": 2}]


def test_full_disk_while_writing_rolls_the_write_back_and_says_so(table: ScenarioTable) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    failing = At("create_data", "", fails(full))
    handle = open_table(table.location, storage=WatchedStorage(table.location, before=failing))

    with pytest.raises((OSError, LakehouseError)):
        handle.write(table.batch([{"id": 1, "city": "Oslo"}]))

    assert table.timeline()[-1] == ("rollback", "completed")
    assert table.orphan_files() == []
    assert table.leftovers() == []


def test_rollback_whose_delete_fails_is_finished_later(table: ScenarioTable) -> None:
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()
    failing = At("delete", ".parquet", fails(StorageFailed("503")))
    cleaner = writer_on(table, before=failing)
    with pytest.raises(StorageFailed):
        roll_back_dead_writers(cleaner.table, OPTIONS)
    assert len(table.data_files()) == 1

    table.writer("next").upsert_and_commit({"id": 2, "city": "Bergen"})

    assert table.rows() == [{"id": 2, "city": "Bergen"}]
    assert table.orphan_files() == []
    assert table.leftovers() == []
