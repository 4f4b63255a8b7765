"""Writers that look for rivals while they write: the one that cannot commit stops early, and one
of any that meet goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.fixtures import MarkerServerAddress
from tests.support.scenario_table import (
    MODES,
    READINGS,
    Row,
    ScenarioTable,
    ScenarioTables,
    ScenarioWriter,
)
from workers.concurrency.conflicts import Conflict
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import EarlyConflict
from workers.files.names import bucket_file_id
from workers.options.early_detection import EarlyStrategy
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

pytestmark = pytest.mark.sampled(every=2)

# Keys 1 to 4 fall into eight buckets as follows: 1 -> 0, 2 -> 1, 3 -> 2, 4 -> 3.
FIRST_BUCKET = ("", bucket_file_id(0))
EARLY = "hoodie.write.concurrency.early.conflict"
PERIOD_MS = 100
STRATEGIES = {strategy.name.lower(): strategy for strategy in EarlyStrategy}


@pytest.fixture(params=STRATEGIES)
def early(
    request: pytest.FixtureRequest,
    marker_server: MarkerServerAddress,
    monkeypatch: pytest.MonkeyPatch,
) -> Mapping[str, str]:
    """Options of a writer that looks for rivals by one of the strategies."""
    strategy = STRATEGIES[request.param]
    monkeypatch.setenv("SLUICE_MARKER_URL", marker_server.url)
    monkeypatch.setenv("SLUICE_MARKER_SECRET", marker_server.secret)
    return {
        f"{EARLY}.detection.enable": "true",
        f"{EARLY}.detection.strategy": strategy.value,
        f"{EARLY}.check.commit.conflict": "true",
        "hoodie.write.concurrency.async.conflict.detector.period_ms": str(PERIOD_MS),
        "hoodie.write.markers.type": "direct" if strategy.is_direct else "timeline_server_based",
    }


def stops_early(writer: ScenarioWriter, *rows: Row) -> Conflict:
    """It writes these rows again and again, until it is told to stop."""
    with pytest.raises(EarlyConflict):
        keeps_writing(writer, *rows, times=600)
    outcome = writer.transaction.lose_early()
    assert isinstance(outcome, Conflicted), outcome
    return outcome.conflict


def keeps_writing(writer: ScenarioWriter, *rows: Row, times: int = 5) -> None:
    """For some periods; the files of the last time count."""
    for attempt in range(times):
        writer.forget_statuses()
        writer.write(*rows, attempt=attempt)
        writer.table.ports.clock.sleep(PERIOD_MS / 1000)


def test_younger_writer_stops_at_the_markers_of_an_older_live_one_which_then_commits(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    older, younger = table.writer("older", options=early), table.writer("younger", options=early)
    older.upsert({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"})
    younger.begin(table.batch([{"id": 1, "city": "Bergen"}]).schema)

    conflict = stops_early(younger, {"id": 1, "city": "Bergen"}, {"id": 3, "city": "Bergen"})

    assert (conflict.kind, conflict.detected) == ("write", "early")
    assert (conflict.rival, conflict.rival_writer) == (older.last_instant, "older")
    assert conflict.file_groups == (FIRST_BUCKET,)
    assert conflict.strategy == early[f"{EARLY}.detection.strategy"]
    older.wins()
    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"}]
    assert table.orphan_files() == table.leftovers() == []


def test_older_writer_goes_on_beside_the_markers_of_a_younger_one(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    older, younger = table.writer("older", options=early), table.writer("younger", options=early)
    older.begin(table.batch([{"id": 1, "city": "Oslo"}]).schema)
    younger.upsert({"id": 1, "city": "Bergen"})

    keeps_writing(older, {"id": 1, "city": "Oslo"})
    older.wins()

    assert younger.loses().detected == "commit"
    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_what_was_completed_since_its_start_stops_a_writer_though_the_markers_are_gone(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    """Bug D7: the winner has taken its markers away before the loser makes its own."""
    slow, fast = table.writer("slow", options=early), table.writer("fast", options=early)
    slow.begin(table.batch([{"id": 1, "city": "Oslo"}]).schema)
    fast.upsert_and_commit({"id": 1, "city": "Bergen"})

    conflict = stops_early(slow, {"id": 1, "city": "Oslo"})

    assert conflict.rival == fast.last_instant
    assert conflict.file_groups == (FIRST_BUCKET,)
    assert table.rows() == [{"id": 1, "city": "Bergen"}]


def test_a_writer_that_was_complete_before_stops_nobody(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    table.writer("before", options=early).upsert_and_commit({"id": 1, "city": "Oslo"})

    writer = table.writer("after", options=early)
    writer.begin(table.batch([{"id": 1, "city": "Bergen"}]).schema)
    keeps_writing(writer, {"id": 1, "city": "Bergen"})

    writer.wins()
    assert table.rows() == [{"id": 1, "city": "Bergen"}]


def test_markers_of_a_writer_whose_heart_stopped_stop_nobody(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    """Bug D5: what counts is the bound that the rival names itself."""
    dead, writer = table.writer("dead", options=early), table.writer("writer", options=early)
    dead.upsert({"id": 1, "city": "Oslo"})
    writer.begin(table.batch([{"id": 1, "city": "Bergen"}]).schema)
    dead.dies()

    keeps_writing(writer, {"id": 1, "city": "Bergen"})

    writer.wins()
    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    table.writer("next").upsert_and_commit({"id": 9, "city": "Rome"})  # Takes the dead one away.


def test_a_dead_writer_stops_others_until_its_heartbeat_lapses(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    """Bug D8: and no longer. Its own bound counts, which is longer than the default."""
    bound = {
        "hoodie.client.heartbeat.interval_in_ms": "600000",
        "hoodie.client.heartbeat.tolerable.misses": "2",
    }
    dead, blocked, free = (
        table.writer(name, options={**early, **bound}) for name in ("dead", "blocked", "free")
    )
    dead.upsert({"id": 1, "city": "Oslo"})
    for writer in (blocked, free):
        writer.begin(table.batch([{"id": 1, "city": "Bergen"}]).schema)
    dead.falls_silent()

    dead.last_beat_was(600)
    assert stops_early(blocked, {"id": 1, "city": "Rome"}).rival_writer == "dead"
    dead.last_beat_was(1_201)
    keeps_writing(free, {"id": 1, "city": "Bergen"})

    free.wins()
    table.writer("next").upsert_and_commit({"id": 9, "city": "Rome"})
    assert table.rows()[0] == {"id": 1, "city": "Bergen"}


def test_one_file_id_in_two_partitions_is_no_conflict(
    tables: ScenarioTables, early: Mapping[str, str]
) -> None:
    """Bug D4, with a `_` in the partitions' names, by which Hudi 1.2 mistakes them for one."""
    table = tables(schema=READINGS, partition_by=["place"])
    older, younger = table.writer("older", options=early), table.writer("younger", options=early)
    here: Row = {"id": "a", "place": "event_1", "ts": 1, "value": 1}
    there = {**here, "place": "event_2"}
    older.upsert(here)
    younger.begin(table.batch([there]).schema)

    keeps_writing(younger, there)

    younger.wins()
    older.wins()
    assert [row["place"] for row in table.rows()] == ["event_1", "event_2"]


