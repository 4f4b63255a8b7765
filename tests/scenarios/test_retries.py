"""`hoodie.write.num.retries.on.conflict.failures`: a write that lost begins anew, as often as it
was told, and says to whom it lost.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pytest

from tests.support.scenario_table import ScenarioTable, schema_of
from tests.support.watched_storage import At, WatchedStorage
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.errors import PlanChanged
from workers.lakehouse import LakehouseTable, open_table
from workers.options.write_options import write_options
from workers.ports import Ports, RandomIds, ThreadScheduler, system_ports
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.timeline.metadata import ATTEMPTS_KEY
from workers.write.retry import PAUSE_FIRST_S, PAUSE_MAX_S, pause_s

OSLO, BERGEN = {"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}


def options(retries: int) -> dict[str, str]:
    return {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.markers.type": "direct",
        "hoodie.write.num.retries.on.conflict.failures": str(retries),
        "sluice.writer.name": "patient",
    }


def beaten(table: ScenarioTable, times: int) -> LakehouseTable:
    """A handle whose first `times` writes each meet a faster rival of the same file group."""
    numbers = count()

    def rival() -> None:
        number = next(numbers)
        table.writer(f"rival{number}").upsert_and_commit({"id": 1, "city": f"city{number}"})

    return handle_with(table, At("create_data", ".parquet", rival, times=times))


def handle_with(table: ScenarioTable, at: At) -> LakehouseTable:
    return open_table(table.location, storage=WatchedStorage(table.location, before=at))


def upsert(handle: LakehouseTable, retries: int) -> CommitOutcome:
    return handle.write(pa.table({"id": [1], "city": ["mine"]}), options=options(retries))


def delete_by_key(handle: LakehouseTable, retries: int) -> CommitOutcome:
    return handle.delete(pa.table({"id": [1]}), options=options(retries))


def delete_by_predicate(handle: LakehouseTable, retries: int) -> CommitOutcome:
    return handle.delete(predicate="id = 1", options=options(retries))


WRITES = [upsert, delete_by_key, delete_by_predicate]


@pytest.mark.parametrize("write", WRITES)
def test_write_that_lost_begins_anew_and_says_how_often(
    table: ScenarioTable, write: Callable[[LakehouseTable, int], CommitOutcome]
) -> None:
    table.writer("first").upsert_and_commit(OSLO, BERGEN)

    outcome = write(beaten(table, 2), 2)

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 3
    assert table.metadata(outcome.instant).extra_metadata[ATTEMPTS_KEY] == "3"
    assert table.rows() == ([{"id": 1, "city": "mine"}, BERGEN] if write is upsert else [BERGEN])
    assert table.orphan_files() == table.leftovers() == []
    assert [action for action, _ in table.timeline()].count("rollback") == 2


@pytest.mark.parametrize("write", WRITES)
def test_last_conflict_names_all_the_rivals(
    table: ScenarioTable, write: Callable[[LakehouseTable, int], CommitOutcome]
) -> None:
    table.writer("first").upsert_and_commit(OSLO)

    outcome = write(beaten(table, 5), 2)

    assert isinstance(outcome, Conflicted)
    assert outcome.attempts == 3
    assert [one.rival_writer for one in outcome.earlier] == ["rival0", "rival1"]
    assert outcome.conflict.rival_writer == "rival2"
    for number in range(3):
        assert f"(rival{number})" in outcome.conflict.message
    assert "3 attempts lost" in outcome.conflict.message
    assert table.rows() == [{"id": 1, "city": "city2"}]
    assert table.orphan_files() == table.leftovers() == []


def test_without_retries_the_first_conflict_is_the_last(table: ScenarioTable) -> None:
    table.writer("first").upsert_and_commit(OSLO)

    outcome = upsert(beaten(table, 1), 0)

    assert isinstance(outcome, Conflicted)
    assert (outcome.attempts, outcome.earlier) == (1, ())
    assert "attempts" not in outcome.conflict.message


@pytest.mark.parametrize("retries", [0, 2])
def test_schema_that_no_retry_can_merge_is_a_conflict_with_rival_and_schemas(
    table: ScenarioTable, retries: int
) -> None:
    """Tried again, the batch does not go with the table any more: that is no wrong argument."""
    table.writer("first").upsert_and_commit(OSLO)
    rivals: list[str] = []

    def rival() -> None:
        added = schema_of(id=pa.int64(), city=pa.string(), size=pa.int32())
        writer = table.writer("rival").upsert({"id": 1, "city": "Rome", "size": 3}, schema=added)
        rivals.append(writer.wins().instant)

    handle = handle_with(table, At("create_data", ".parquet", rival))
    batch = pa.table({"id": [1], "city": ["mine"], "size": ["large"]})

    outcome = handle.write(batch, options=options(retries))

    assert isinstance(outcome, Conflicted)
    assert outcome.conflict.kind == "schema"
    assert [outcome.conflict.rival] == rivals
    assert outcome.conflict.schemas is not None
    assert "size" in (outcome.conflict.schemas.at_validation or "")
    assert ("tried again" in outcome.conflict.message) == (retries > 0)
    assert table.orphan_files() == table.leftovers() == []


def test_write_that_wins_at_once_tells_no_attempts_in_its_commit(table: ScenarioTable) -> None:
    outcome = upsert(table.lakehouse, 3)

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 1
    assert ATTEMPTS_KEY not in table.metadata(outcome.instant).extra_metadata


def test_service_delete_is_tried_again_and_a_confirmed_plan_is_not_stretched(
    table: ScenarioTable,
) -> None:
    table.writer("first").upsert_and_commit(OSLO, BERGEN)
    chosen = {"predicate": "id = 1"}

    request = ServiceRequest("test", parameters=chosen)
    outcome = get_service("delete").run(beaten(table, 1).table, request, write_options(options(1)))

    assert outcome.instant is not None
    assert table.metadata(outcome.instant).extra_metadata[ATTEMPTS_KEY] == "2"

    table.writer("again").upsert_and_commit(OSLO, {"id": 9, "city": "Oslo"})
    wide = {"predicate": "city = 'Oslo'"}
    shown = get_service("delete").plan(table.table, wide)
    confirmed = ServiceRequest("test", parameters=wide, expected_plan_hash=shown.plan_hash)
    handle = beaten(table, 1)
    with pytest.raises(PlanChanged):
        get_service("delete").run(handle.table, confirmed, write_options(options(3)))

    assert {"id": 9, "city": "Oslo"} in table.rows()


def test_pauses_are_random_grow_and_are_bounded() -> None:
    ports = Ports(system_ports().clock, RandomIds(), ThreadScheduler())
    for attempts in range(1, 20):
        pauses = [pause_s(ports, attempts) for _ in range(50)]
        most = min(PAUSE_MAX_S, PAUSE_FIRST_S * 2**attempts)
        assert all(0 <= pause <= most for pause in pauses)
        assert len(set(pauses)) > 40
        assert max(pauses) > most / 2


def test_schema_of_a_retry_is_derived_from_the_table_as_it_is_then(table: ScenarioTable) -> None:
    """E-34: both add a column; the second try starts from the first one's schema."""
    table.writer("first").upsert_and_commit(OSLO)
    wider = schema_of(id=pa.int64(), city=pa.string(), theirs=pa.int64())

    def rival() -> None:
        row = {"id": 1, "city": "Voss", "theirs": 1}
        table.writer("rival").upsert_and_commit(row, schema=wider)

    handle = handle_with(table, At("create_data", ".parquet", rival))
    batch = pa.table({"id": [2], "city": ["Bergen"], "ours": [2]})
    outcome = handle.write(batch, options=options(1))

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 2
    assert table.schema_columns() == ["id", "city", "theirs", "ours"]
