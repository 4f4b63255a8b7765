"""What a participant writes in append mode: rows, keys, contexts, files of several flushes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.referee import assert_referee_agrees
from tests.support.scenario_table import schema_of
from tests.workers.sink.sinks import (
    AT_MS,
    ENDS,
    IDS,
    PAYLOAD,
    TOPIC,
    Facts,
    append_table,
    batch,
    config_of,
    context_of,
    coordinator,
    keyed_table,
    letters_of,
    participant,
    report_of,
    rows_of,
    source_of,
    write,
    writer_of,
)
from workers.errors import InstantRolledBack, InvalidInput
from workers.files.meta_columns import COMMIT_SEQNO
from workers.lakehouse import open_table
from workers.read.snapshot import read_snapshot
from workers.sink.batch import BadRecord, Tombstone
from workers.sink.context import SinkContexts, sink_write_options
from workers.sink.ledger import SinkLedger, SinkTransaction
from workers.sink.tables import APPEND_KEY, append_bucket, check_sink_table, choose_bucket_count
from workers.table.table import Table
from workers.write.context import WriteContext


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = append_table(tmp_path / "t")
    yield made
    assert_referee_agrees(tmp_path / "t")


def test_an_appended_record_is_a_row_under_the_key_of_where_it_came_from(table: Table) -> None:
    config = config_of()

    write(table, config, batch([{"id": 7, "city": "Oslo"}, {"id": 7, "city": "Oslo"}], first=5))

    rows = read_snapshot(table, with_meta_columns=True).to_pylist()
    assert [row["_hoodie_record_key"] for row in rows] == [
        f"_kafka_cluster:cluster-1,_kafka_topic:{TOPIC},_kafka_topic_id:topic-1,"
        f"_kafka_partition:0,_kafka_offset:{offset}"
        for offset in (5, 6)
    ]
    assert {(row["id"], row["city"]) for row in rows} == {(7, "Oslo")}
    assert [row["_kafka_timestamp"].timestamp() * 1000 for row in rows] == [AT_MS + 5, AT_MS + 6]


def test_the_short_way_to_keys_and_buckets_agrees_with_the_long_one(table: Table) -> None:
    from workers.sink.append_mode import AppendPreparer
    from workers.sink.pending_rows import PendingRows
    from workers.write.groups import row_groups
    from workers.write.prepare import prepare

    begun = coordinator(table, config_of()).begin(Facts({3: (0, 9)}))
    assert begun is not None
    held = PendingRows()
    held.add(batch([{"id": n, "city": "x"} for n in range(40)], first=98))

    source = source_of(config_of(), 3)
    [ours] = AppendPreparer(begun.transaction.context, source).prepare_rows(held).groups

    plain = ours.rows.drop_columns(["_hoodie_record_key"])
    [theirs] = row_groups(prepare(begun.transaction.context, plain))
    assert ours.slot == theirs.slot
    assert ours.rows.equals(theirs.rows)


def test_records_of_a_partition_lie_in_one_file_group_in_the_order_of_their_offsets(
    table: Table,
) -> None:
    config = config_of(buffer_max_bytes=str(1 << 20))
    rows = [{"id": n, "city": "x" * 3000} for n in range(1000)]

    write(table, config, *(batch(rows[at : at + 100], at) for at in range(0, 1000, 100)), end=1000)

    [group] = open_table(table.storage.location).file_groups()
    assert len(group.log_files) > 2
    snapshot = read_snapshot(table, with_meta_columns=True)
    assert snapshot.column("_kafka_offset").to_pylist() == list(range(1000))
    numbers = [
        int(str(one).rpartition("_")[2]) for one in snapshot.column(COMMIT_SEQNO).to_pylist()
    ]
    assert numbers == list(range(1000))


def test_a_tombstone_is_a_row_without_a_value_where_rows_are_appended(table: Table) -> None:
    tombstones = [Tombstone(1, b"k", AT_MS), Tombstone(3, None)]

    write(
        table,
        config_of(),
        batch(
            [{"id": 0, "city": "a"}, {"id": 2, "city": "b"}], offsets=[0, 2], tombstones=tombstones
        ),
    )

    assert rows_of(table, "_kafka_offset", "id", "city") == [
        (0, 0, "a"),
        (1, None, None),
        (2, 2, "b"),
        (3, None, None),
    ]


def test_records_below_the_start_are_passed_over(table: Table) -> None:
    config = config_of(start_offsets='{"0": 3}')
    bad = [BadRecord(1, None, b"x", "bad"), BadRecord(5, None, b"y", "bad")]

    write(table, config, batch([{"id": n} for n in range(5)], bad=bad))

    assert rows_of(table, "_kafka_offset") == [(3,), (4,)]
    assert [one["_kafka_offset"] for one in letters_of(table, config)] == [5]


def test_partitions_of_the_table_are_made_of_the_payload(tmp_path: Path) -> None:
    table = append_table(tmp_path / "t", partition_by=["city"])
    rows = [{"id": n, "city": "AB"[n % 2]} for n in range(6)]

    write(table, config_of(), batch(rows))

    assert sorted(one.partition for one in open_table(tmp_path / "t").file_groups()) == ["A", "B"]
    assert rows_of(table, "id", "city") == [(n, "AB"[n % 2]) for n in range(6)]
    assert_referee_agrees(tmp_path / "t")


def test_what_a_participant_makes_of_a_start_equals_the_coordinators_context(
    tmp_path: Path,
) -> None:
    for name, config in (("append", config_of()), ("keyed", config_of(mode="upsert"))):
        where = tmp_path / name
        table = append_table(where) if name == "append" else keyed_table(where, IDS)
        ledger = coordinator(table, config)
        for end in (2, 4):  # Once with nothing in the table, once with file groups.
            begun = ledger.begin(ENDS)
            assert begun is not None
            context = context_of(table, config, begun.instant, begun.schema, begun.read_at)
            assert context == elsewhere(begun)
            rows = [{"id": n, "city": "x"} for n in range(end - 2, end)]
            schema = PAYLOAD if name == "append" else IDS
            written = participant(begun, table, config).written(batch(rows, end - 2, schema=schema))
            ledger.commit(begun, [report_of(begun, 0, end, written)])


def elsewhere(begun: SinkTransaction) -> WriteContext:
    """The coordinator's context, in a process that the heartbeat does not name."""
    return replace(begun.transaction.context, begun_in=None)


