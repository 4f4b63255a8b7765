"""Two writers in optimistic mode: the second to publish the same file group loses, and knows to
whom.
"""

from __future__ import annotations

import pytest

from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.files.names import bucket_file_id
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

# Keys 1 to 4 fall into eight buckets as follows: 1 -> 0, 2 -> 1, 3 -> 2, 4 -> 3.
FIRST_BUCKET = ("", bucket_file_id(0))


def test_slower_writer_to_same_file_group_is_refused_and_leaves_no_file(
    table: ScenarioTable,
) -> None:
    backfill, ingest = table.writer("backfill"), table.writer("ingest")
    backfill.upsert({"id": 1, "city": "Oslo"})
    ingest.upsert_and_commit({"id": 1, "city": "Bergen"})

    conflict = backfill.loses()

    assert conflict.rival == ingest.last_instant
    assert table.rows() == [{"id": 1, "city": "Bergen"}]
    assert table.orphan_files() == []
    assert table.leftovers() == []


def test_a_conflict_names_both_writers_and_exactly_the_shared_file_groups(
    table: ScenarioTable,
) -> None:
    backfill, ingest = table.writer("backfill"), table.writer("ingest")
    backfill.upsert({"id": 1, "city": "Oslo"}, {"id": 2, "city": "Oslo"})
    ingest.upsert_and_commit({"id": 1, "city": "Bergen"}, {"id": 3, "city": "Bergen"})

    conflict = backfill.loses()

    assert (conflict.kind, conflict.writer, conflict.rival_writer) == (
        "write",
        "backfill",
        "ingest",
    )
    assert conflict.file_groups == (FIRST_BUCKET,)


def test_the_decision_object_keeps_the_facts_of_the_conflict(table: ScenarioTable) -> None:
    backfill, ingest = table.writer("backfill"), table.writer("ingest")
    backfill.upsert({"id": 1, "city": "Oslo"})
    ingest.upsert_and_commit({"id": 1, "city": "Bergen"})

    backfill.loses()

    decision = decisions.read(table.storage, backfill.last_instant)
    assert isinstance(decision, RollbackDecision)
    assert decision.writer == "backfill"
    assert decision.conflict is not None
    assert decision.conflict["rival"] == ingest.last_instant
    assert decision.conflict["rival_writer"] == "ingest"
    assert decision.conflict["file_groups"] == [list(FIRST_BUCKET)]
    assert decision.reason == decision.conflict["message"]


def test_the_rollback_of_a_loser_stands_on_the_timeline(table: ScenarioTable) -> None:
    backfill, ingest = table.writer("backfill"), table.writer("ingest")
    backfill.upsert({"id": 1, "city": "Oslo"})
    ingest.upsert_and_commit({"id": 1, "city": "Bergen"})

    backfill.loses()

    assert table.timeline() == [
        ("commit", "completed"),  # The creation of the table.
        ("commit", "completed"),
        ("rollback", "completed"),
    ]


@pytest.mark.parametrize("first", ["left", "right"])
def test_writers_of_disjoint_file_groups_both_commit(table: ScenarioTable, first: str) -> None:
    left, right = table.writer("left"), table.writer("right")
    left.upsert({"id": 1, "city": "Oslo"})
    right.upsert({"id": 2, "city": "Bergen"})

    for writer in (left, right) if first == "left" else (right, left):
        writer.wins()

    assert table.rows() == [{"id": 1, "city": "Oslo"}, {"id": 2, "city": "Bergen"}]


def test_equal_file_ids_in_two_partitions_are_no_conflict(tables: ScenarioTables) -> None:
    table = tables(partition_by=["city"])
    oslo, bergen = table.writer("oslo"), table.writer("bergen")
    oslo.upsert({"id": 1, "city": "Oslo"})
    bergen.upsert({"id": 1, "city": "Bergen"})

    bergen.wins()
    oslo.wins()

    assert [row["city"] for row in table.rows()] == ["Bergen", "Oslo"]


