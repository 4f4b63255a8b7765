"""Writers that are paused past their lease and their heartbeat, on a manual clock: of commit and
rollback exactly one holds, and what a writer was told stays true.

test_zombies.py does the same to real processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.support.clocks import ManualClock
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, ClockedStorage, Sleep
from workers.concurrency.outcome import CommitOutcome, Committed, RolledBack
from workers.errors import InstantRolledBack
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, RollbackDecision

OPTIONS = write_options({})
HOUR_MS = 3_600_000
LEASE_MS, HEARTBEAT_BOUND_MS = 30_000, 120_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def lake(
    request: pytest.FixtureRequest, tables: ScenarioTables, clock: ManualClock
) -> ScenarioTable:
    table = tables(table_type=request.param, schema=READINGS, ordering=["ts"], clock=clock)
    table.writer("first").upsert_and_commit(reading("a", 1), reading("b", 1))
    return table


def reading(key: str, ts: int) -> Row:
    return {"id": key, "place": "x", "ts": ts, "value": ts * 10, "note": f"at {ts}"}


def at_decision(sleep: Sleep) -> Callable[[str, str], None]:
    """Validated, and about to decide."""
    return At("put_if_absent", ".sluice/decision", sleep)


def at_publication(sleep: Sleep) -> Callable[[str, str], None]:
    """Decided, and about to create the completed file, whose name alone has two times."""
    at = At("put_if_absent", "commit", sleep)
    return lambda call, path: at(call, path) if "_" in path.rpartition("/")[2] else None


@contextmanager
def paused_at(
    lake: ScenarioTable,
    point: Callable[[Sleep], Callable[[str, str], None]],
    pause_ms: int = HOUR_MS,
) -> Iterator[tuple[str, Future[CommitOutcome]]]:
    """Within the block a writer is paused at this point of its commit, for so long already."""
    assert isinstance(lake.clock, ManualClock)
    sleep = Sleep()
    storage = ClockedStorage(lake.location, lake.clock, before=point(sleep))
    zombie = lake.writer("zombie", storage=storage).upsert(reading("a", 5))
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(zombie.commit)
        sleep.await_asleep()
        zombie.falls_silent()
        lake.clock.advance(pause_ms)
        try:
            yield zombie.last_instant, committing
        finally:
            sleep.wake()


def test_writer_paused_before_its_decision_is_rolled_back_by_another(lake: ScenarioTable) -> None:
    before = lake.rows()

    with paused_at(lake, at_decision) as (instant, committing):
        cleaned = roll_back_dead_writers(lake.table, OPTIONS)

    assert [one.target for one in cleaned] == [instant]
    assert isinstance(committing.result(), RolledBack)
    assert isinstance(decisions.read(lake.storage, instant), RollbackDecision)
    assert lake.table.timeline().find(instant) is None
    assert lake.rows() == before
    assert lake.orphan_files() == lake.leftovers() == []


def test_writer_paused_after_its_decision_is_not_rolled_back(lake: ScenarioTable) -> None:
    with paused_at(lake, at_publication) as (instant, committing):
        assert roll_back_dead_writers(lake.table, OPTIONS) == []

    outcome, decision = committing.result(), decisions.read(lake.storage, instant)
    assert isinstance(outcome, Committed)
    assert isinstance(decision, CommitDecision)
    completed = lake.table.timeline().find(instant)
    assert completed is not None
    assert completed.completed_at == outcome.completed_at == decision.completed_at
    assert lake.rows() == [reading("a", 5), reading("b", 1)]
    assert lake.orphan_files() == lake.leftovers() == []


@pytest.mark.parametrize("pause_ms", [LEASE_MS + 1_000, HEARTBEAT_BOUND_MS + 1_000])
def test_paused_lock_holder_whose_rival_took_the_same_file_group_loses(
    lake: ScenarioTable, pause_ms: int
) -> None:
    """Its lease alone has run out, or its heartbeat as well."""
    with paused_at(lake, at_decision, pause_ms) as (instant, committing):
        lake.writer("rival").upsert_and_commit(reading("a", 7))

    assert isinstance(committing.result(), RolledBack)
    assert lake.table.timeline().find(instant) is None
    assert lake.rows() == [reading("a", 7), reading("b", 1)]
    assert lake.orphan_files() == []


def test_paused_writer_that_had_decided_is_published_by_its_rival_who_builds_on_it(
    lake: ScenarioTable,
) -> None:
    with paused_at(lake, at_publication) as (instant, committing):
        lake.writer("next").upsert_and_commit(reading("a", 7))
        published = lake.table.timeline().find(instant)

    outcome = committing.result()
    assert isinstance(outcome, Committed)
    assert published is not None
    assert published.completed_at == outcome.completed_at
    assert lake.rows() == [reading("a", 7), reading("b", 1)]


def test_writer_paused_before_it_had_data_is_refused_its_marker(
    lake: ScenarioTable, clock: ManualClock
) -> None:
    before = lake.rows()
    zombie = lake.writer("zombie").begin(lake.batch([reading("a", 5)]).schema)
    zombie.falls_silent()
    clock.advance(HOUR_MS)

    roll_back_dead_writers(lake.table, OPTIONS)

    with pytest.raises(InstantRolledBack):
        zombie.write(reading("a", 5))
    assert lake.rows() == before
    assert lake.orphan_files() == []