def test_a_participant_does_not_see_what_came_after_the_transaction_began(tmp_path: Path) -> None:
    table, config = keyed_table(tmp_path / "t", IDS), config_of(mode="upsert")
    begun = coordinator(table, config).begin(ENDS)
    assert begun is not None
    other = open_table(tmp_path / "t")
    other.write(
        pa.table({"id": [1], "city": ["x"], "ts": [1]}, IDS),
        options={"hoodie.write.markers.type": "direct"},
    )

    context = context_of(table, config, begun.instant, begun.schema, begun.read_at)

    assert context == elsewhere(begun)
    assert context.slices == {}


def test_the_contexts_of_a_process_are_made_once(table: Table) -> None:
    config = config_of()
    options = sink_write_options(config, table.storage.location)
    begun = coordinator(table, config).begin(ENDS)
    assert begun is not None
    contexts = SinkContexts(table, config, options)

    first = contexts.get_context(begun.instant, begun.schema, begun.read_at)

    assert contexts.get_context(begun.instant, begun.schema, begun.read_at) is first


def test_files_of_two_attempts_never_have_one_name(table: Table) -> None:
    config = config_of()
    begun = coordinator(table, config).begin(ENDS)
    assert begun is not None
    context = begun.transaction.context

    written = [
        writer_of(table, config, context, participant=name) for name in ("host-1-a", "host-1-b")
    ]
    for writer in written:
        writer.add(batch([{"id": 1}]))

    names = [one.close().statuses[0].stat.path for one in written]
    assert len(set(names)) == 2


def test_only_the_files_that_were_reported_stay(table: Table) -> None:
    config = config_of()
    ledger = coordinator(table, config)
    begun = ledger.begin(ENDS)
    assert begun is not None
    zombie = participant(begun, table, config, name="zombie").written(batch([{"id": 1}]))
    taken = participant(begun, table, config).written(batch([{"id": 1}]))

    ledger.commit(begun, [report_of(begun, 0, 1, taken)])

    assert rows_of(table, "_kafka_offset") == [(0,)]
    assert table.storage.info(zombie.statuses[0].stat.path) is None


def test_a_writer_of_a_transaction_that_was_taken_back_is_refused(table: Table) -> None:
    config = config_of()
    ledger = coordinator(table, config)
    begun = ledger.begin(ENDS)
    assert begun is not None
    late = participant(begun, table, config)
    ledger.abort(begun, "for a test")

    with pytest.raises(InstantRolledBack):
        late.written(batch([{"id": 1}]))


def test_partitions_of_a_topic_get_buckets_of_their_own() -> None:
    for partitions in (1, 2, 8, 12, 100):
        buckets = choose_bucket_count(TOPIC, partitions)
        assert len({append_bucket(TOPIC, one, buckets) for one in range(partitions)}) == partitions


def test_tables_that_a_sink_cannot_write_are_refused(tmp_path: Path) -> None:
    cow = keyed_table(tmp_path / "cow", IDS, table_type="COPY_ON_WRITE")
    keyed = keyed_table(tmp_path / "keyed", IDS)
    with pytest.raises(InvalidInput, match="MERGE_ON_READ"):
        check_sink_table(cow, config_of(mode="upsert"))
    looked_up = keyed_table(tmp_path / "bloom", IDS, options={"hoodie.index.type": "BLOOM"})
    for mode in ("upsert", "append"):
        with pytest.raises(InvalidInput, match="bucket index"):
            check_sink_table(looked_up, config_of(mode=mode))
    with pytest.raises(InvalidInput, match="in append mode the key"):
        check_sink_table(keyed, config_of())
    with pytest.raises(InvalidInput, match="brings these columns itself"):
        append_table(tmp_path / "taken", schema_of(_kafka_offset=pa.int64()))
    wide = keyed_table(
        tmp_path / "wide",
        schema_of(**dict.fromkeys(APPEND_KEY, pa.string())),
        record_key=APPEND_KEY,
    )
    with pytest.raises(InvalidInput, match="needs_hash_field"):
        coordinator(wide, config_of())
    assert isinstance(coordinator(keyed, config_of(mode="upsert")), SinkLedger)
