"""What every write does, whatever the table type, the concurrency mode and the marker type."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.behaviours.setups import SETUPS, Lake, reading, sampled
from tests.support.scenario_table import READINGS, schema_of
from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.files.log_block import ParquetData
from workers.files.log_file import read_log_file
from workers.files.names import parse_base_file, parse_bucket_number, parse_log_file
from workers.index.bucket import bucket_of_keys
from workers.lakehouse import open_table
from workers.markers.store import pending_marker_instants, read_markers, read_names
from workers.schema.table_schema import TableSchema
from workers.timeline import decisions, metadata
from workers.timeline.decisions import CommitDecision
from workers.timeline.instant import State

MANY = [reading(f"k{n}", n, n, place="oslo" if n % 3 else "bergen") for n in range(60)]
by_bucket = pytest.mark.parametrize(
    "lake", [one for one in SETUPS if one.index == "BUCKET"], ids=str, indirect=True
)
not_appending = pytest.mark.parametrize(
    "lake", [one for one in SETUPS if not one.appends_only], ids=str, indirect=True
)

pytestmark = sampled


def test_inserted_rows_are_read_back(lake: Lake) -> None:
    lake.write(*MANY)

    assert lake.table.rows() == sorted(MANY, key=lambda row: str(row["id"]))


@pytest.mark.parametrize(
    ("ordering", "winner"), [(6, "new"), (4, "old"), (5, "new")], ids=["newer", "older", "equal"]
)
def test_upsert_with_ordering_value(lake: Lake, ordering: int, winner: str) -> None:
    lake.write(reading("a", 5, 1), reading("b", 5, 2))

    lake.write(reading("a", ordering, 9))

    assert lake.values() == {"a": 9 if winner == "new" else 1, "b": 2}


def test_missing_ordering_value_is_older_than_any_positive_one(lake: Lake) -> None:
    lake.write(reading("a", 5, 1), reading("b", None, 1), reading("c", None, 1))

    lake.write(reading("a", None, 2), reading("b", 1, 2), reading("c", None, 2))

    assert lake.values() == {"a": 1, "b": 2, "c": 2}


def test_of_duplicates_in_one_batch_the_newest_stays_and_of_equals_the_last(lake: Lake) -> None:
    lake.write(
        reading("a", 1, 1),
        reading("a", 3, 3),
        reading("a", 2, 2),
        reading("b", 7, 1),
        reading("b", 7, 2),
    )

    assert lake.values() == {"a": 3, "b": 2}


def test_row_is_replaced_as_a_whole(lake: Lake) -> None:
    lake.write(reading("a", 1, 1))

    lake.write({"id": "a", "place": "oslo", "ts": 2, "value": None})

    assert lake.table.rows() == [{"id": "a", "place": "oslo", "ts": 2, "value": None, "note": None}]


def test_column_that_a_batch_adds_is_null_in_older_rows(lake: Lake) -> None:
    lake.write(reading("a", 1, 1), reading("b", 1, 1))

    lake.write(reading("a", 2, 2) | {"unit": "C"})

    assert lake.table.schema_columns() == [*READINGS.names, "unit"]
    assert lake.table.rows("id", "unit") == [{"id": "a", "unit": "C"}, {"id": "b", "unit": None}]


def test_column_that_a_batch_lacks_stays_in_the_table(lake: Lake) -> None:
    lake.write(reading("a", 1, 1))

    lake.write({"id": "b", "place": "oslo", "ts": 1})

    assert lake.table.schema_columns() == list(READINGS.names)
    assert lake.values() == {"a": 1, "b": None}


def test_int_column_becomes_long_when_a_batch_brings_longs(lake: Lake) -> None:
    if lake.setup.appends_only:
        lake.table.excuse_referee("hudi-rs 0.5 merges no log of ints under a schema of longs")
    lake.write(reading("a", 1, 1), reading("b", 1, 2))

    lake.write(reading("a", 2, 2**40), schema=schema_of(value=pa.int64()))

    schema = lake.table.lakehouse.schema()
    assert schema is not None
    assert schema.field("value").type == pa.int64()
    assert lake.values() == {"a": 2**40, "b": 2}


def test_evolution_is_refused_where_it_is_switched_off(lake: Lake) -> None:
    writer = lake.writer(**{"sluice.schema.evolution.enable": "false"})

    with pytest.raises(InvalidInput, match="unit"):
        writer.upsert(reading("a", 1, 1) | {"unit": "C"})

    assert len(lake.table.instants()) == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"id": None}, "record key is null"),
        ({"id": ""}, "record key is empty"),
        ({"value": "ten"}, "value"),
        ({"Value": 1}, "differ only by case"),
    ],
    ids=["null key", "empty key", "wrong type", "case"],
)
def test_wrong_batch_is_refused_before_any_file(
    lake: Lake, wrong: dict[str, object], named: str
) -> None:
    right = [reading("b", 1, 1)] if "id" in wrong else []
    batch = pa.Table.from_pylist([reading("a", 1, 1) | wrong, *right])

    with pytest.raises(InvalidInput, match=named):
        lake.table.lakehouse.write(batch, options=lake.options)

    assert lake.table.data_files() == []
    assert lake.table.leftovers() == []
    assert lake.table.rows() == []


@pytest.mark.parametrize("column", ["id", "ts"])
def test_batch_without_a_pinned_column_is_refused_before_anything_begins(
    lake: Lake, column: str
) -> None:
    row = {name: value for name, value in reading("a", 1, 1).items() if name != column}

    with pytest.raises(InvalidInput, match=column):
        lake.writer().upsert(row)

    assert len(lake.table.instants()) == 1


def test_misspelt_option_is_refused_and_the_right_one_is_named(lake: Lake) -> None:
    with pytest.raises(InvalidInput, match=r"hoodie\.write\.markers\.type"):
        lake.write_by_name([reading("a", 1, 1)], **{"hoodie.write.marker.type": "direct"})

    assert len(lake.table.instants()) == 1


@not_appending
def test_bulk_insert_lands_in_the_same_file_groups(lake: Lake) -> None:
    lake.writer().upsert(*MANY, operation="bulk_insert").wins()
    groups = {group.file_id for group in lake.table.lakehouse.file_groups()}

    lake.write(*MANY)

    assert {group.file_id for group in lake.table.lakehouse.file_groups()} == groups
    assert len(lake.table.rows()) == len(MANY)


def test_empty_batch_commits_nothing_but_its_instant(lake: Lake) -> None:
    lake.write(reading("a", 1, 1))
    files = lake.table.data_files()

    committed = lake.writer().begin(READINGS).wins()

    assert lake.table.metadata(committed.instant).stats == []
    assert lake.table.data_files() == files
    assert lake.values() == {"a": 1}


def test_reader_sees_the_old_table_until_the_commit_is_published(lake: Lake) -> None:
    lake.write(reading("a", 1, 1), reading("b", 1, 1))
    writer = lake.writer().upsert(reading("a", 2, 2), reading("c", 2, 2))

    before = lake.values()
    lake.table.assert_referee_agrees()
    writer.wins()

    assert before == {"a": 1, "b": 1}
    assert lake.values() == {"a": 2, "b": 1, "c": 2}


def test_time_travel_sees_the_table_as_each_commit_left_it(lake: Lake) -> None:
    commits = [lake.write(reading("a", ts, ts * 10)) for ts in (1, 2, 3)]

    seen = [
        open_table(lake.table.location).read(as_of=commit.completed_at).column("value").to_pylist()
        for commit in commits
    ]

    assert seen == [[10], [20], [30]]


def test_heart_beats_and_markers_stand_while_writing_and_are_gone_after(lake: Lake) -> None:
    writer = lake.writer("w1").upsert(*MANY)
    [beat] = read_heartbeats(lake.table.storage)
    assert (beat.instant, beat.writer) == (writer.last_instant, "w1")
    assert pending_marker_instants(lake.table.storage) == (writer.last_instant,)

    writer.wins()

    assert read_heartbeats(lake.table.storage) == []
    assert pending_marker_instants(lake.table.storage) == ()
    assert lake.table.leftovers() == []


def test_every_data_file_has_its_marker_before_the_commit(lake: Lake) -> None:
    writer = lake.writer().upsert(*MANY)

    marked = {marker.data_path for marker in read_markers(lake.table.storage, writer.last_instant)}

    assert marked == set(lake.table.data_files())
    names = read_names(lake.table.storage, writer.last_instant)
    assert bool(names.direct) == (lake.setup.markers == "direct")
    writer.wins()


def test_files_of_a_lost_attempt_go_before_the_commit_is_published(lake: Lake) -> None:
    """A task is tried twice; only the second attempt's status reaches the driver."""
    writer = lake.writer().upsert(*MANY)
    lost = set(lake.table.data_files())
    writer.forget_statuses()
    writer.write(*MANY, attempt=1)

    committed = writer.wins()

    kept = set(lake.table.data_files())
    assert not kept & lost
    assert kept == {stat.path for stat in lake.table.metadata(committed.instant).stats}
    assert len(lake.table.rows()) == len(MANY)


