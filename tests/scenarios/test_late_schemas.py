"""Writers that complete in another order than they were requested in, and a schema that only the
earlier one knows: readers that go by the time of request see it when the write returns.
"""

from __future__ import annotations

import pytest

from tests.support.late_schemas import BASE, KINDS, LATE, fill_late
from tests.support.scenario_table import ScenarioTable, ScenarioTables
from workers.options.write_options import write_options
from workers.recovery.plan import plan_rollback
from workers.recovery.rollback import RollbackRequest, rollback
from workers.timeline.metadata import RESTATES_KEY

DIRECT = {"hoodie.write.markers.type": "direct"}


def late(tables: ScenarioTables, kind: tuple[str, str], change: str) -> ScenarioTable:
    table = tables(table_type=kind[0], schema=BASE)
    fill_late(table, kind[1], change)
    return table


def newest(table: ScenarioTable, count: int) -> list[str]:
    """The last completed writes, the oldest of them first."""
    return [one.requested_at for one in table.table.timeline().completed_writes()[-count:]]


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

    _created, fast, last = (one.requested_at for one in table.table.timeline().completed_writes())
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
