"""Storage fails, or takes the decision and loses the answer: the coordinator settles what stands
before it begins again (KS7).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.referee import assert_referee_agrees
from tests.support.watched_storage import At, WatchedStorage, fails, nobody
from tests.workers.sink.sinks import (
    Facts,
    all_below,
    append_table,
    config_of,
    coordinates,
    ingest,
    reports,
)
from workers.errors import LockTimeout, StorageFailed, WriteOutcomeUnknown
from workers.lakehouse import open_table
from workers.sink.context import sink_write_options
from workers.sink.coordinator_events import CommitFailed, Committed, CommitUnknown
from workers.sink.epoch import acquire_epoch
from workers.sink.ledger import SinkLedger, SinkTransaction
from workers.table.table import Table

CONFIG = config_of()
FACTS = Facts({0: (0, 5), 1: (0, 3)})
DECISION, COMPLETED = ".sluice/decision/", ".deltacommit"
Watch = Callable[[str, str], None]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return append_table(tmp_path / "t")


def begun_on(
    table: Table, *, before: Watch = nobody, after: Watch = nobody
) -> tuple[SinkLedger, SinkTransaction]:
    location = Path(table.storage.location)
    storage = WatchedStorage(location, before=before, after=after)
    own = open_table(location, storage=storage).table
    epoch = acquire_epoch(storage, CONFIG.sink_id, own.ports, owner="unlucky")
    ledger = SinkLedger(own, CONFIG, epoch, sink_write_options(CONFIG, str(location)))
    begun = ledger.begin(FACTS)
    assert begun is not None
    return ledger, begun


def watched_of(ledger: SinkLedger) -> WatchedStorage:
    watched = ledger.table.storage
    assert isinstance(watched, WatchedStorage)
    return watched


def committed_instants(table: Table) -> list[str]:
    return [one.requested_at for one in table.timeline().list_completed_writes()]


def goes_on(ledger: SinkLedger, table: Table) -> None:
    """In the end each record is there once."""
    ingest(ledger, table, FACTS)
    assert coordinates(table) == all_below(FACTS)
    assert list(table.timeline().pending()) == []
    assert_referee_agrees(table.storage.location)


def test_a_decision_whose_answer_is_lost_for_long_is_found_to_stand(table: Table) -> None:
    lost = At("put_if_absent", DECISION, fails(WriteOutcomeUnknown("answer lost")))
    unread = At("read", DECISION, fails(StorageFailed("503")), times=99)
    is_out = [False]

    def before(call: str, path: str) -> None:
        if lost.hits and is_out[0]:
            unread(call, path)

    ledger, begun = begun_on(table, before=before, after=lost)
    is_out[0] = True

    result = ledger.commit(begun, reports(begun, table, CONFIG, FACTS))

    assert isinstance(result, CommitUnknown)
    assert isinstance(ledger.settle(begun), CommitUnknown)
    is_out[0] = False
    assert ledger.settle(begun) == Committed({0: 5, 1: 3})
    assert ledger.begin(FACTS) is None
    goes_on(ledger, table)


def test_a_decision_that_never_arrived_is_settled_against_it(table: Table) -> None:
    failing = At("put_if_absent", DECISION, fails(StorageFailed("503")), times=3)
    ledger, begun = begun_on(table, before=failing)

    result = ledger.commit(begun, reports(begun, table, CONFIG, FACTS))

    assert isinstance(result, CommitUnknown)
    assert isinstance(ledger.settle(begun), CommitFailed)
    assert list(table.timeline().pending()) == []
    assert coordinates(table) == []
    goes_on(ledger, table)


def test_a_commit_that_was_decided_and_not_published_is_published(table: Table) -> None:
    failing = At("put_if_absent", COMPLETED, fails(StorageFailed("503")))
    ledger, begun = begun_on(table)
    watched = watched_of(ledger)
    watched.watch(before=failing)

    result = ledger.commit(begun, reports(begun, table, CONFIG, FACTS))

    assert failing.hits == 1
    assert result == Committed({0: 5, 1: 3})
    assert ledger.settle(begun) == result
    goes_on(ledger, table)


def test_what_fails_after_the_decision_does_not_undo_the_commit(table: Table) -> None:
    """Bug K5: the rest of the commit throws, and the transaction is not read a second time."""
    sweep = At("list_files", ".hoodie/.heartbeat", fails(StorageFailed("503")))
    ledger, begun = begun_on(table)
    watched = watched_of(ledger)
    watched.watch(before=sweep)

    result = ledger.commit(begun, reports(begun, table, CONFIG, FACTS))

    assert sweep.hits == 1
    assert result == Committed({0: 5, 1: 3})
    goes_on(ledger, table)


def test_a_commit_whose_markers_cannot_be_removed_stands(table: Table) -> None:
    stuck = At("delete_tree", ".hoodie/.temp", fails(StorageFailed("503")))
    ledger, begun = begun_on(table, before=stuck)

    assert ledger.commit(begun, reports(begun, table, CONFIG, FACTS)) == Committed({0: 5, 1: 3})

    assert stuck.hits == 1
    goes_on(ledger, table)


def busy(call: str, path: str) -> None:
    """The table lock stays with somebody else."""
    if call in ("put_if_absent", "replace_if_match") and ".hoodie/.locks" in path:
        raise LockTimeout("busy")


def test_a_commit_that_does_not_get_the_lock_is_tried_again_and_nothing_is_read_twice(
    table: Table,
) -> None:
    ledger, begun = begun_on(table)
    watched = watched_of(ledger)
    all_reports = reports(begun, table, CONFIG, FACTS)

    watched.watch(before=busy)
    assert ledger.commit(begun, all_reports) == CommitFailed("busy", can_retry=True)
    assert ledger.commit(begun, all_reports) == CommitFailed("busy", can_retry=True)
    watched.watch(before=nobody)
    result = ledger.commit(begun, all_reports)

    assert result == Committed({0: 5, 1: 3})
    assert committed_instants(table)[-1] == begun.instant
    goes_on(ledger, table)


def test_a_transaction_that_never_got_the_lock_is_taken_back_by_the_next_begin(
    table: Table,
) -> None:
    ledger, begun = begun_on(table)
    watched = watched_of(ledger)
    watched.watch(before=busy)
    assert isinstance(ledger.commit(begun, reports(begun, table, CONFIG, FACTS)), CommitFailed)

    ledger.abort(begun, "three tries")

    assert [one.requested_at for one in table.timeline().pending()] == [begun.instant]
    watched.watch(before=nobody)
    goes_on(ledger, table)


def test_a_coordinator_that_was_overtaken_while_it_waited_for_the_lock_commits_nothing(
    table: Table,
) -> None:
    ledger, begun = begun_on(table)
    watched = watched_of(ledger)
    all_reports = reports(begun, table, CONFIG, FACTS)
    watched.watch(before=busy)
    ledger.commit(begun, all_reports)
    watched.watch(before=nobody)
    later, _ = begun_on(table)

    result = ledger.commit(begun, all_reports)

    assert isinstance(result, CommitFailed)
    assert not result.can_retry
    goes_on(later, table)
