"""Staged rows: every file group gets all of its rows, in order, and nothing is left lying about."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from workers.errors import InvalidInput, MalformedTable, NotFound
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.write_options import write_options
from workers.table_layout import MARKERS
from workers.write.client import Transaction, WriteClient
from workers.write.groups import row_groups
from workers.write.handles import write_row_groups
from workers.write.prepare import prepare
from workers.write.staging import StagedFile, by_file_group, read_staged, stage
from workers.write.status import TaskIds

OPTIONS = {"hoodie.write.markers.type": "direct"}


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": [f"k{number % 50}" for number in numbers],
            "ts": list(numbers),
            "part": [f"p/{number % 3}" for number in numbers],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    return create_table(
        tmp_path / "table",
        name="things",
        schema=rows(0, 1).schema,
        record_key=["id"],
        partition_by=["part"],
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "4"},
    )


@pytest.fixture
def transaction(table: LakehouseTable) -> Transaction:
    return WriteClient(table.table, write_options(OPTIONS)).begin(rows(0, 1).schema)


def test_file_groups_find_their_rows_of_all_files_in_the_order_of_arrival(
    table: LakehouseTable, transaction: Transaction
) -> None:
    context, storage = transaction.context, table.table.storage
    batches = [prepare(context, rows(first, 200)) for first in (0, 200, 400)]
    files = [
        stage(row_groups(batch), storage, context.instant, f"0-{number}-0")
        for number, batch in enumerate(batches)
    ]

    staged_files = [StagedFile.from_json(file.to_json()) for file in files]
    groups = by_file_group(staged_files)
    staged_groups = list(read_staged(groups, storage))

    wanted = {(one.partition, one.slot): one.rows for one in row_groups(pa.concat_tables(batches))}
    assert {(one.partition, one.slot) for one in staged_groups} == set(wanted)
    assert all(one.rows.equals(wanted[one.partition, one.slot]) for one in staged_groups)
    assert [one.first_row for one in staged_groups] == [
        sum(before.rows.num_rows for before in staged_groups[:at])
        for at in range(len(staged_groups))
    ]
    assert sum(one.bytes for one in groups) >= sum(one.rows.nbytes for one in staged_groups)


def test_one_attempt_stages_once_under_its_name(
    table: LakehouseTable, transaction: Transaction
) -> None:
    context, storage = transaction.context, table.table.storage
    prepared = prepare(context, rows(0, 10))
    stage(row_groups(prepared), storage, context.instant, "0-1-0")

    with pytest.raises(InvalidInput):
        stage(row_groups(prepared), storage, context.instant, "0-1-0")


def test_commit_takes_the_staged_rows_away(table: LakehouseTable, transaction: Transaction) -> None:
    context, storage = transaction.context, table.table.storage
    file = stage(row_groups(prepare(context, rows(0, 90))), storage, context.instant, "0-1-0")
    groups = read_staged(by_file_group([file]), storage)

    transaction.commit(write_row_groups(context, groups, TaskIds(), storage))

    assert storage.list_tree(MARKERS.path) == []
    assert table.read().num_rows == 90


def test_rollback_takes_the_staged_rows_away_and_a_task_that_comes_late_hears_of_it(
    table: LakehouseTable, transaction: Transaction
) -> None:
    context, storage = transaction.context, table.table.storage
    groups = by_file_group(
        [stage(row_groups(prepare(context, rows(0, 90))), storage, context.instant, "a")]
    )

    transaction.abort("changed our mind")

    assert storage.list_tree(MARKERS.path) == []
    with pytest.raises(NotFound):
        list(read_staged(groups, storage))


def test_what_a_task_stages_after_the_rollback_goes_with_the_next_writer(
    table: LakehouseTable, transaction: Transaction
) -> None:
    context, storage = transaction.context, table.table.storage
    transaction.abort("changed our mind")
    stage(row_groups(prepare(context, rows(0, 90))), storage, context.instant, "late")

    open_table(table.location).write(rows(0, 5), options=OPTIONS)

    assert storage.list_tree(MARKERS.path) == []


def test_damaged_file_is_named(table: LakehouseTable, transaction: Transaction) -> None:
    context, storage = transaction.context, table.table.storage
    file = stage(row_groups(prepare(context, rows(0, 9))), storage, context.instant, "a")
    (Path(table.location) / file.path).write_bytes(b"nothing of the kind")

    with pytest.raises(MalformedTable, match=r"a\.arrow"):
        list(read_staged(by_file_group([file]), storage))
