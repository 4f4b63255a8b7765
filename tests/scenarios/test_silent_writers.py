"""A writer whose heart was silent for longer than its bound: others could take it for dead, and
Apache Hudi's writers decide that without our decision object. It commits only when it can prove
that nobody did.
"""

from __future__ import annotations

import pytest

from tests.support.clocks import ManualClock
from tests.support.scenario_table import ScenarioTable, ScenarioTables, ScenarioWriter
from workers.concurrency.outcome import Committed, RolledBack
from workers.timeline import decisions, transitions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action
from workers.timeline.metadata import RollbackPlanFile

INTERVAL_MS = 10_000
BOUND_MS = 2 * INTERVAL_MS
BEATS = {
    "hoodie.client.heartbeat.interval_in_ms": str(INTERVAL_MS),
    "hoodie.client.heartbeat.tolerable.misses": "2",
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(tables: ScenarioTables, clock: ManualClock) -> ScenarioTable:
    return tables(clock=clock)


@pytest.fixture
def silent(table: ScenarioTable, clock: ManualClock) -> ScenarioWriter:
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    writer = table.writer("silent", options=BEATS).upsert({"id": 1, "city": "Rome"})
    writer.falls_silent()
    clock.advance(BOUND_MS + 1)
    return writer


def plan_of_hudi(table: ScenarioTable, target: str, content: bytes | None = None) -> str:
    """Hudi's lazy cleaner: asked for under the lock, carried out without it."""
    requested_at = str(int(target) + 50)
    plan = RollbackPlanFile(target, "commit", {}).encode(str(table.location))
    storage = table.table.storage
    transitions.request(
        storage, requested_at, Action.ROLLBACK, plan if content is None else content
    )
    return requested_at


def test_silent_writer_about_whom_nobody_decided_commits(
    table: ScenarioTable, silent: ScenarioWriter
) -> None:
    assert isinstance(silent.commit(), Committed)
    assert table.rows() == [{"id": 1, "city": "Rome"}]


@pytest.mark.parametrize("content", [None, b"torn"])
def test_silent_writer_whom_a_rollback_names_does_not_commit(
    table: ScenarioTable, silent: ScenarioWriter, content: bytes | None
) -> None:
    rollback = plan_of_hudi(table, silent.last_instant, content)

    outcome = silent.commit()

    assert isinstance(outcome, RolledBack)
    assert rollback in outcome.reason
    decision = decisions.read(table.table.storage, silent.last_instant)
    assert isinstance(decision, RollbackDecision)
    assert table.rows() == [{"id": 1, "city": "Oslo"}]
    assert table.orphan_files() == []


def test_silent_writer_whose_files_were_deleted_does_not_commit(
    table: ScenarioTable, silent: ScenarioWriter
) -> None:
    [path] = [one for one in table.data_files() if silent.last_instant in one]
    (table.location / path).unlink()

    outcome = silent.commit()

    assert isinstance(outcome, RolledBack)
    assert "files are gone" in outcome.reason
    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_writer_that_was_silent_for_less_than_its_bound_does_not_look_for_rollbacks(
    table: ScenarioTable, clock: ManualClock
) -> None:
    writer = table.writer("hesitant", options=BEATS).upsert({"id": 1, "city": "Rome"})
    writer.falls_silent()
    clock.advance(BOUND_MS - 1)
    plan_of_hudi(table, writer.last_instant)

    assert isinstance(writer.commit(), Committed)


def test_writer_that_beats_again_remembers_that_it_was_silent(
    table: ScenarioTable, clock: ManualClock
) -> None:
    """Whoever wakes beats before it commits."""
    sleeper = table.writer("sleeper", options=BEATS).upsert({"id": 1, "city": "Rome"})
    heartbeat = sleeper.transaction._started.heartbeat
    lapsed = [heartbeat.has_lapsed]
    sleeper.falls_silent()
    clock.advance(BOUND_MS + 1)
    heartbeat._beat()
    plan_of_hudi(table, sleeper.last_instant)
    lapsed.append(heartbeat.has_lapsed)

    assert lapsed == [False, True]
    assert isinstance(sleeper.commit(), RolledBack)


def test_writer_whose_heart_beats_does_not_look_for_rollbacks(
    table: ScenarioTable, clock: ManualClock
) -> None:
    """One of ours that died before it decided anything leaves a plan that means nothing."""
    writer = table.writer("alive", options=BEATS).upsert({"id": 1, "city": "Rome"})
    clock.advance(3 * BOUND_MS)
    plan_of_hudi(table, writer.last_instant)

    assert isinstance(writer.commit(), Committed)
