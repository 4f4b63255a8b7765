"""What is switched on over a timeline: the address says it, chart and twin say the same, and each
names the instant that it rests on.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from tests.support.markup import compact
from tests.web.conftest import instant
from web.overlays import OverlayLine, chosen, shapes

NOON = 1_790_000_000_000
ALL = {"retained": "on", "savepoints": "on", "archive": "on"}
QUERIES_MAX = 12


@pytest.fixture
def cleaned(admin: User) -> Table:
    """One archived commit, one that a savepoint keeps, one that a clean names as its first."""
    now = datetime.now(UTC)
    table = Table.objects.create(slug="logs", name="logs", location="/lake/logs", synced_at=now)
    old, kept, first, clean = (instant(now, seconds=at) for at in (400, 300, 200, 100))
    rows: list[tuple[str, str, dict[str, Any], bool]] = [
        (old, "commit", {}, True),
        (kept, "commit", {}, False),
        (kept, "savepoint", {"by": "ada", "comment": "before <b>the</b> reload"}, False),
        (first, "commit", {}, False),
        (clean, "clean", {"earliest_to_retain": first}, False),
    ]
    for at, action, metadata, is_archived in rows:
        InstantRecord.objects.create(
            table=table, requested_at=at, action=action, state="completed",
            completed_at=at, metadata=metadata, is_archived=is_archived,
        )  # fmt: skip
    return table


def overlays(client: Client, texts: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Shapes of the chart by their name."""
    figure = json.loads(client.get("/t/logs/timeline/figure", texts).content)["figure"]
    drawn = figure["layout"]["shapes"]
    return {one["name"]: one for one in drawn if one["name"].startswith("overlay-")}


def test_nothing_lies_over_the_chart_until_it_is_switched_on(
    cleaned: Table, as_viewer: Client
) -> None:
    html = as_viewer.get("/t/logs/timeline").content.decode()

    assert overlays(as_viewer, {}) == {}
    assert "Chart overlays" not in html


def test_each_overlay_stands_in_the_chart_and_in_its_twin(
    cleaned: Table, as_viewer: Client
) -> None:
    drawn = overlays(as_viewer, ALL)
    html = compact(as_viewer.get("/t/logs/timeline", ALL).content.decode())
    twin = compact(as_viewer.get("/t/logs/timeline/rows", ALL).content.decode())

    assert set(drawn) == {"overlay-retained", "overlay-savepoints", "overlay-archive"}
    assert drawn["overlay-retained"]["type"] == "rect"
    assert drawn["overlay-archive"]["x0"] < drawn["overlay-savepoints"]["x0"]
    assert drawn["overlay-savepoints"]["x0"] < drawn["overlay-retained"]["x0"]
    for page in (html, twin):
        assert "kept by ada: before &lt;b&gt;the&lt;/b&gt; reload" in page
        assert "The newest clean retained every state" in page
        assert "The newest archived instant" in page


def test_one_of_them_alone_is_switched_on_by_the_address(cleaned: Table, as_viewer: Client) -> None:
    drawn = overlays(as_viewer, {"archive": "on"})

    archived = cleaned.instants.get(is_archived=True).requested_at
    assert set(drawn) == {"overlay-archive"}
    assert drawn["overlay-archive"]["x0"].startswith(f"{archived[:4]}-{archived[4:6]}")
    assert chosen({"archive": "on", "colour": "red"}) == ("archive",)


def test_table_without_any_of_it_says_so_in_the_twin(cleaned: Table, as_viewer: Client) -> None:
    cleaned.instants.exclude(is_archived=False, action="commit").delete()

    twin = as_viewer.get("/t/logs/timeline/rows", ALL).content.decode()

    assert "The active timeline has no clean" in twin
    assert "No savepoints." in twin
    assert "No archived instants" in twin


def test_clean_that_kept_versions_names_no_first_commit(cleaned: Table, as_viewer: Client) -> None:
    InstantRecord.objects.filter(action="clean").update(metadata={"earliest_to_retain": ""})

    twin = as_viewer.get("/t/logs/timeline/rows", ALL).content.decode()

    assert "retained file versions" in twin
    assert "overlay-retained" not in overlays(as_viewer, ALL)


def test_stretch_is_cut_at_the_window_and_moments_outside_are_left_out() -> None:
    stretch = OverlayLine(overlay="retained", words="", since_ms=NOON - 5_000, is_range=True)
    before = OverlayLine(overlay="savepoints", words="", since_ms=NOON - 1)
    later = OverlayLine(overlay="retained", words="", since_ms=NOON + 10_001, is_range=True)

    drawn = shapes([stretch, before, later], since_ms=NOON, until_ms=NOON + 10_000)

    assert [(one["x0"], one["x1"]) for one in drawn] == [
        ("2026-09-21 14:13:20.000", "2026-09-21 14:13:30.000")
    ]


def test_page_with_all_of_them_stays_within_its_queries(cleaned: Table, as_viewer: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        as_viewer.get("/t/logs/timeline", ALL)

    assert len(queries) <= QUERIES_MAX, [query["sql"][:90] for query in queries]
