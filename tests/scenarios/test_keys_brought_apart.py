"""Writers that bring one key to two partitions at once, or move a row that another one changes: who
completes second is told, in non-blocking mode as well.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.keyed_streams import (
    click,
    gone,
    made,
    mode_of,
    named,
    shown,
    wide,
    write,
)
from tests.support.scenario_table import ScenarioTables
from workers import failpoints
from workers.concurrency.outcome import Committed, Conflicted

DIRECT = {"hoodie.write.markers.type": "direct"}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "1"}
JOINED = wide("k", "tue", shown_at=5, price=50, clicked_at=7, x=70)
every_type = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
BESIDE = {
    "both bring a new key": (shown("n", "mon", 5), click("n", "tue", 5)),
    "both bring a row that has no partition": (shown("n", None, 5), click("n", "tue", 5)),
    "one says nothing": (shown("n", "mon", 5), click("n", "tue", None)),
}


@pytest.mark.parametrize("rows", BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("update", ["reject", "move"])
@every_type
def test_of_two_who_bring_a_new_key_for_two_partitions_the_second_to_complete_is_told(
    tables: ScenarioTables, table_type: str, update: str, rows: Any
) -> None:
    table = made(tables, table_type, update)
    mode = mode_of(table)
    slow = table.writer("slow", mode=mode).upsert(rows[0])
    table.writer("fast", mode=mode).upsert_and_commit(rows[1])

    conflict = slow.loses()

    assert (conflict.rule, conflict.keys, conflict.key_count) == ("brought_apart", ("n",), 1)
    assert conflict.rival_writer == "fast"
    assert conflict.message == "1 key(s) were brought to another partition by another writer first"
    assert table.orphan_files() == table.leftovers() == []


def test_streams_that_agree_on_the_partition_do_not_wait_for_each_other(
    tables: ScenarioTables,
) -> None:
    table = made(tables)
    rows = [shown("k", "tue", 5, 50), shown("m", "mon", 5)], [click("k", "tue", 7, 70)]
    slow = table.writer("slow", mode="non-blocking").upsert(*rows[0])
    table.writer("fast", mode="non-blocking").upsert_and_commit(*rows[1], click("n", "mon", 1))

    slow.wins()

    assert table.rows()[0] == JOINED


MEETING: dict[str, Any] = {
    "an update of the row": [click("k", "mon", 7)],
    "an update where it goes": [click("k", "tue", 7)],
    "a move elsewhere": [click("k", "wed", 7)],
    "a marked delete": [gone(click("k", "mon", 7))],
}


@pytest.mark.parametrize("others", MEETING.values(), ids=MEETING)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_a_move_and_what_touches_its_row_meet(
    tables: ScenarioTables, others: Any, is_first: bool
) -> None:
    """Or the one would change a row that is gone, or the other take along an old one."""
    table = made(tables, "MERGE_ON_READ", "move")
    write(table, shown("k", "mon", 5))
    mover = table.writer("mover", mode="non-blocking").upsert(click("k", "tue", 9))
    other = table.writer("other", mode="non-blocking").upsert(*others)
    first, second = (mover, other) if is_first else (other, mover)
    first.wins()

    conflict = second.loses()

    assert (conflict.rule, conflict.keys) == ("brought_apart", ("k",))
    assert len(table.rows()) == 1


@pytest.mark.parametrize("is_first", [True, False], ids=["delete first", "move first"])
def test_a_delete_by_key_and_a_move_meet(tables: ScenarioTables, is_first: bool) -> None:
    table = made(tables, "MERGE_ON_READ", "move")
    write(table, shown("k", "mon", 5))
    mover = table.writer("mover", mode="non-blocking").upsert(click("k", "tue", 9))
    keys = named(("k", "mon"))
    deleter = table.writer("deleter", mode="non-blocking").begin(keys.schema, "delete")
    deleter.write_batch(keys)
    first, second = (deleter, mover) if is_first else (mover, deleter)
    first.wins()

    assert second.loses().rule == "brought_apart"


@every_type
def test_a_delete_of_a_key_that_came_for_another_partition_meanwhile_is_a_conflict(
    tables: ScenarioTables, table_type: str
) -> None:
    table = made(tables, table_type)
    keys = named(("n", "wed"))
    deleter = table.writer("deleter", mode=mode_of(table)).begin(keys.schema, "delete")
    deleter.write_batch(keys)
    write(table, shown("n", "mon", 5))

    assert deleter.loses().rule == "deleted_unseen"


@pytest.mark.parametrize("update", ["reject", "move"])
def test_tried_again_the_loser_is_refused_or_moves_the_row(
    tables: ScenarioTables, update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tables, "MERGE_ON_READ", update)
    met: list[str] = []

    def reach(point: str, *, writer: str | None = None) -> None:
        if point == "after_data" and writer == "slow" and not met:
            met.append(point)
            write(table, shown("k", "mon", 5, 50))

    monkeypatch.setattr(failpoints, "hit_failpoint", reach)
    batch = table.batch([click("k", "tue", 7, 70)])
    options = DIRECT | RETRIES | {"sluice.writer.name": "slow"}
    outcome = table.lakehouse.write(batch, stream="click", options=options)

    if update == "move":
        assert isinstance(outcome, Committed)
        assert outcome.attempts == 2
        assert table.rows() == [JOINED]
    else:
        assert isinstance(outcome, Conflicted)
        assert "key=k stands_in=mon brought_for=tue" in outcome.conflict.message
        assert table.rows() == [wide("k", "mon", shown_at=5, price=50)]


def test_a_move_of_what_was_rolled_back_meanwhile_is_a_conflict(tables: ScenarioTables) -> None:
    table = made(tables, "MERGE_ON_READ", "move")
    write(table, shown("m", "mon", 1))
    write(table, shown("k", "mon", 5))
    taken_back = table.instants()[-1].requested_at
    mover = table.writer("mover", mode="non-blocking").upsert(click("k", "tue", 9))
    table.lakehouse.rollback(taken_back, dry_run=False, reason="it was wrong")

    conflict = mover.loses()

    assert conflict.rival == taken_back
    assert [one["id"] for one in table.rows()] == ["m"]
