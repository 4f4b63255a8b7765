"""Topics of one name that are not one topic: made anew, or on two clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.decided_conflicts import conflict_rules
from tests.support.referee import assert_referee_agrees
from tests.workers.sink.sinks import (
    IDS,
    PAYLOAD,
    TOPIC,
    Facts,
    batch,
    config_of,
    coordinator,
    extra_of,
    ingest,
    keyed_table,
    letters_of,
    participant,
    report_of,
    rows_of,
)
from workers.errors import InvalidInput, OffsetsMissing, PlanChanged, TopicReplaced
from workers.lakehouse import open_table
from workers.read.snapshot import read_snapshot
from workers.sink.batch import BadRecord
from workers.sink.config import SinkConfig
from workers.sink.coordinator_events import Committed
from workers.sink.dead_letter_selection import (
    parse_selection,
    select_dead_letters,
    to_dead_letter_id,
)
from workers.sink.dead_letters import list_dead_letter_files
from workers.sink.offsets import Stale, StaleCause
from workers.sink.replays import Replay, claim_letters, find_sent_letters, read_replays, store_end
from workers.sink.reset import plan_reset, reset_offsets
from workers.sink.sink_commits import ID_KEY
from workers.sink.state_file import SinkState, put_state
from workers.sink.tables import APPEND_HASH, NAMED_KEY, choose_bucket_count
from workers.table.table import Table
from workers.timeline.archive import list_archived_instants

CONFIG = config_of()
ANEW = config_of(id="anew", start_offsets="earliest")


@pytest.fixture
def named(tmp_path: Path) -> Table:
    """An append-only table from before keys held the ids of topic and cluster."""
    types: dict[str, pa.DataType] = {
        "_kafka_topic": pa.string(),
        "_kafka_partition": pa.int32(),
        "_kafka_offset": pa.int64(),
        "_kafka_timestamp": pa.timestamp("us", "UTC"),
    }
    return keyed_table(
        tmp_path / "named",
        pa.schema([*pa.schema(types), *PAYLOAD]),
        record_key=NAMED_KEY,
        options={
            "hoodie.bucket.index.num.buckets": str(choose_bucket_count(TOPIC, 2)),
            "hoodie.bucket.index.hash.field": ",".join(APPEND_HASH),
        },
    )


def committed(
    table: Table, config: SinkConfig, facts: Facts, city: str, bad: BadRecord | None = None
) -> None:
    """All that partition 0 has, in one transaction; `city` says whose rows they are."""
    ledger = coordinator(table, config)
    begun = ledger.begin(facts)
    assert begun is not None
    (start, end) = begun.offsets[0], facts.watermarks[0][1]
    rows = [{"id": offset, "city": city} for offset in range(start, end)]
    written = participant(begun, table, config).written(
        batch(rows, start, bad=[bad] if bad else [])
    )
    assert isinstance(ledger.commit(begun, [report_of(begun, 0, end, written)]), Committed)


def cities(table: Table) -> dict[str, int]:
    city_rows: list[tuple[Any, ...]] = rows_of(table, "city")
    return {city: city_rows.count((city,)) for (city,) in city_rows}


def test_rows_of_a_topic_stay_when_it_is_made_anew_and_read_by_another_sink(table: Table) -> None:
    committed(table, CONFIG, Facts({0: (0, 40)}), "old")

    committed(table, ANEW, Facts({0: (0, 30)}, "topic-2"), "new")

    assert cities(table) == {"old": 40, "new": 30}


def test_two_clusters_may_have_topics_of_one_name(table: Table) -> None:
    here, there = Facts({0: (0, 60)}), Facts({0: (0, 40)}, "topic-2", "cluster-2")

    committed(table, CONFIG, here, "here")
    committed(table, ANEW, there, "there")
    open_table(table.storage.location).compact(options={"hoodie.write.markers.type": "direct"})

    assert cities(table) == {"here": 60, "there": 40}
    rows = open_table(table.storage.location).read().to_pylist()
    assert {(one["_kafka_cluster"], one["_kafka_topic_id"], one["city"]) for one in rows} == {
        ("cluster-1", "topic-1", "here"),
        ("cluster-2", "topic-2", "there"),
    }


def test_a_reset_reads_the_topic_that_was_made_anew_under_the_same_id(table: Table) -> None:
    committed(table, CONFIG, Facts({0: (0, 40)}), "old")
    anew = Facts({0: (5, 30), 1: (0, 0)}, "topic-2")
    with pytest.raises(TopicReplaced, match=r"manage\.py sink reset"):
        coordinator(table, CONFIG).begin(anew)

    plan = plan_reset(table, CONFIG, anew, "earliest")

    [first, _] = plan.partitions
    assert (first.stands, first.next, first.end) == (40, 5, 30)
    assert (plan.is_same_topic, plan.read_again, plan.passed_over) == (False, 0, 0)
    assert coordinator(table, CONFIG).load_last_commit().offsets == {0: 40}, (
        "a plan changes nothing"
    )
    reset_offsets(table, CONFIG, plan, by="ann")
    extra = extra_of(table)
    assert (extra["hoodie.sink.reset.by"], extra["kafka.commit.offsets"]) == ("ann", "0=5,1=0")
    del anew.watermarks[1]
    with pytest.raises(TopicReplaced, match="lost partitions"):
        coordinator(table, CONFIG).begin(anew)
    anew.watermarks[1] = (0, 0)
    ingest(coordinator(table, CONFIG), table, anew)
    assert len(rows_of(table)) == 40 + 25


def test_a_reset_within_a_topic_says_what_is_read_again_and_what_never(table: Table) -> None:
    facts = Facts({0: (0, 40)})
    committed(table, CONFIG, facts, "old")
    facts.produce(0, 10)

    assert plan_reset(table, CONFIG, facts, {0: 30}).read_again == 10
    assert plan_reset(table, CONFIG, facts, "latest").passed_over == 10
    with pytest.raises(InvalidInput, match="does not have this offset"):
        plan_reset(table, CONFIG, facts, {0: 51})
    with pytest.raises(InvalidInput, match="no such partitions"):
        plan_reset(table, CONFIG, facts, {0: 1, 7: 1})
    with pytest.raises(OffsetsMissing, match="committed nothing"):
        plan_reset(table, ANEW, facts, "latest")

    reset_offsets(table, CONFIG, plan_reset(table, CONFIG, facts, {0: 30}), by="ann")
    committed(table, CONFIG, facts, "again")
    assert cities(table) == {"old": 30, "again": 20}


def test_a_plan_that_was_overtaken_resets_nothing(table: Table) -> None:
    facts = Facts({0: (0, 40)})
    committed(table, CONFIG, facts, "old")
    plan = plan_reset(table, CONFIG, facts, "earliest")
    facts.produce(0, 10)
    committed(table, CONFIG, facts, "more")

    with pytest.raises(PlanChanged, match="look again"):
        reset_offsets(table, CONFIG, plan, by="ann")

    assert conflict_rules(table.storage) == ["plan_reset"]
    assert coordinator(table, CONFIG).load_last_commit().offsets == {0: 50}


def test_a_sink_that_runs_is_not_reset(table: Table) -> None:
    facts = Facts({0: (0, 40)})
    committed(table, CONFIG, facts, "old")
    now_ms = table.ports.clock.now_ms()
    put_state(table.storage, SinkState(TOPIC, TOPIC, 1, "STARTED_COMMIT", updated_ms=now_ms))

    with pytest.raises(InvalidInput, match="stop it first"):
        plan_reset(table, CONFIG, facts, "earliest")

    put_state(table.storage, SinkState(TOPIC, TOPIC, 1, "STOPPED", updated_ms=now_ms))
    assert plan_reset(table, CONFIG, facts, "earliest").offsets == {0: 0}


def test_a_table_whose_keys_tell_topics_by_name_takes_no_second_topic_of_it(named: Table) -> None:
    facts = Facts({0: (0, 40)})
    for _ in range(4):
        committed(named, CONFIG, facts, "old")
        facts.produce(0, 5)
    open_table(named.storage.location).clean({"hoodie.clean.commits.retained": "1"})
    open_table(named.storage.location).archive(
        {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}
    )
    assert list_archived_instants(named.storage)

    for other in (Facts({0: (0, 30)}, "topic-2"), Facts({0: (0, 30)}, "topic-1", "cluster-2")):
        with pytest.raises(TopicReplaced, match="create_append_table"):
            coordinator(named, ANEW).begin(other)
        with pytest.raises(TopicReplaced, match="create_append_table"):
            plan_reset(named, CONFIG, other, "earliest")

    keys = read_snapshot(named, with_meta_columns=True)
    assert keys.column("_hoodie_record_key")[0].as_py().startswith(f"_kafka_topic:{TOPIC},_kafka_p")
    assert cities(named) == {"old": 55}
    assert_referee_agrees(Path(named.storage.location))


def test_of_two_topics_of_a_name_that_begin_at_once_such_a_table_takes_one(named: Table) -> None:
    ledgers = [coordinator(named, config) for config in (CONFIG, ANEW)]
    topics = [Facts({0: (0, 4)}), Facts({0: (0, 3)}, "topic-2")]
    begun = [ledger.begin(facts) for ledger, facts in zip(ledgers, topics, strict=True)]
    results = []
    for ledger, transaction, facts in zip(ledgers, begun, topics, strict=True):
        assert transaction is not None
        end = facts.watermarks[0][1]
        rows = [{"id": n, "city": facts.topic_id} for n in range(end)]
        written = participant(transaction, named, ledger.config).written(batch(rows))
        results.append(ledger.commit(transaction, [report_of(transaction, 0, end, written)]))

    assert isinstance(results[0], Committed)
    assert isinstance(results[1], Stale)
    assert results[1].cause is StaleCause.TOPIC
    assert cities(named) == {"topic-1": 4}


def test_a_letter_of_the_topic_before_is_not_taken_for_one_of_the_topic_now(table: Table) -> None:
    committed(table, CONFIG, Facts({0: (0, 2)}), "old", BadRecord(1, b"k", b"old", "bad"))
    storage, directory = table.storage, f"{table.storage.location}-dead-letters"
    [before] = letters_of(table, CONFIG)
    replay = Replay(1, "token", "ann", 1, (to_dead_letter_id(before),), ((0, 2),))
    assert claim_letters(storage, TOPIC, replay)
    store_end(storage, TOPIC, replay, is_sent=True)
    anew = Facts({0: (0, 3)}, "topic-2")
    reset_offsets(table, CONFIG, plan_reset(table, CONFIG, anew, "earliest"), by="ann")
    committed(table, CONFIG, anew, "new", BadRecord(1, b"k", b"new", "bad"))

    sent = find_sent_letters(read_replays(storage, TOPIC))
    names = list_dead_letter_files(table, sink_key=ID_KEY, sink_id=TOPIC)
    chosen = select_dead_letters(directory, names, parse_selection(), sent)

    assert chosen.already == 1
    assert [one["value"] for one in chosen.letters.to_pylist()] == [b"new"]


def test_a_keyed_table_may_have_columns_for_where_a_version_came_from(tmp_path: Path) -> None:
    origin: dict[str, pa.DataType] = {"_kafka_cluster": pa.string(), "_kafka_topic_id": pa.string()}
    table = keyed_table(tmp_path / "t", pa.schema([*IDS, *pa.schema(origin)]))
    config = config_of(mode="upsert")
    ledger = coordinator(table, config)
    begun = ledger.begin(Facts({0: (0, 1)}))
    assert begun is not None
    rows = batch([{"id": 1, "city": "x", "ts": 1}], schema=IDS)
    written = participant(begun, table, config).written(rows)
    ledger.commit(begun, [report_of(begun, 0, 1, written)])

    assert rows_of(table, *origin) == [("cluster-1", "topic-1")]