@by_bucket
def test_write_in_several_tasks_is_one_commit(lake: Lake) -> None:
    writer = lake.writer().begin(READINGS)
    buckets = bucket_of_keys(pa.array([row["id"] for row in MANY]), buckets=4)
    for task in range(4):
        rows = [row for row, bucket in zip(MANY, buckets, strict=True) if bucket == task]
        writer.write(*rows, task=task)

    writer.wins()

    assert lake.table.rows() == sorted(MANY, key=lambda row: str(row["id"]))


def test_aborted_write_leaves_a_rollback_and_nothing_else(lake: Lake) -> None:
    lake.write(reading("a", 1, 1))
    files = lake.table.data_files()
    writer = lake.writer().upsert(*MANY)

    writer.abort()

    assert lake.table.data_files() == files
    assert lake.values() == {"a": 1}
    assert lake.table.leftovers() == []
    assert lake.table.timeline()[-1] == ("rollback", "completed")


def test_statistics_in_the_commit_are_true(lake: Lake) -> None:
    lake.write(*MANY[:30])

    committed = lake.write(*MANY[20:])

    stats = lake.table.metadata(committed.instant).stats
    assert sum(stat.num_inserts + stat.num_updates for stat in stats) == 40
    for stat in stats:
        assert stat.bytes == len(lake.table.storage.read(stat.path)) > 0
        assert stat.num_writes == _rows_in(lake, stat.path)
        assert stat.path.startswith(stat.partition_path)
    if not any(stat.is_log for stat in stats):
        assert sum(stat.num_updates for stat in stats) == 10
        assert sum(stat.num_writes for stat in stats) >= 60


