"""What was taken back stays on the timeline and on the live page, as long as a window shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.models import UndoneRecord
from controlplane.mirror.sync import forget_mirror, sync_table
from controlplane.mirror.timeline_rows import timeline_window
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.support.lost_writes import LostWrites, copied
from workers import open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_services import registry
from workers.table_services.service import ServiceRequest


@pytest.fixture
def contested(root: Path, admin: User, lost_writes_once: LostWrites) -> tuple[Table, LostWrites]:
    made = copied(lost_writes_once, root / "contested")
    location = str(made.location)
    table = do_register_table(location=location, slug="contested", name="contested", by=admin)
    sync_table(table)
    return table, made


@pytest.fixture
def undone(trips: Table) -> tuple[Table, str, str]:
    """Its newest commit was mirrored, then rolled back; that commit and its rollback."""
    newest = timeline_window(trips).rows[0].requested_at
    opened = open_table(trips.location).table
    rollback(opened, RollbackRequest(newest, by="ada", reason="wrong"), write_options({}))
    sync_table(trips)
    return trips, newest, timeline_window(trips, actions=["rollback"]).rows[0].requested_at


def marks(client: Client, slug: str) -> dict[tuple[str, str], list[str]]:
    """Instants of the chart, by state and kind of mark."""
    figure: dict[str, Any] = client.get(f"/t/{slug}/timeline/figure?range=24h").json()["figure"]
    return {
        (trace["meta"]["state"], trace["type"]): [row[0] for row in trace["customdata"]]
        for trace in figure["data"]
    }


@pytest.mark.slow
def test_rolled_back_commit_stays_on_chart_table_and_live_page(
    undone: tuple[Table, str, str], as_viewer: Client
) -> None:
    table, commit, by = undone

    drawn = marks(as_viewer, table.slug)
    rows = as_viewer.get("/t/trips/timeline/rows?range=24h").content.decode()
    live = as_viewer.get("/t/trips/live/undone").content.decode()

    assert drawn["rolled_back", "bar"] == drawn["rolled_back", "scatter"] == [commit]
    for shown in (rows, live):
        assert f'href="/t/trips/timeline?sel={by}"' in shown, "the link to its rollback"
        assert f"sel={commit}" in shown


@pytest.mark.slow
def test_what_was_seen_of_it_stays_and_an_emptied_mirror_knows_that_it_was(
    undone: tuple[Table, str, str],
) -> None:
    table, commit, by = undone
    [seen] = timeline_window(table, states=["rolled_back"]).rows
    assert (seen.requested_at, seen.rows, seen.undone_by) == (commit, 9, by)

    forget_mirror(table)
    sync_table(table)

    [again] = timeline_window(table, states=["rolled_back"]).rows
    assert (again.requested_at, again.undone_at, again.undone_by) == (commit, seen.undone_at, by)
    assert again.rows is None, "storage keeps nothing of it"


def test_conflicted_writes_stay_with_a_link_to_their_conflict(
    contested: tuple[Table, LostWrites], as_viewer: Client
) -> None:
    table, made = contested
    losers = {made.write, made.early, made.schema, made.service}

    drawn = marks(as_viewer, table.slug)
    rows = as_viewer.get("/t/contested/timeline/rows?range=24h").content.decode()
    live = as_viewer.get("/t/contested/live/undone").content.decode()

    assert set(drawn["conflicted", "bar"]) == set(drawn["conflicted", "scatter"]) == losers
    for loser in losers:
        assert f'href="/t/contested/conflicts/{loser}"' in rows
        assert f'href="/t/contested/conflicts/{loser}"' in live


def test_a_window_counts_and_pages_over_what_was_taken_back(
    contested: tuple[Table, LostWrites],
) -> None:
    table, _ = contested
    whole = timeline_window(table)
    paged: list[str] = []
    cursor = None
    while True:
        window = timeline_window(table, limit=2, cursor=cursor)
        paged += [f"{row.requested_at}.{row.action}" for row in window.rows]
        if (cursor := window.next_cursor) is None:
            break

    assert paged == [f"{row.requested_at}.{row.action}" for row in whole.rows]
    assert UndoneRecord.objects.filter(table=table).count() >= 4


def test_it_is_off_the_timeline_once_its_end_is_before_the_window(
    undone: tuple[Table, str, str],
) -> None:
    table, _, by = undone
    [row] = timeline_window(table, states=["rolled_back"]).rows
    assert row.undone_at is not None

    later = str(int(row.undone_at) + 1)

    assert timeline_window(table, states=["rolled_back"], since=later).rows == []
    assert timeline_window(table, states=["rolled_back"], since=by).rows == [row]


def test_panel_of_a_rolled_back_instant_says_by_what(
    undone: tuple[Table, str, str], as_viewer: Client
) -> None:
    _, commit, by = undone

    html = as_viewer.get(f"/t/trips/timeline/instant/{commit}").content.decode()

    assert "<dt>Rolled back</dt>" in html
    assert f'data-instant="{by}"' in html
    assert "Plan rollback" not in html


@pytest.mark.slow
def test_savepoint_is_a_flag_at_the_time_it_was_made(trips: Table, as_viewer: Client) -> None:
    commit = timeline_window(trips).rows[0]
    request = ServiceRequest(by="ada", parameters={"instant": commit.requested_at})
    opened = open_table(trips.location).table
    registry.get_service("savepoint").run(opened, request, write_options({}))
    sync_table(trips)

    [row] = timeline_window(trips, actions=["savepoint"]).rows
    drawn = marks(as_viewer, "trips")
    figure = as_viewer.get("/t/trips/timeline/figure?range=24h").json()["figure"]

    assert drawn["savepoint", "scatter"] == [commit.requested_at]
    assert row.began_ms == row.completed_ms != commit.requested_ms
    assert [shape["name"] for shape in figure["layout"]["shapes"]].count("tie") == 1
    before = timeline_window(trips, actions=["savepoint"], until=commit.completed_at).rows
    assert before == [], "a window that ends before it was made"
