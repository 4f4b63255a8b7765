"""The Streams page: what it shows of a joined table, who may do what on it, and its figures."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from controlplane.mirror.group_rows import GroupCommitRow
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.queries.streams import (
    CompletenessPoint,
    CoverageColumn,
    CoverageMap,
    streams_board,
)
from controlplane.mirror.streams import measure
from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.support.joined import commit, make
from tests.support.rows_seen import ALL_ROWS
from web import stream_figures as figures
from workers import open_table
from workers.clock import parse_instant
from workers.options.time_units import AHEAD_MAX_MS

QUERIES_MAX = 12
"""Five of them put into the audit that somebody asked about a key."""
NOON_MS = 1_777_636_800_000
STREAMS = ["shop", "ship"]


@pytest.fixture
def operator(db: None) -> User:
    user = User.objects.create_user("olaf", password="a long password")
    user.groups.add(Group.objects.get(name="operator"))
    return user


@pytest.fixture
def joined(root: Path, admin: User) -> Table:
    table = make(root)
    commit(table, {"id": "a", "shop_ts": NOON_MS, "price": 1.0}, {"id": "b", "shop_ts": NOON_MS})
    commit(table, {"id": "a", "ship_ts": NOON_MS - 60_000, "road": "x"})
    commit(table, {"id": "b", "shop_ts": NOON_MS + 1, "_hoodie_is_deleted": True})
    row = do_register_table(location=table.location, slug="orders", by=admin)
    sync_table(row)
    row.refresh_from_db()
    measure(row)
    return row


def arrival(group: str, arrived_s: int, event_s: int, rows: int = 1) -> GroupCommitRow:
    return GroupCommitRow(
        group=group,
        instant="20260501120000000",
        arrived_ms=NOON_MS + arrived_s * 1000,
        greatest_ms=NOON_MS + event_s * 1000,
        least_ms=NOON_MS + event_s * 1000,
        rows=rows,
        late=0,
    )


def test_page_says_how_far_streams_are_and_who_waits_for_whom(
    client: Client, viewer: User, joined: Table
) -> None:
    client.force_login(viewer)

    text = client.get("/t/orders/streams").content.decode()

    assert "has shop" in text
    assert "coverage-figure" in text
    assert "2026-05-01T12:00:00" in text
    assert "Launch a writer" not in text


def test_processing_lag_stands_beside_event_lag_and_both_say_what_they_mean(
    client: Client, viewer: User, joined: Table
) -> None:
    client.force_login(viewer)

    text = client.get("/t/orders/streams/parts/board").content.decode()
    live = client.get("/t/orders/live/streams").content.decode()

    heads = re.findall(r'<th scope="col" class="num" title="From the newest (\w+) to now', text)
    assert heads == ["event", "commit"]
    assert text.index(">Event lag<") < text.index(">Processing lag<")
    row = text[text.index('data-key="ship"') :]
    event_lag, processing_lag = re.findall(r'class="num">\s*(<time [^>]*data-ago)', row)
    assert "2026-05-01T11:59:00" in event_lag
    [newest] = InstantRecord.objects.filter(table=joined).order_by("-completed_at")[1:2]
    at = datetime.fromtimestamp(parse_instant(newest.completed_at or "") / 1000, UTC)
    assert at.isoformat(timespec="milliseconds").replace("+00:00", "Z") in processing_lag
    assert 'title="Processing lag. From the newest commit to now' in live


def test_map_of_columns_ends_at_the_clock_and_counts_what_claims_to_be_later(
    client: Client, viewer: User, joined: Table
) -> None:
    year = datetime.now(UTC) + timedelta(days=365)
    ahead = {"id": "c", "ship_ts": int(year.timestamp() * 1000), "road": "x"}
    commit(open_table(joined.location), ahead)
    sync_table(joined)
    assert measure(joined, now=datetime.now(UTC) + timedelta(seconds=30))
    client.force_login(viewer)

    text = client.get("/t/orders/streams").content.decode()
    coverage = client.get("/api/v1/tables/orders/streams/join/").json()["coverage"]

    assert "1 row ahead of the clock" in text
    assert coverage["rows_beyond"] == 1
    assert sum(coverage["rows"]) == 2, "a, and what is ahead"
    assert coverage["starts_ms"][-1] <= datetime.now(UTC).timestamp() * 1000 + AHEAD_MAX_MS


@pytest.mark.parametrize("part", ["board", "presence", "logs", "writers"])
def test_parts_refresh_by_themselves(
    client: Client, viewer: User, joined: Table, part: str
) -> None:
    client.force_login(viewer)

    assert client.get(f"/t/orders/streams/parts/{part}").status_code == 200
    assert client.get("/t/orders/streams/parts/nothing").status_code == 404


def test_why_answers_in_words_and_links_to_the_commit(
    client: Client, viewer: User, joined: Table
) -> None:
    client.force_login(viewer)

    never = client.get("/t/orders/streams", {"key": "b", "column": "road"}).content.decode()
    refused = client.get("/t/orders/streams", {"key": "b", "column": "id"}).content.decode()

    assert "ship has never written this key." in never
    assert "A write of ship with this key and any ship_ts." in never
    assert "in no group" in refused


def test_page_asks_the_database_a_bounded_number_of_times(
    client: Client,
    viewer: User,
    joined: Table,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    client.force_login(viewer)
    client.get("/t/orders/streams")  # The first look at its keys is recorded for ten minutes.

    with django_assert_max_num_queries(QUERIES_MAX):
        client.get("/t/orders/streams", {"key": "b", "column": "road"})


def test_text_of_a_key_is_escaped(client: Client, viewer: User, joined: Table) -> None:
    client.force_login(viewer)

    text = client.get("/t/orders/streams", {"key": "<script>x</script>"}).content.decode()

    assert "<script>x" not in text


def test_a_table_without_streams_says_how_to_get_them(
    client: Client, viewer: User, trips: Table
) -> None:
    client.force_login(viewer)

    text = client.get(f"/t/{trips.slug}/streams").content.decode()

    assert "hoodie.multistream.groups" in text


def test_operator_launches_a_writer_of_a_stream_and_may_stop_it(
    client: Client, operator: User, joined: Table
) -> None:
    client.force_login(operator)
    form = {"stream": "ship", "kind": "parquet", "path": "/data/vans.parquet", "reason": "vans"}

    answer = client.post("/t/orders/streams/launch", form)

    operation = Operation.objects.get()
    job = operation.parameters["job"]
    assert answer["Location"] == f"/t/orders/operations/{operation.pk}"
    assert (job["stream"], job["source"]["kind"]) == ("ship", "parquet")
    assert job["options"]["hoodie.write.concurrency.mode"] == "NON_BLOCKING_CONCURRENCY_CONTROL"
    text = client.get("/t/orders/streams").content.decode()
    assert f"/t/orders/operations/{operation.pk}/cancel" in text


def test_a_writer_of_an_unknown_stream_or_source_is_refused(
    client: Client, operator: User, joined: Table
) -> None:
    client.force_login(operator)
    for form in ({"stream": "none", "kind": "csv"}, {"stream": "ship", "kind": "shell"}):
        answer = client.post("/t/orders/streams/launch", {**form, "path": "/x"}, follow=True)
        assert "tone-bad" in answer.content.decode()

    assert not Operation.objects.exists()


def test_viewers_neither_launch_nor_declare(client: Client, viewer: User, joined: Table) -> None:
    client.force_login(viewer)

    assert client.post("/t/orders/streams/launch", {}).status_code == 403
    assert client.post("/t/orders/streams/declare", {}).status_code == 403
    assert "requires the" in client.get("/t/orders/streams/declare").content.decode()


def declaration(**changes: str) -> dict[str, str]:
    return {
        "name": "pay",
        "ordering": "pay_ts",
        "ordering_type": "timestamp",
        "columns": "paid double\nmethod: string",
        "null_mode": "overwrite",
        "on_late": "ignore",
        "delete": "group",
        "typed_name": "orders",
        "reason": "payments join",
    } | changes


def test_admin_declares_a_stream(client: Client, admin: User, joined: Table) -> None:
    client.force_login(admin)

    answer = client.post("/t/orders/streams/declare", declaration())

    assert answer.status_code == 302
    sync_table(joined)
    joined.refresh_from_db()
    assert joined.groups[-1]["name"] == "pay"
    assert joined.groups[-1]["columns"] == ["paid", "method"]


def test_a_declared_stream_hides_no_row_of_an_inner_join(
    client: Client, admin: User, root: Path
) -> None:
    table = make(root, options={"hoodie.multistream.join": "inner"})
    commit(table, {"id": "a", "shop_ts": NOON_MS, "price": 1.0}, {"id": "b", "shop_ts": NOON_MS})
    commit(table, {"id": "a", "ship_ts": NOON_MS, "road": "x"})
    row = do_register_table(location=table.location, slug="orders", by=admin)
    client.force_login(admin)

    assert client.post("/t/orders/streams/declare", declaration()).status_code == 302

    sync_table(row)
    measure(row)
    row.refresh_from_db()
    board = streams_board(row, ALL_ROWS)
    assert (board.join, board.hidden) == ("with shop, ship", 1)
    assert [one.is_needed for one in board.streams] == [True, True, False]
    assert open_table(table.location).read().column("id").to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"columns": "paid money"}, 422, "types are"),
        ({"name": "no good"}, 422, "Use letters, digits"),
        ({"reason": ""}, 422, "Enter a reason"),
        ({"typed_name": "others"}, 400, "not the name of this table"),
        ({"columns": "price double"}, 400, "one group"),
    ],
)
def test_a_declaration_that_cannot_be_keeps_what_was_typed(
    client: Client, admin: User, joined: Table, changes: dict[str, str], status: int, words: str
) -> None:
    client.force_login(admin)

    answer = client.post("/t/orders/streams/declare", declaration(**changes))

    text = answer.content.decode()
    assert answer.status_code == status
    assert words in text
    assert "pay_ts" in text


def test_watermarks_only_rise_and_no_delay_is_drawn_beside_them() -> None:
    arrivals = [arrival("shop", 10, 5), arrival("shop", 20, 1), arrival("ship", 30, 29)]

    figure: Any = figures.watermark(arrivals, STREAMS)

    assert [one["name"] for one in figure["data"]] == ["shop", "ship", "no delay"]
    assert figure["data"][0]["y"] == ["2026-05-01 12:00:05", "2026-05-01 12:00:05"]
    assert figures.watermark([], STREAMS) is None


def test_lag_is_told_in_a_unit_that_fits() -> None:
    figure: Any = figures.lag([arrival("shop", 7200, -3600)], STREAMS)

    assert figure["layout"]["yaxis"]["title"]["text"] == "hours"
    assert figure["data"][0]["y"] == [3.0]


def test_delays_are_counted_by_rows_in_bins() -> None:
    arrivals = [arrival("shop", 0, 0, 5), arrival("shop", 90, 0, 2), arrival("ship", 10**6, 0)]

    counts = figures.delays(arrivals, STREAMS)

    assert counts["shop"] == [5, 0, 0, 2, 0, 0, 0, 0]
    assert counts["ship"] == [0, 0, 0, 0, 0, 0, 0, 1]
    assert figures.lateness({"shop": [0] * 8}) is None


def test_coverage_leaves_times_without_rows_empty() -> None:
    coverage = CoverageMap(
        by="event",
        starts_ms=[NOON_MS, NOON_MS + 60_000],
        width_ms=60_000,
        rows=[4, 0],
        columns=[CoverageColumn(group="<b>", column="price", share_pct=[50.0, 0.0])],
        columns_left_out=0,
        rows_beyond=0,
    )

    figure = figures.coverage(coverage)

    assert figure["data"][0]["z"] == [[50.0, None]]
    assert figure["data"][0]["y"] == ["&lt;b&gt; · price"]


def test_completeness_needs_two_points() -> None:
    at = datetime(2026, 5, 1, tzinfo=UTC)
    points = [
        CompletenessPoint(
            at=at + timedelta(minutes=n), keys=2, complete_pct=50.0, by_group={"shop": 100.0}
        )
        for n in range(2)
    ]

    assert figures.completeness(points[:1], STREAMS) is None
    figure = figures.completeness(points, STREAMS)
    assert figure is not None
    assert [one["name"] for one in figure["data"]] == ["shop", "ship", "complete"]
    assert "scattergl" not in json.dumps(figure)


def test_freshness_is_told_as_of_a_stated_moment(
    client: Client, admin: User, joined: Table
) -> None:
    client.force_login(admin)

    def page(at: str) -> str:
        return client.get("/t/orders/streams", {"at": at}).content.decode()

    now, then, never = page(""), page("2026-01-01T00:00:00"), page("<b>soon</b>")

    assert "now; choose another moment" in now
    assert 'aria-label="How fresh each stream was"' in now
    assert "no commit of it is known that is as old" in then
    assert 'value="2026-01-01T00:00:00"' in then
    assert "That was no date and time" in never
    assert "<b>soon" not in never
