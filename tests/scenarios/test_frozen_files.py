"""A real process stopped between two data files, rolled back, archived past and woken: neither we
nor hudi-rs ever show what it left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.frozen_writer import FrozenWriter
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from tests.support.table_services import plan, run
from workers.concurrency.heartbeat import read_heartbeats
from workers.options.service_keys import LATE_WRITER_KEY
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback

OPTIONS = {"hoodie.write.markers.type": "direct", "sluice.writer.name": "sleeper"}
BATCH = [{"id": number, "city": "never committed"} for number in range(100, 120)]
LIMITS = {"min_commits": "2", "max_commits": "3"}


@pytest.fixture
def lake(tables: ScenarioTables) -> ScenarioTable:
    table = tables(options={"hoodie.bucket.index.num.buckets": "4"})
    table.writer("first").upsert_and_commit({"id": 1, "city": "Oslo"})
    return table


@contextmanager
def frozen(lake: ScenarioTable) -> Iterator[FrozenWriter]:
    writer = FrozenWriter(lake.location, BATCH, options=OPTIONS, file=2)
    try:
        yield writer
    finally:
        writer.kill()


def passed_by(lake: ScenarioTable) -> str:
    """Others roll the sleeper back and commit; the instant that they took from it."""
    [beat] = read_heartbeats(lake.storage)
    request = RollbackRequest(beat.instant, by="admin", reason="it sleeps", is_forced=True)
    rollback(lake.table, request, write_options({}))
    for number in range(5):
        lake.writer("w").upsert_and_commit({"id": 2, "city": f"city {number}"})
    return beat.instant


def late_files(lake: ScenarioTable, instant: str) -> list[str]:
    return [path for path in lake.data_files() if instant in path]


def test_file_that_comes_while_archiving_waits_is_seen_by_no_reader_and_goes_with_it(
    lake: ScenarioTable,
) -> None:
    with frozen(lake) as writer:
        instant = passed_by(lake)
        run(lake.table, "archive", **LIMITS)
        assert (lake.table.timeline().first_time or "") < instant
        before = lake.rows()

        writer.writes_its_file_and_is_killed()

    assert len(late_files(lake, instant)) == 1
    assert lake.rows() == before
    lake.assert_referee_agrees()
    run(lake.table, "archive", **LIMITS)
    assert (lake.table.timeline().first_time or "") > instant
    assert late_files(lake, instant) == []
    assert lake.rows() == before


@pytest.mark.slow
def test_file_that_comes_after_a_person_gave_its_writer_up_is_not_counted_and_is_cleaned(
    lake: ScenarioTable,
) -> None:
    with frozen(lake) as writer:
        instant = passed_by(lake)
        run(lake.table, "archive", **LIMITS, **{LATE_WRITER_KEY: "0"})
        before = lake.rows()

        writer.writes_its_file_and_is_killed()

    [late] = late_files(lake, instant)
    assert lake.rows() == before
    assert late in [item.what for item in plan(lake.table, "clean").items]
    run(lake.table, "clean")
    assert late_files(lake, instant) == []
    lake.writer("next").upsert_and_commit({"id": 3, "city": "Bergen"})
    assert lake.rows() == [*before, {"id": 3, "city": "Bergen"}]
