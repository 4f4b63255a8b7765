"""The coordinator's ledger: who may commit, and what a commit tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.decided_conflicts import conflict_rules
from tests.support.foreign_properties import METADATA_OFF, METADATA_ON, change_as_hudi
from tests.workers.sink.sinks import (
    IDS,
    TOPIC,
    Facts,
    all_below,
    config_of,
    coordinates,
    coordinator,
    extra_of,
    ingest,
    keyed_table,
    report_of,
    reports,
)
from workers.errors import SinkFenced, UnsupportedTable
from workers.lakehouse import open_table
from workers.sink.coordinator_events import CommitFailed, Committed
from workers.sink.ledger import SinkLedger
from workers.sink.offsets import Stale, StaleCause
from workers.sink.sink_commits import OFFSETS_KEY
from workers.table.table import Table
from workers.table_layout import HEARTBEATS

CONFIG = config_of()


def test_a_commit_tells_the_offsets_in_hudis_key_and_ours_beside_it(
    table: Table, facts: Facts
) -> None:
    result = ingest(coordinator(table, CONFIG), table, facts)

    assert result == Committed({0: 5, 1: 3})
    extra = extra_of(table)
    assert extra[OFFSETS_KEY] == "0=5,1=3"
    expected = {
        "hoodie.sink.id": "orders",
        "hoodie.sink.epoch": "1",
        "hoodie.sink.topic": TOPIC,
        "hoodie.sink.topic.id": "topic-1",
        "hoodie.sink.start.offsets": "0=0,1=0",
        "hoodie.sink.valid.through.ts": "1700000000002",
        "hoodie.sink.gaps": "0",
        "hoodie.sink.dlq.count": "0",
        "hoodie.sink.left.out": "0",
    }
    assert expected.items() <= extra.items()
    assert coordinates(table) == all_below(facts)


def test_the_next_transaction_begins_where_the_last_one_ended(table: Table, facts: Facts) -> None:
    ledger = coordinator(table, CONFIG)
    ingest(ledger, table, facts)
    assert ledger.begin(facts) is None

    facts.produce(1, 4)
    begun = ledger.begin(facts)

    assert begun is not None
    assert dict(begun.offsets) == {0: 5, 1: 3}
    ledger.commit(begun, reports(begun, table, CONFIG, facts))
    assert coordinates(table) == all_below(facts)


def test_the_map_keeps_partitions_that_a_transaction_did_not_read(
    table: Table, facts: Facts
) -> None:
    ledger = coordinator(table, CONFIG)
    ingest(ledger, table, facts)
    begun = ledger.begin(Facts({0: (0, 9), 1: (0, 3), 2: (4, 6)}))
    assert begun is not None
    assert dict(begun.offsets) == {0: 5, 1: 3, 2: 4}

    ends = {0: 9, 1: 3, 2: 6}
    result = ledger.commit(begun, [report_of(begun, one, end) for one, end in ends.items()])

    assert result == Committed(ends)
    assert ledger.load_last_commit().offsets == ends


def test_a_sink_stops_for_a_person_once_another_engine_keeps_a_metadata_table(
    table: Table, facts: Facts
) -> None:
    """Also with a transaction that it had begun: Hudi would not see its files."""
    ledger, location = coordinator(table, CONFIG), Path(table.storage.location)
    ingest(ledger, table, facts)
    coordinates_before = coordinates(table)
    facts.produce(1, 4)
    begun = ledger.begin(facts)
    assert begun is not None
    change_as_hudi(location, METADATA_ON)

    result = ledger.commit(begun, reports(begun, table, CONFIG, facts))

    assert isinstance(result, CommitFailed)
    assert "active metadata table" in result.reason
    with pytest.raises(UnsupportedTable, match="active metadata table"):
        ledger.begin(facts)
    change_as_hudi(location, METADATA_OFF)
    assert coordinates(table) == coordinates_before
    assert ledger.begin(facts) is not None


# Who may commit (KS3, KS4, K7) ---------------------------------------------------------------


def test_a_coordinator_that_was_overtaken_cannot_commit_what_it_has(
    table: Table, facts: Facts
) -> None:
    old = coordinator(table, CONFIG, "old")
    begun = old.begin(facts)
    assert begun is not None
    all_of_them = reports(begun, table, CONFIG, facts)
    new = coordinator(table, CONFIG, "new")

    result = old.commit(begun, all_of_them)

    assert isinstance(result, Stale)
    assert result.cause is StaleCause.EPOCH
    assert coordinates(table) == []
    ingest(new, table, facts)
    assert coordinates(table) == all_below(facts)


def test_a_new_coordinator_takes_back_what_the_old_one_left_at_once(
    table: Table, facts: Facts
) -> None:
    old = coordinator(table, CONFIG, "old")
    begun = old.begin(facts)
    assert begun is not None
    all_of_them = reports(begun, table, CONFIG, facts)

    new = coordinator(table, CONFIG, "new")
    again = new.begin(facts)

    assert again is not None
    assert [one.requested_at for one in table.timeline().pending()] == [again.instant]
    assert isinstance(old.commit(begun, all_of_them), CommitFailed)
    with pytest.raises(SinkFenced, match="ours=1 newest=2"):
        old.begin(facts)
    new.commit(again, reports(again, table, CONFIG, facts, "q"))
    assert coordinates(table) == all_below(facts)


def test_a_coordinator_takes_back_its_own_transaction_that_it_could_not_abort(
    table: Table, facts: Facts
) -> None:
    ledger = coordinator(table, CONFIG)
    left = ledger.begin(facts)
    assert left is not None

    begun = ledger.begin(facts)

    assert begun is not None
    assert [one.requested_at for one in table.timeline().pending()] == [begun.instant]
    ledger.abort(begun, "end of test")


def test_the_transactions_of_other_sinks_and_writers_are_left_alone(tmp_path: Path) -> None:
    table = keyed_table(tmp_path / "t", IDS)
    other = config_of(mode="upsert", id="other")
    theirs = coordinator(table, other).begin(Facts({0: (0, 3)}))
    assert theirs is not None

    ours = coordinator(table, config_of(mode="upsert")).begin(Facts({0: (0, 3)}))

    assert ours is not None
    pending = [one.requested_at for one in table.timeline().pending()]
    assert pending == [theirs.instant, ours.instant]


def test_of_two_transactions_from_the_same_offsets_one_is_committed(
    table: Table, facts: Facts
) -> None:
    """Even when nothing but the offsets tells them apart."""
    config = CONFIG
    ledgers = [coordinator(table, config)]
    twin = open_table(table.storage.location).table
    ledgers.append(SinkLedger(twin, config, ledgers[0].epoch, ledgers[0].options))
    first = ledgers[0].begin(facts)
    assert first is not None
    # The twin's transaction begins without seeing the first one's.
    beat = HEARTBEATS.file(first.instant)
    kept = table.storage.read(beat)
    table.storage.delete(beat)
    second = ledgers[1].begin(facts)
    table.storage.put(beat, kept)
    assert second is not None

    results = [
        ledgers[0].commit(first, reports(first, table, config, facts, "a")),
        ledgers[1].commit(second, reports(second, table, config, facts, "b")),
    ]

    assert results[0] == Committed({0: 5, 1: 3})
    assert isinstance(results[1], Stale)
    assert results[1].cause is StaleCause.OFFSETS
    assert conflict_rules(table.storage) == ["check_commit"]
    assert "began from 0=nothing, 1=nothing, but now stands 0=5, 1=3" in results[1].reason
    assert coordinates(table) == all_below(facts)
    assert list(table.timeline().pending()) == []


def test_an_epoch_file_that_is_gone_stops_the_coordinator(table: Table, facts: Facts) -> None:
    ledger = coordinator(table, CONFIG)
    table.storage.delete_tree(".hoodie/.sluice/sink")

    with pytest.raises(SinkFenced, match="epoch is gone"):
        ledger.begin(facts)


def test_a_transaction_of_a_higher_epoch_stops_the_coordinator(table: Table, facts: Facts) -> None:
    old = coordinator(table, CONFIG)
    kept = table.storage.read(".hoodie/.sluice/sink/orders/epoch")
    new = coordinator(table, CONFIG)
    begun = new.begin(facts)
    assert begun is not None
    table.storage.put(".hoodie/.sluice/sink/orders/epoch", kept)  # As if it had not been told yet.

    with pytest.raises(SinkFenced, match="has begun a transaction"):
        old.begin(facts)

    new.abort(begun, "end of test")


# Reports (KS5) -------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["one is missing", "one is there twice", "one is a stray"])
def test_reports_that_are_not_one_of_each_partition_commit_nothing(
    table: Table, facts: Facts, which: str
) -> None:
    ledger = coordinator(table, CONFIG)
    begun = ledger.begin(facts)
    assert begun is not None
    good = reports(begun, table, CONFIG, facts)
    given = {
        "one is missing": good[:1],
        "one is there twice": [*good, good[0]],
        "one is a stray": [good[0], report_of(begun, 0, 5)],
    }[which]

    result = ledger.commit(begun, given)

    assert isinstance(result, CommitFailed)
    assert "one of each partition" in result.reason
    assert coordinates(table) == []
    assert list(table.timeline().pending()) == []


def test_a_report_that_names_anothers_file_commits_nothing(table: Table, facts: Facts) -> None:
    ledger = coordinator(table, CONFIG)
    begun = ledger.begin(facts)
    assert begun is not None
    old = reports(begun, table, CONFIG, facts)
    ledger.abort(begun, "test")
    again = ledger.begin(facts)
    assert again is not None

    result = ledger.commit(again, old)

    assert isinstance(result, CommitFailed)
    assert "file of another instant" in result.reason


def test_a_transaction_without_records_moves_the_offsets(table: Table) -> None:
    """All that was between was left out by the broker, such as markers of transactions."""
    ledger = coordinator(table, CONFIG)
    begun = ledger.begin(Facts({0: (0, 5)}))
    assert begun is not None

    result = ledger.commit(begun, [report_of(begun, 0, 5, gaps=5)])

    assert result == Committed({0: 5})
    assert extra_of(table)["hoodie.sink.gaps"] == "5"
    assert "hoodie.sink.valid.through.ts" not in extra_of(table)


def test_an_empty_transaction_is_begun_only_when_asked_for(table: Table) -> None:
    empty = Facts({0: (0, 0)})
    assert coordinator(table, CONFIG).begin(empty) is None

    ledger = coordinator(table, config_of(commit_empty="true"))
    begun = ledger.begin(empty)

    assert begun is not None
    assert ledger.commit(begun, [report_of(begun, 0, 0)]) == Committed({0: 0})