def test_two_first_writers_of_one_bucket_meet_in_one_file_group(table: ScenarioTable) -> None:
    winner, loser = table.writer("one"), table.writer("other")
    winner.upsert({"id": 1, "city": "Oslo"})
    loser.upsert({"id": 1, "city": "Bergen"})
    winner.wins()

    conflict = loser.loses()

    assert conflict.file_groups == (FIRST_BUCKET,)
    assert [group.file_id for group in table.lakehouse.file_groups()] == [FIRST_BUCKET[1]]


def test_loser_that_writes_again_on_a_fresh_timeline_commits(table: ScenarioTable) -> None:
    backfill, ingest = table.writer("backfill"), table.writer("ingest")
    backfill.upsert({"id": 1, "city": "Oslo"})
    ingest.upsert_and_commit({"id": 1, "city": "Bergen"})
    backfill.loses()

    backfill.upsert_and_commit({"id": 1, "city": "Oslo"})

    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_writer_that_began_after_a_commit_does_not_conflict_with_it(table: ScenarioTable) -> None:
    table.writer("ingest").upsert_and_commit({"id": 1, "city": "Bergen"})

    table.writer("backfill").upsert_and_commit({"id": 1, "city": "Oslo"})

    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_rival_that_was_requested_first_and_completes_in_between_counts(
    table: ScenarioTable,
) -> None:
    early, late = table.writer("early"), table.writer("late")
    early.upsert({"id": 1, "city": "Oslo"})
    late.upsert({"id": 1, "city": "Bergen"})
    assert early.last_instant < late.last_instant
    early.wins()

    conflict = late.loses()

    assert conflict.rival == early.last_instant
    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_of_three_writers_of_one_file_group_exactly_one_commits(table: ScenarioTable) -> None:
    writers = [table.writer(f"w{n}") for n in range(3)]
    for number, writer in enumerate(writers):
        writer.upsert({"id": 1, "city": f"city{number}"})
    writers[2].wins()

    rivals = [writer.loses().rival_writer for writer in writers[:2]]

    assert rivals == ["w2", "w2"]
    assert table.rows() == [{"id": 1, "city": "city2"}]


def test_rollback_in_between_is_no_rival(table: ScenarioTable) -> None:
    slow, failed = table.writer("slow"), table.writer("failed")
    slow.upsert({"id": 1, "city": "Oslo"})
    failed.upsert({"id": 1, "city": "Bergen"}).abort()

    slow.wins()

    assert table.rows() == [{"id": 1, "city": "Oslo"}]


def test_merge_on_read_writers_of_one_file_group_conflict_too(tables: ScenarioTables) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    table.writer("first").upsert_and_commit({"id": "a", "ts": 1, "value": 1})
    backfill, ingest = table.writer("backfill"), table.writer("ingest")
    backfill.upsert({"id": "a", "ts": 9, "value": 9})
    ingest.upsert_and_commit({"id": "a", "ts": 2, "value": 2})

    backfill.loses()

    assert table.rows("id", "value") == [{"id": "a", "value": 2}]
    assert table.orphan_files() == []


def test_optimistic_writer_conflicts_with_a_lock_free_one_that_was_faster(
    tables: ScenarioTables,
) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    careful = table.writer("careful", mode="optimistic")
    stream = table.writer("stream", mode="non-blocking")
    careful.upsert({"id": "a", "ts": 1, "value": 1})
    stream.upsert_and_commit({"id": "a", "ts": 2, "value": 2})

    conflict = careful.loses()

    assert conflict.rival_writer == "stream"
    assert table.rows("value") == [{"value": 2}]


def test_lock_free_writer_survives_an_optimistic_one_that_was_faster(
    tables: ScenarioTables,
) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"])
    careful = table.writer("careful", mode="optimistic")
    stream = table.writer("stream", mode="non-blocking")
    stream.upsert({"id": "a", "ts": 2, "value": 2})
    careful.upsert_and_commit({"id": "a", "ts": 1, "value": 1}, {"id": "b", "ts": 1, "value": 1})

    stream.wins()

    assert table.rows("id", "value") == [{"id": "a", "value": 2}, {"id": "b", "value": 1}]
