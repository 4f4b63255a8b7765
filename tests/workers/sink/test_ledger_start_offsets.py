"""Where the sink stands, behind whatever came since, and where it begins."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.scenario_table import schema_of
from tests.workers.sink.sinks import (
    IDS,
    TOPIC,
    Facts,
    all_below,
    batch,
    config_of,
    coordinates,
    coordinator,
    extra_of,
    ingest,
    keyed_table,
    participant,
    report_of,
    reports,
    rows_of,
)
from workers.errors import (
    InvalidInput,
    MalformedTable,
    OffsetExpired,
    OffsetsMissing,
    TopicReplaced,
)
from workers.lakehouse import open_table
from workers.recovery.rollback import RollbackRequest, rollback
from workers.schema.alter import DropColumn
from workers.schema.table_schema import TableSchema
from workers.sink.coordinator_events import Committed
from workers.sink.offsets import SinkCommit
from workers.sink.sink_commits import (
    EPOCH_KEY,
    ID_KEY,
    OFFSETS_KEY,
    TOPIC_ID_KEY,
    TOPIC_KEY,
    parse_sink_commit,
    read_committed_offsets,
)
from workers.table.table import Table

CONFIG = config_of()
DIRECT = {"hoodie.write.markers.type": "direct"}
KEEP_TWO = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}


def test_new_fields_become_columns_and_the_next_transaction_has_them(
    table: Table, facts: Facts
) -> None:
    ledger = coordinator(table, CONFIG)
    wanted = schema_of(city=pa.string(), price=pa.float64())
    avro = TableSchema.from_arrow(wanted, table_name="orders").avro_json

    ledger.evolve(avro)
    ledger.evolve(avro)

    begun = ledger.begin(facts)
    assert begun is not None
    assert TableSchema.from_avro_json(begun.schema).field_names[-1] == "price"
    assert ledger.load_last_commit().offsets == {}
    ledger.commit(begun, reports(begun, table, CONFIG, facts))
    assert coordinates(table) == all_below(facts)


def test_a_column_that_was_dropped_is_not_brought_back_by_records(
    table: Table, facts: Facts
) -> None:
    ledger = coordinator(table, CONFIG)
    ingest(ledger, table, facts)
    open_table(table.storage.location).alter(DropColumn("city"), options=DIRECT)

    with pytest.raises(InvalidInput, match="city"):
        ledger.evolve(TableSchema.from_arrow(schema_of(city=pa.string()), table_name="x").avro_json)


# Begin ---------------------------------------------------------------------------------------


def test_a_table_with_rows_and_without_offsets_needs_to_be_told_from_where(tmp_path: Path) -> None:
    table = keyed_table(tmp_path / "t", IDS)
    open_table(tmp_path / "t").write(
        pa.table({"id": [1], "city": ["x"], "ts": [1]}, IDS), options=DIRECT
    )
    facts = Facts({0: (2, 9), 1: (0, 4)})

    with pytest.raises(OffsetsMissing, match=r"hoodie\.kafka\.start\.offsets"):
        coordinator(table, config_of(mode="upsert")).begin(facts)

    for given, expected in [("earliest", {0: 2, 1: 0}), ('{"0": 5, "1": 4}', {0: 5, 1: 4})]:
        ledger = coordinator(table, config_of(mode="upsert", start_offsets=given))
        begun = ledger.begin(facts)
        assert begun is not None
        assert dict(begun.offsets) == expected
        ledger.abort(begun, "test")


def test_latest_stays_where_it_was_until_the_first_commit(table: Table) -> None:
    facts = Facts({0: (0, 5)})
    ledger = coordinator(table, config_of(start_offsets="latest"))
    assert ledger.begin(facts) is None

    facts.produce(0, 3)
    ingest(ledger, table, facts)

    assert coordinates(table) == [(0, 5), (0, 6), (0, 7)]


def test_latest_outlives_the_coordinator_that_looked_first(table: Table) -> None:
    """Records that came after the sink was started are read, though it died before a commit."""
    facts = Facts({0: (0, 5)})
    latest = config_of(start_offsets="latest")
    assert coordinator(table, latest).begin(facts) is None
    facts.produce(0, 3)
    facts.produce(1, 2)  # A partition that was added since: all of it is new.

    ingest(coordinator(table, latest), table, facts)

    assert coordinates(table) == [(0, 5), (0, 6), (0, 7), (1, 0), (1, 1)]


def test_a_first_look_that_is_damaged_is_told_and_not_looked_past(table: Table) -> None:
    table.storage.put(".hoodie/.sluice/sink/orders/first-look", b"{}")

    with pytest.raises(MalformedTable, match="first looked is damaged"):
        coordinator(table, config_of(start_offsets="latest")).begin(Facts({0: (0, 5)}))


def test_lost_records_stop_the_sink_or_are_told_in_the_commit(table: Table, facts: Facts) -> None:
    ingest(coordinator(table, CONFIG), table, facts)
    gone = Facts({0: (8, 10), 1: (0, 4)})
    with pytest.raises(OffsetExpired, match=r"partition=0 next=5 first=8 lost=3"):
        coordinator(table, CONFIG).begin(gone)

    lenient = coordinator(table, config_of(on_expired="earliest"))
    result = ingest(lenient, table, gone)

    assert result == Committed({0: 10, 1: 4})
    assert extra_of(table)["hoodie.sink.lost.offsets"] == "0=5-8"
    assert extra_of(table)["hoodie.sink.start.offsets"] == "0=8,1=3"
    assert (0, 7) not in coordinates(table)
    assert (0, 8) in coordinates(table)


REPLACED = {
    "was created again": (Facts({0: (0, 9), 1: (0, 9)}, "topic-2"), "deleted and created again"),
    "ends before": (Facts({0: (0, 4), 1: (0, 9)}), "ends before the next offset"),
    "lost a partition": (Facts({0: (0, 9)}), "lost partitions"),
}


@pytest.mark.parametrize(("facts_now", "said"), REPLACED.values(), ids=REPLACED)
def test_a_topic_that_is_not_the_one_of_the_offsets_is_not_read(
    table: Table, facts: Facts, facts_now: Facts, said: str
) -> None:
    ingest(coordinator(table, CONFIG), table, facts)

    with pytest.raises(TopicReplaced, match=said):
        coordinator(table, CONFIG).begin(facts_now)

    other = config_of(id="orders", topic="payments")
    with pytest.raises(TopicReplaced, match="offsets are of another topic"):
        coordinator(table, other).begin(facts)
    assert list(table.timeline().pending()) == []


def test_offsets_are_found_behind_other_writers_services_and_archiving(tmp_path: Path) -> None:
    table = keyed_table(tmp_path / "t", IDS)
    config = config_of(mode="upsert")
    ledger = coordinator(table, config)
    begun = ledger.begin(Facts({0: (0, 2)}))
    assert begun is not None
    rows = [{"id": 1, "city": "x", "ts": 1}, {"id": 2, "city": "x", "ts": 1}]
    written = participant(begun, table, config).written(batch(rows, schema=IDS))
    ledger.commit(begun, [report_of(begun, 0, 2, written)])
    other = open_table(tmp_path / "t")
    expected = SinkCommit({0: 2}, 1, begun.instant, TOPIC, "topic-1")

    for number in range(4):
        other.write(pa.table({"id": [number], "city": ["y"], "ts": [2]}, IDS), options=DIRECT)
        assert coordinator(table, config).load_last_commit() == expected
    other.compact()
    other.clean({"hoodie.clean.commits.retained": "1"})
    other.cluster(["city"])
    assert coordinator(table, config).load_last_commit() == expected
    for number in range(4):
        other.write(pa.table({"id": [number], "city": ["z"], "ts": [3]}, IDS), options=DIRECT)
    other.compact()
    other.archive(KEEP_TWO)

    assert begun.instant not in [one.requested_at for one in other.timeline()]
    assert ledger.load_last_commit() == coordinator(table, config).load_last_commit() == expected
    assert coordinator(table, config).begin(Facts({0: (0, 2)})) is None


def test_several_sinks_of_one_table_do_not_see_each_others_offsets(tmp_path: Path) -> None:
    table = keyed_table(tmp_path / "t", IDS)
    configs = [config_of(mode="upsert", id=name) for name in ("first", "second")]
    facts = Facts({0: (0, 3)})

    for number, config in enumerate(configs):
        options = config_of(mode="upsert", id=config.sink_id, start_offsets="earliest")
        ledger = coordinator(table, options)
        begun = ledger.begin(facts)
        assert begun is not None
        rows = [{"id": 10 * number, "city": config.sink_id, "ts": 1}]
        written = participant(begun, table, options).written(batch(rows, schema=IDS))
        assert ledger.commit(begun, [report_of(begun, 0, number + 1, written)]) == Committed(
            {0: number + 1}
        )

    assert [dict(coordinator(table, one).load_last_commit().offsets) for one in configs] == [
        {0: 1},
        {0: 2},
    ]
    assert rows_of(table, "id", "city") == [(0, "first"), (10, "second")]


def test_a_commit_that_lost_its_keys_is_an_error_and_never_an_empty_map(
    table: Table, facts: Facts
) -> None:
    with pytest.raises(MalformedTable, match="lacks what says where it stands"):
        parse_sink_commit({ID_KEY: "orders"}, "orders", "1")
    with pytest.raises(MalformedTable):
        parse_sink_commit({ID_KEY: "orders", OFFSETS_KEY: "0=x"}, "orders", "1")
    assert parse_sink_commit({OFFSETS_KEY: "0=7"}, "orders", "1") is None
    ledger = coordinator(table, CONFIG)
    ingest(ledger, table, facts)
    whole = extra_of(table)
    assert parse_sink_commit(whole, CONFIG.sink_id, "1") is not None
    for key in (OFFSETS_KEY, EPOCH_KEY, TOPIC_KEY, TOPIC_ID_KEY):
        with pytest.raises(MalformedTable, match="lacks what says where it stands"):
            parse_sink_commit(
                {name: whole[name] for name in whole if name != key}, CONFIG.sink_id, "1"
            )


def test_offsets_of_a_decided_commit_that_has_none_are_an_error_and_never_an_empty_map(
    table: Table, facts: Facts, tmp_path: Path
) -> None:
    ledger = coordinator(table, CONFIG)
    ingest(ledger, table, facts)
    of_the_sink = table.timeline().list_completed_writes()[-1].requested_at
    other = keyed_table(tmp_path / "other", IDS)
    open_table(tmp_path / "other").write(
        pa.table({"id": [1], "city": ["x"], "ts": [1]}, IDS), options=DIRECT
    )
    of_nobody = other.timeline().list_completed_writes()[-1].requested_at

    assert read_committed_offsets(table, of_the_sink) == dict(ledger.load_last_commit().offsets)
    with pytest.raises(MalformedTable, match="lacks its offsets"):
        read_committed_offsets(other, of_nobody)


def test_a_commit_that_an_operator_took_back_counts_no_more(table: Table, facts: Facts) -> None:
    ledger = coordinator(table, CONFIG)
    ingest(ledger, table, facts)
    facts.produce(0, 2)
    ingest(ledger, table, facts)
    newest = table.timeline().list_completed_writes()[-1].requested_at

    rollback(table, RollbackRequest(newest, by="admin", reason="test"), ledger.options)

    assert ledger.load_last_commit().offsets == {0: 5, 1: 3}
    ingest(ledger, table, facts)
    assert coordinates(table) == all_below(facts)
