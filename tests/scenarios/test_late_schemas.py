"""Writers that complete in another order than they were requested in, and a schema that only the
earlier one knows: readers that go by the time of request see it when the write returns.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.support.late_schemas import BASE, KINDS, LATE, fill_late
from tests.support.scenario_table import ScenarioTable, ScenarioTables, schema_of
from workers.options.write_options import write_options
from workers.recovery.plan import plan_rollback
from workers.recovery.rollback import RollbackRequest, rollback
from workers.schema.alter import WidenColumn
from workers.timeline.metadata import RESTATES_KEY

DIRECT = {"hoodie.write.markers.type": "direct"}


def late(tables: ScenarioTables, kind: tuple[str, str], change: str) -> ScenarioTable:
    table = tables(table_type=kind[0], schema=BASE)
    fill_late(table, kind[1], change)
    return table


def newest(table: ScenarioTable, count: int) -> list[str]:
    """The last completed writes, the oldest of them first."""
    return [one.requested_at for one in table.table.timeline().list_completed_writes()[-count:]]


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("change", list(LATE))
def test_a_schema_of_the_writer_that_began_first_is_seen_when_its_write_returns(
    tables: ScenarioTables, kind: tuple[str, str], change: str
) -> None:
    table = late(tables, kind, change)

    table.assert_referee_agrees()
    assert {"id": 2, **LATE[change][0]} in table.rows()


def test_what_states_a_schema_again_is_one_commit_that_changes_no_row(
    tables: ScenarioTables,
) -> None:
    table = late(tables, KINDS[1], "new column")

    of, again = newest(table, 2)

    assert table.metadata(again).extra_metadata[RESTATES_KEY] == of
    assert table.metadata(again).stats == []
    assert table.leftovers() == []


def test_nothing_is_stated_again_where_both_carry_the_same_schema(tables: ScenarioTables) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=BASE)
    slow = table.writer("slow").upsert({"id": 2, "n": 2})
    table.writer("fast").upsert_and_commit({"id": 8, "n": 8})

    slow.wins()

    _created, fast, last = (
        one.requested_at for one in table.table.timeline().list_completed_writes()
    )
    assert last == slow.last_instant < fast


def test_a_restore_to_the_write_keeps_what_states_it_again(tables: ScenarioTables) -> None:
    table = late(tables, KINDS[1], "new column")
    of, again = newest(table, 2)
    table.writer("after").upsert_and_commit({"id": 3, "n": 3, "note": "after"})

    table.lakehouse.restore(of)

    assert newest(table, 2) == [of, again]
    table.assert_referee_agrees()


def test_the_write_is_rolled_back_behind_what_states_it_again(tables: ScenarioTables) -> None:
    table = late(tables, KINDS[1], "new column")
    of, again = newest(table, 2)
    plan = plan_rollback(table.table, of)

    for instant in (again, of):
        request = RollbackRequest(instant, by="admin", reason="test")
        rollback(table.table, request, write_options(DIRECT))

    assert any("states it again" in one for one in plan.blockers)
    assert table.schema_columns() == ["id", "n"]


@pytest.mark.parametrize("begins_first", [True, False], ids=["late", "in order"])
@pytest.mark.parametrize("log_format", ["parquet", "avro"])
@pytest.mark.parametrize(
    ("narrow", "wide", "before", "after"),
    [
        (pa.int32(), pa.int64(), 1, 2**40),
        (pa.int32(), pa.float64(), 1, 1.5),
        (pa.float32(), pa.float64(), 1.5, 1.1),
    ],
    ids=["int to long", "int to double", "float to double"],
)
def test_a_widened_column_is_read_in_file_groups_of_logs_alone(
    tables: ScenarioTables,
    narrow: pa.DataType,
    wide: pa.DataType,
    before: float,
    after: float,
    log_format: str,
    begins_first: bool,
) -> None:
    table = logs_alone(tables, narrow, log_format)
    late = table.writer("late", mode="non-blocking")
    wider = schema_of(id=pa.int64(), n=wide)
    if begins_first:
        late.upsert({"id": 2, "n": after}, schema=wider)
    table.writer("other", mode="non-blocking").upsert({"id": 8, "n": before}).wins()
    if not begins_first:
        late.upsert({"id": 2, "n": after}, schema=wider)

    late.wins()

    assert all(one.base_file is None for one in table.lakehouse.file_groups())
    assert [row["n"] for row in table.rows()] == [1, after, before]
    table.assert_referee_agrees()


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_a_column_that_is_widened_by_hand_is_read_in_file_groups_of_logs_alone(
    tables: ScenarioTables, log_format: str
) -> None:
    table = logs_alone(tables, pa.int32(), log_format)

    table.lakehouse.alter(WidenColumn("n", pa.int64()), options=DIRECT)

    table.assert_referee_agrees()
    assert table.rows() == [{"id": 0, "n": 1}, {"id": 2, "n": 1}, {"id": 8, "n": 1}]


def logs_alone(tables: ScenarioTables, kind: pa.DataType, log_format: str) -> ScenarioTable:
    """Keys 0, 2 and 8 with a one, in logs without a base file."""
    table = tables(
        table_type="MERGE_ON_READ",
        schema=schema_of(id=pa.int64(), n=kind),
        write_options={"hoodie.logfile.data.block.format": log_format},
    )
    rows = ({"id": key, "n": 1} for key in (0, 2, 8))
    table.writer("first", mode="non-blocking").upsert(*rows).wins()
    return table