def _rows_in(lake: Lake, path: str) -> int:
    if path.endswith(".parquet"):
        return int(pq.read_metadata(lake.table.location / path).num_rows)
    blocks = read_log_file(lake.table.storage, path)
    return sum(block.table().num_rows for block in blocks if isinstance(block, ParquetData))


def test_commit_says_who_wrote_what(lake: Lake) -> None:
    writer = lake.writer("w1", **{"sluice.operation.id": "op-7"}).upsert(*MANY)

    committed = writer.wins()

    commit_metadata = lake.table.metadata(committed.instant)
    extra = commit_metadata.extra_metadata
    assert commit_metadata.operation_type == "UPSERT"
    assert extra[metadata.WRITER_KEY] == "w1"
    assert extra[metadata.OPERATION_KEY] == "op-7"
    assert extra[metadata.ROWS_KEY] == str(len(MANY))
    assert committed.rows == len(MANY)
    assert TableSchema.from_avro_json(extra[metadata.SCHEMA_KEY]).arrow.names == READINGS.names


@by_bucket
def test_names_of_files_say_instant_and_bucket(lake: Lake) -> None:
    committed = lake.write(*MANY)

    for stat in lake.table.metadata(committed.instant).stats:
        parsed = parse_log_file(stat.file_name) or parse_base_file(stat.file_name)
        assert parsed is not None
        assert parsed.instant == committed.instant
        assert parsed.file_id == stat.file_id
        bucket = parse_bucket_number(stat.file_id)
        assert bucket is not None
        assert bucket < 4
        assert stat.is_log == (parse_log_file(stat.file_name) is not None)


def test_first_write_makes_base_files_unless_it_never_waits(lake: Lake) -> None:
    committed = lake.write(*MANY)

    kinds = {stat.is_log for stat in lake.table.metadata(committed.instant).stats}

    assert kinds == {lake.setup.appends_only}


def test_second_write_makes_logs_on_merge_on_read_only(lake: Lake) -> None:
    lake.write(*MANY)

    committed = lake.write(*MANY)

    kinds = {stat.is_log for stat in lake.table.metadata(committed.instant).stats}
    assert kinds == {lake.setup.table_type == "MERGE_ON_READ"}


def test_instant_and_decision_agree(lake: Lake) -> None:
    committed = lake.write(reading("a", 1, 1))

    decision = decisions.read(lake.table.storage, committed.instant)
    instant = lake.table.table.timeline().find(committed.instant)
    assert isinstance(decision, CommitDecision)
    assert instant is not None
    assert instant.state is State.COMPLETED
    assert decision.completed_at == instant.completed_at == committed.completed_at
    assert instant.action is lake.table.table.data_action


def test_own_write_is_repeatable(lake: Lake) -> None:
    """The same batch again changes no row."""
    lake.write(*MANY)
    once = lake.table.rows()

    lake.write(*MANY)

    assert lake.table.rows() == once


def test_write_as_users_do(lake: Lake) -> None:
    outcome = lake.write_by_name(MANY)

    assert isinstance(outcome, Committed)
    assert len(lake.table.rows()) == len(MANY)


def test_rows_without_a_partition_value_are_kept(lake: Lake) -> None:
    lake.write(reading("a", 1, 1) | {"place": None}, reading("b", 1, 2))

    assert lake.table.rows("id", "place") == [
        {"id": "a", "place": None},
        {"id": "b", "place": "oslo"},
    ]
