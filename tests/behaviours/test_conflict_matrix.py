"""Every operation beside every other one, in optimistic mode: who meets, and who does not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.behaviours.setups import reading
from tests.support.scenario_table import MODES, READINGS, Row, ScenarioTable, ScenarioTables
from workers.concurrency.conflicts import (
    overlapping_file_groups,
    unmergeable_file_groups,
    write_set,
)
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.files.names import bucket_file_id
from workers.options.write_options import write_options
from workers.timeline.metadata import CommitMetadata, WriteStat, commit_metadata
from workers.write.client import Transaction, WriteClient
from workers.write.context import Operation
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.request import WriteRequest
from workers.write.status import TaskIds, WriteStatus

OPERATIONS: tuple[Operation, ...] = (
    "upsert",
    "delete",
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partition",
)
WHOLE: tuple[Operation, ...] = ("insert_overwrite", "insert_overwrite_table", "delete_partition")
OPTIONS = write_options(
    {
        "hoodie.write.concurrency.mode": MODES["optimistic"],
        "hoodie.write.markers.type": "direct",
    }
)


@dataclass
class Attempt:
    transaction: Transaction
    statuses: list[WriteStatus]

    def commit(self) -> CommitOutcome:
        return self.transaction.commit(self.statuses)


def begun(table: ScenarioTable, operation: Operation, row: Row) -> Attempt:
    """Files are written, nothing is committed."""
    is_partition = operation == "delete_partition"
    partitions = (str(row["place"]),) if is_partition else ()
    request = WriteRequest(operation, partitions=partitions)
    batch = table.batch([row])
    client = WriteClient(table.table, OPTIONS)
    transaction = client.begin(None if is_partition else batch.schema, request)
    if is_partition:
        return Attempt(transaction, [])
    prepared = prepare(transaction.context, batch)
    statuses = write_file_groups(transaction.context, prepared, TaskIds(), table.storage)
    return Attempt(transaction, statuses)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    lake = tables(
        table_type=request.param,
        schema=READINGS,
        ordering=["ts"],
        partition_by=["place"],
        options={"hoodie.bucket.index.num.buckets": "64"},
    )
    lake.writer("w").upsert_and_commit(
        reading("a", 1, 1, place="oslo"), reading("b", 1, 1, place="bergen")
    )
    return lake


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("theirs", OPERATIONS)
@pytest.mark.parametrize("ours", OPERATIONS)
def test_whoever_comes_second_to_one_file_group_loses(
    table: ScenarioTable, ours: Operation, theirs: Operation
) -> None:
    first = begun(table, ours, reading("a", 2, 2, place="oslo"))
    rival = begun(table, theirs, reading("a", 3, 3, place="oslo")).commit()
    after = table.rows()

    outcome = first.commit()

    assert isinstance(rival, Committed)
    assert isinstance(outcome, Conflicted)
    assert outcome.conflict.rival == rival.instant
    assert table.rows() == after
    assert table.orphan_files() == []


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("theirs", OPERATIONS)
@pytest.mark.parametrize("ours", OPERATIONS)
def test_writers_of_two_partitions_meet_only_when_one_replaces_the_table(
    table: ScenarioTable, ours: Operation, theirs: Operation
) -> None:
    first = begun(table, ours, reading("a", 2, 2, place="oslo"))
    rival = begun(table, theirs, reading("b", 3, 3, place="bergen")).commit()

    outcome = first.commit()

    meets = "insert_overwrite_table" in (ours, theirs)
    assert isinstance(rival, Committed)
    assert isinstance(outcome, Conflicted if meets else Committed)


@pytest.mark.parametrize("ours", OPERATIONS)
def test_row_that_joins_a_replaced_partition_is_not_lost(
    table: ScenarioTable, ours: Operation
) -> None:
    """It is in a file group that the replacing writer has never seen."""
    first = begun(table, ours, reading("a", 2, 2, place="oslo"))
    rival = begun(table, "upsert", reading("new", 1, 1, place="oslo")).commit()

    outcome = first.commit()

    assert isinstance(rival, Committed)
    assert isinstance(outcome, Conflicted if ours in WHOLE else Committed)
    assert "new" in [row["id"] for row in table.rows()]


def metadata(*stats: WriteStat, replaced: dict[str, list[str]] | None = None) -> CommitMetadata:
    return commit_metadata(list(stats), extra={}, operation_type="X", replaced=replaced)


OLD, NEW = bucket_file_id(3), bucket_file_id(3, after="20240101000000000")
LOG = metadata(WriteStat(OLD, "p/x", "p", is_log=True))
BASE = metadata(WriteStat(OLD, "p/x", "p"))
CLUSTERED = metadata(WriteStat(NEW, "p/y", "p"), replaced={"p": [OLD]})
COMPACTED = CommitMetadata({"p": [WriteStat(OLD, "p/x", "p")]}, {}, "COMPACT", compacted=True)


@pytest.mark.parametrize(
    ("ours", "theirs", "optimistic", "non_blocking"),
    [
        (LOG, CLUSTERED, True, True),
        (BASE, CLUSTERED, True, True),
        (CLUSTERED, LOG, True, True),
        (CLUSTERED, BASE, True, True),
        (CLUSTERED, CLUSTERED, True, True),
        (LOG, COMPACTED, False, False),
        (COMPACTED, LOG, False, False),
        (COMPACTED, CLUSTERED, True, True),
        (CLUSTERED, COMPACTED, True, True),
        (LOG, LOG, True, False),
    ],
)
def test_writers_beside_table_services(
    ours: CommitMetadata, theirs: CommitMetadata, optimistic: bool, non_blocking: bool
) -> None:
    """An update of a file group that is clustered away is refused, or the clustering is (B17)."""
    mine = write_set("20240101000000001", ours, "mine")
    other = write_set("20240101000000002", theirs, "other")

    assert (overlapping_file_groups(mine, other) is not None) == optimistic
    assert (unmergeable_file_groups(mine, other) is not None) == non_blocking
