"""Streams with clocks of their own, as the mirror tells of them: commits, samples, single cells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest
from controlplane.mirror.cell_stories import explain
from controlplane.mirror.group_facts import groups_of_commit
from controlplane.mirror.models import JoinPoint
from controlplane.mirror.queries.streams import commit_rows, streams_board
from controlplane.mirror.queries.table_details import join_status
from controlplane.mirror.streams import measure
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_declare_stream
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.support.joined import commit, make
from tests.support.rows_seen import ALL_ROWS
from workers.clock import parse_instant
from workers.lakehouse import LakehouseTable

NOON_MS = int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS = 60_000
QUERIES_MAX = 16

Synced = Callable[[], Table]


@pytest.fixture
def orders(root: Path) -> LakehouseTable:
    return make(root)


@pytest.fixture
def synced(orders: LakehouseTable, admin: User) -> Synced:
    row = do_register_table(location=orders.location, slug="orders", by=admin)

    def sync() -> Table:
        sync_table(row)
        row.refresh_from_db()
        return row

    return sync


def shop(key: str, ms: int = NOON_MS) -> dict[str, Any]:
    return {"id": key, "shop_ts": ms, "price": 1.0}


def ship(key: str, ms: int = NOON_MS) -> dict[str, Any]:
    return {"id": key, "ship_ts": ms, "road": "x"}


def test_each_stream_says_how_far_it_is_and_how_far_behind(
    orders: LakehouseTable, synced: Synced
) -> None:
    commit(orders, shop("a"), shop("b"), stream="shop")
    last = commit(orders, ship("a", NOON_MS - 5 * MINUTE_MS), stream="ship")

    board = streams_board(synced(), ALL_ROWS)

    streams = {one.name: one for one in board.streams}
    assert [one.name for one in board.streams] == ["shop", "ship"]
    assert streams["shop"].behind_s == 0
    assert streams["ship"].behind_s == 300
    assert streams["ship"].last_event == "2026-05-01T11:55:00.000+00:00"
    assert (streams["ship"].last_instant, streams["ship"].last_writer) == (last, "ship")
    assert (streams["shop"].rows, streams["ship"].rows) == (2, 1)
    assert streams["ship"].rules == ["null_mode=keep", "granularity=column"]


def test_presence_completeness_and_what_is_waited_for(
    orders: LakehouseTable, synced: Synced
) -> None:
    commit(orders, shop("a", NOON_MS - MINUTE_MS), shop("b"), shop("c"))
    commit(orders, ship("b"))
    row = synced()

    assert measure(row)

    board = streams_board(row, ALL_ROWS)
    assert board.is_exact
    assert (board.keys, board.hidden) == (3, 0)
    assert [(one.groups, one.lacks, one.keys) for one in board.presence] == [
        (["shop"], ["ship"], 2),
        (["shop", "ship"], [], 1),
    ]
    assert board.complete_pct == pytest.approx(100 / 3)
    assert [(one.key, one.waits_for) for one in board.oldest] == [("a", ["ship"]), ("c", ["ship"])]
    assert board.coverage is not None
    assert {one.column for one in board.coverage.columns} == {"price", "road"}
    (point,) = board.points
    assert (point.keys, point.by_group) == (3, {"shop": 100.0, "ship": pytest.approx(100 / 3)})
    assert {one.stream: one.rows_with for one in join_status(row, ALL_ROWS).streams} == {
        "shop": 3,
        "ship": 1,
    }


def test_late_rows_and_tombstones_show_once_they_were_merged(
    orders: LakehouseTable, synced: Synced
) -> None:
    commit(orders, shop("a"), shop("b"))
    commit(orders, shop("a", NOON_MS - MINUTE_MS))
    commit(orders, {"id": "b", "shop_ts": NOON_MS + 1, "_hoodie_is_deleted": True})
    row = synced()
    measure(row)
    before = streams_board(row, ALL_ROWS)

    orders.compact()
    measure(synced(), now=timezone.now() + timedelta(minutes=1))

    after = streams_board(row, ALL_ROWS)
    assert before.streams[0].late == 0
    assert (after.streams[0].late, after.streams[0].late_key) == (1, "a")
    assert before.streams[0].tombstones == after.streams[0].tombstones == 1
    # The first write's two keys lie in two file groups.
    assert (before.uncompacted.log_files, after.uncompacted.log_files) == (4, 0)


def test_logs_that_wait_are_told_by_file_group_with_their_age(
    orders: LakehouseTable, synced: Synced
) -> None:
    first = commit(orders, shop("a"))
    commit(orders, shop("a", NOON_MS + 1))
    orders.compact(schedule=True)

    waits = streams_board(synced(), ALL_ROWS).uncompacted

    (group,) = waits.largest
    assert (group.log_files, group.oldest_at) == (2, first)
    assert group.log_bytes == waits.log_bytes
    assert [one.action for one in waits.pending] == ["compaction"]


def test_commits_tell_event_time_against_arrival(orders: LakehouseTable, synced: Synced) -> None:
    instant = commit(orders, shop("a"), shop("b", NOON_MS - MINUTE_MS))

    (row,) = commit_rows(synced(), ALL_ROWS)

    assert (row.group, row.rows) == ("shop", 2)
    assert (row.least_ms, row.greatest_ms) == (NOON_MS - MINUTE_MS, NOON_MS)
    assert row.arrived_ms > parse_instant(instant)


def test_a_board_takes_a_bounded_number_of_queries(
    orders: LakehouseTable, synced: Synced, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    commit(orders, shop("a"))
    row = synced()
    measure(row)

    with django_assert_max_num_queries(QUERIES_MAX):
        streams_board(row, ALL_ROWS)


def test_points_over_time_are_bounded(
    orders: LakehouseTable, synced: Synced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.mirror.streams.POINTS_KEPT", 3)
    for number in range(5):
        commit(orders, shop(str(number)))
        measure(synced(), now=timezone.now() + timedelta(hours=number))

    kept = list(JoinPoint.objects.order_by("at").values_list("keys", flat=True))

    assert kept == [3, 4, 5]


def test_a_look_that_takes_long_is_followed_by_a_longer_rest(
    orders: LakehouseTable, synced: Synced
) -> None:
    commit(orders, shop("a"))
    row = synced()
    measure(row)
    row.join_measure.took_ms = 60_000
    row.join_measure.save()
    commit(orders, shop("b"))
    synced()

    assert not measure(row, now=timezone.now() + timedelta(minutes=2))
    assert measure(row, now=timezone.now() + timedelta(minutes=4))


def test_why_a_cell_is_null_names_the_stream_and_since_when(
    orders: LakehouseTable, synced: Synced
) -> None:
    commit(orders, shop("a", 5), stream="shop")
    gone = commit(orders, {"id": "a", "shop_ts": 9, "_hoodie_is_deleted": True}, stream="shop")
    commit(orders, ship("a", 3), stream="ship")
    row = synced()

    (deleted,) = explain(row, ALL_ROWS, key="a", column="price")
    (there,) = explain(row, ALL_ROWS, key="a", column="road")
    (nobody,) = explain(row, ALL_ROWS, key="z", column="road")

    assert (deleted.stream, deleted.verdict) == ("shop", "deleted")
    assert (deleted.since, deleted.by) == (gone, "shop")
    assert deleted.words == "shop deleted its part of this key at shop_ts 9."
    assert deleted.completes == "A write of shop with this key and shop_ts at or above 9."
    assert (there.verdict, there.by, there.completes) == ("set", "ship", "")
    assert nobody.verdict == "unknown"


def test_what_was_compacted_is_traced_by_what_its_commits_told(
    orders: LakehouseTable, synced: Synced
) -> None:
    brought = commit(orders, shop("a", 5), stream="shop")
    commit(orders, shop("b", 9), stream="shop")
    commit(orders, ship("a", 3), stream="ship")
    orders.compact()

    (answer,) = explain(synced(), ALL_ROWS, key="a", column="price")

    assert answer.verdict == "set"
    assert (answer.since, answer.by, answer.is_since_sure) == (brought, "shop", False)


def test_a_cell_that_waits_says_which_write_completes_it(
    orders: LakehouseTable, synced: Synced
) -> None:
    commit(orders, shop("a", 5))

    (answer,) = explain(synced(), ALL_ROWS, key="a", column="road")

    assert answer.words == "ship has never written this key."
    assert answer.completes == "A write of ship with this key and any ship_ts."


def test_a_column_of_no_group_is_refused(orders: LakehouseTable, synced: Synced) -> None:
    commit(orders, shop("a", 5))

    with pytest.raises(InvalidRequest):
        explain(synced(), ALL_ROWS, key="a", column="id")


def test_a_stream_is_declared_with_a_reason_and_remembered_in_the_audit(
    orders: LakehouseTable, synced: Synced, admin: User
) -> None:
    commit(orders, shop("a"))
    row = synced()
    group = {"name": "pay", "ordering": ["pay_ts"], "columns": ["paid"]}
    types = {"pay_ts": "timestamp", "paid": "double"}

    do_declare_stream(row, group, types, reason="payments join", typed_name="orders", by=admin)

    board = streams_board(synced(), ALL_ROWS)
    assert [one.name for one in board.streams] == ["shop", "ship", "pay"]
    events = AuditEvent.objects.filter(what="stream.declare").order_by("pk")
    assert [one.result for one in events] == ["requested", "succeeded"]


@pytest.mark.parametrize(
    ("change", "typed"),
    [
        ({"columns": ["price"]}, "orders"),
        ({"name": "shop"}, "orders"),
        ({"name": "no good"}, "orders"),
        ({}, "another"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_and_nothing_changes(
    orders: LakehouseTable, synced: Synced, admin: User, change: dict[str, Any], typed: str
) -> None:
    commit(orders, shop("a"))
    row = synced()
    group = {"name": "pay", "ordering": ["pay_ts"], "columns": ["paid"], **change}
    types = dict.fromkeys([*group["ordering"], *group["columns"]], "double")

    with pytest.raises(InvalidRequest):
        do_declare_stream(row, group, types, reason="why", typed_name=typed, by=admin)

    assert [one.name for one in streams_board(synced(), ALL_ROWS).streams] == ["shop", "ship"]


@pytest.mark.parametrize(
    "groups_json", [None, "", "{", "[]", "7", '{"a": 3}', '{"a": {"rows": "many"}}']
)
def test_nonsense_in_commit_metadata_is_no_fact(groups_json: str | None) -> None:
    assert groups_of_commit(groups_json).get("groups", {}).get("a", {}) == {}
