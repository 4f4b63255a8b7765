"""What a rollback says of its end, and what it refuses when nobody asked for more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, WatchedStorage
from workers.concurrency.late_writers import list_late_writers
from workers.errors import RollbackRefused, SnapshotChanged, UnsupportedTable
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackOutcome, RollbackRequest, rollback
from workers.timeline import decisions
from workers.timeline.decisions import CommitDecision, Decision, RollbackDecision
from workers.timeline.instant import Action

OPTIONS = write_options({})


def rolled_back(table: ScenarioTable, target: str) -> RollbackOutcome:
    return rollback(table.table, RollbackRequest(target, by="admin", reason="test"), OPTIONS)


def test_outcome_says_what_was_deleted_and_the_next_that_it_was_gone(table: ScenarioTable) -> None:
    wrong = table.writer("wrong").upsert_and_commit({"id": 1, "city": "Rome"})

    first = rolled_back(table, wrong.instant)
    second = rolled_back(table, wrong.instant)

    assert first == RollbackOutcome(
        wrong.instant,
        first.rollback_instant,
        files_deleted=1,
        is_committed=False,
        was_already_rolled_back=False,
    )
    assert second == RollbackOutcome(
        wrong.instant,
        first.rollback_instant,
        files_deleted=0,
        is_committed=False,
        was_already_rolled_back=True,
    )


def test_outcome_says_that_a_failed_write_was_committed_after_all(table: ScenarioTable) -> None:
    quick = table.writer("quick").upsert_and_commit({"id": 1, "city": "Rome"})

    request = RollbackRequest(quick.instant, by="cleaner", reason="test", is_only_pending=True)
    outcome = rollback(table.table, request, OPTIONS)

    assert outcome == RollbackOutcome(
        quick.instant, None, files_deleted=0, is_committed=True, was_already_rolled_back=False
    )
    assert table.rows() == [{"id": 1, "city": "Rome"}]


@pytest.mark.parametrize("was_committed", [True, False])
def test_outcome_of_a_rollback_whose_lock_ran_out_is_what_was_decided_before(
    table: ScenarioTable, was_committed: bool
) -> None:
    """Asleep right before it decides. Only who committed is told so, and keeps what it wrote."""
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()
    target, later = dead.last_instant, str(int(dead.last_instant) + 1)
    first: Decision = RollbackDecision("takeover", "nonce", "its lease ran out")
    if was_committed:
        first = CommitDecision(later, "nonce", "commit", "0" * 64)
    asleep = At(
        "put_if_absent",
        f"decision/{target}",
        lambda: assert_decided(table, target, first),
    )
    admin = table.writer("admin", storage=WatchedStorage(table.location, before=asleep))

    outcome = rollback(admin.table, RollbackRequest(target, by="admin", reason="test"), OPTIONS)

    by = None if was_committed else "takeover"
    assert outcome == RollbackOutcome(
        target, by, is_committed=was_committed, was_already_rolled_back=not was_committed
    )
    assert Action.ROLLBACK not in {one.action for one in table.instants()}
    if was_committed:
        table.storage.delete(decisions.get_decision_path(target))  # Without content.


def assert_decided(table: ScenarioTable, target: str, decision: Decision) -> None:
    assert decisions.decide(table.storage, target, decision)


def test_living_writer_is_left_alone_unless_somebody_insists(table: ScenarioTable) -> None:
    busy = table.writer("busy").upsert({"id": 1, "city": "Oslo"})

    with pytest.raises(RollbackRefused, match="alive"):
        rolled_back(table, busy.last_instant)

    busy.wins()


def test_table_that_may_not_be_written_is_not_rolled_back(table: ScenarioTable) -> None:
    dead = table.writer("dead").upsert({"id": 1, "city": "Oslo"})
    dead.dies()
    refused = replace(table.table, write_refusal="it is of a version to come")
    before = table.listing()

    with pytest.raises(UnsupportedTable, match="version to come"):
        rollback(refused, RollbackRequest(dead.last_instant, by="admin", reason="test"), OPTIONS)

    assert table.listing() == before


def test_writer_that_may_still_be_at_a_file_is_noted(table: ScenarioTable) -> None:
    """Whoever cleans later looks for what it wrote; not so of one that has ended, or committed."""
    done = table.writer("done").upsert_and_commit({"id": 1, "city": "Oslo"})
    dead, ended = (table.writer(name).upsert({"id": 2, "city": "Oslo"}) for name in ("a", "b"))
    for writer in (dead, ended):
        writer.dies()

    rolled_back(table, dead.last_instant)
    request = RollbackRequest(
        ended.last_instant, by="admin", reason="test", writer_has_ended=True, is_forced=True
    )
    rollback(table.table, request, OPTIONS)
    rolled_back(table, done.instant)

    noted = [one.instant for one in list_late_writers(table.storage)]
    assert noted == [dead.last_instant]


@pytest.mark.parametrize("index", ["SIMPLE", "BUCKET"])
def test_write_that_reads_what_is_rolled_back_beside_it_says_so(
    index: str, tables: ScenarioTables
) -> None:
    table = tables(
        schema=READINGS, table_type="MERGE_ON_READ", options={"hoodie.index.type": index}
    )
    row = {"id": "a", "place": "Oslo", "ts": 1, "value": 1, "note": "first"}
    first = table.writer("ours").upsert_and_commit(row)
    undone: list[RollbackOutcome] = []
    undo = At("open_data", ".parquet", lambda: undone.append(rolled_back(table, first.instant)))
    opened = open_table(table.location, storage=WatchedStorage(table.location, before=undo))

    with pytest.raises(SnapshotChanged, match="rolled back meanwhile; write again"):
        opened.delete(predicate="value = 1", options={"hoodie.write.markers.type": "direct"})

    assert table.rows() == []
    assert not list(table.table.timeline().pending())