def test_logs_and_base_files_of_one_file_group_meet(
    tables: ScenarioTables, early: Mapping[str, str]
) -> None:
    """Names of logs begin with a dot, by which Hudi 1.2 misses them."""
    table = tables(schema=READINGS, table_type="MERGE_ON_READ")
    row: Row = {"id": "a", "ts": 1, "value": 1}
    table.writer("before", options=early).upsert_and_commit(row)
    older, younger = table.writer("older", options=early), table.writer("younger", options=early)
    older.upsert(row)
    younger.begin(table.batch([row]).schema, "insert_overwrite_table")

    conflict = stops_early(younger, row)

    assert conflict.rival == older.last_instant
    older.wins()


def test_live_plan_of_a_table_service_gives_way_to_a_writer(
    tables: ScenarioTables, early: Mapping[str, str]
) -> None:
    table = tables(schema=READINGS, table_type="MERGE_ON_READ")
    row: Row = {"id": "a", "ts": 1, "value": 1}
    for _ in range(2):
        table.writer("before", options=early).upsert_and_commit(row)
    writer = table.writer("writer", options=early)
    writer.begin(table.batch([row]).schema)
    assert table.lakehouse.compact().instant is not None

    keeps_writing(writer, {**row, "value": 2})

    writer.wins()
    assert table.rows("value") == [{"value": 2}]


def test_what_was_written_in_vain_is_counted_and_kept_with_the_decision(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    older, younger = table.writer("older", options=early), table.writer("younger", options=early)
    younger_rows: list[Row] = [{"id": 3, "city": "Bergen"}, {"id": 4, "city": "Bergen"}]
    older.upsert({"id": 1, "city": "Oslo"})
    younger.upsert(*younger_rows)
    size = sum(status.stat.bytes for status in younger.written)

    conflict = stops_early(younger, {"id": 1, "city": "Bergen"})

    decision = decisions.read(table.storage, younger.last_instant)
    assert isinstance(decision, RollbackDecision)
    assert decision.conflict == conflict.to_json()
    assert conflict.wasted_files >= 2
    assert conflict.wasted_bytes >= size
    assert conflict.lasted_ms > 0
    older.wins()
    assert table.orphan_files() == table.leftovers() == []


def test_a_late_conflict_says_what_was_written_in_vain_too(table: ScenarioTable) -> None:
    slow, fast = table.writer("slow"), table.writer("fast")
    slow.upsert({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"})
    fast.upsert_and_commit({"id": 1, "city": "Bergen"})

    conflict = slow.loses()

    assert (conflict.detected, conflict.strategy, conflict.wasted_files) == ("commit", None, 2)
    assert conflict.wasted_bytes == sum(status.stat.bytes for status in slow.written)


LONG_WRITE_ROWS = 60_000
"""As many as take longer to write than the server takes to look beside the writer."""


def test_an_arrow_write_that_is_doomed_is_a_conflict_and_is_tried_again_once_its_rival_is_gone(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    older = table.writer("older", options=early).upsert({"id": 1, "city": "Oslo"})
    options = {
        **early,
        "hoodie.write.concurrency.mode": MODES["optimistic"],
        "hoodie.write.lock.wait_time_ms": "5000",
    }
    rows = table.batch([{"id": n, "city": "Bergen"} for n in range(1, LONG_WRITE_ROWS)])

    first = table.lakehouse.write(rows, options=options)
    retries = {"hoodie.write.num.retries.on.conflict.failures": "1"}
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(table.lakehouse.write, rows, options={**options, **retries})
        wait_until(lambda: len(rollbacks(table)) == 2)
        older.wins()
        outcome = second.result()

    assert isinstance(first, Conflicted)
    assert (first.conflict.detected, first.conflict.rival_writer) == ("early", "older")
    assert isinstance(outcome, Committed), outcome
    assert len(table.rows()) == LONG_WRITE_ROWS - 1
    assert table.orphan_files() == table.leftovers() == []


def rollbacks(table: ScenarioTable) -> list[tuple[str, str]]:
    return [one for one in table.timeline() if one == ("rollback", "completed")]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_writer_that_looks_for_no_rivals_is_no_less_a_rival(
    table: ScenarioTable, early: Mapping[str, str]
) -> None:
    """It keeps its markers directly, and the younger one may use the server: both are seen."""
    older, younger = table.writer("older"), table.writer("younger", options=early)
    older.upsert({"id": 1, "city": "Oslo"})
    younger.begin(table.batch([{"id": 1, "city": "Bergen"}]).schema)

    assert stops_early(younger, {"id": 1, "city": "Bergen"}).rival_writer == "older"

    older.wins()
