"""Figures of the page Markers, and how the page shows direct and orphaned markers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from controlplane.mirror.models import InstantRecord, MarkerDirectory, ServerSample
from controlplane.operations.queries import SampleRow, marker_server_status
from controlplane.tables.models import Table
from controlplane.writers.markers import marker_directories
from web.marker_figures import (
    batch_sizes,
    compare_batches,
    fill_of_files,
    latencies,
    pending_markers,
    queue_depth,
    size_bars,
)
from workers.clock import format_instant

NOON = datetime(2026, 9, 21, 12, tzinfo=UTC)
SAMPLE = SampleRow(
    at=NOON, up=True, queue_depth=4, batches=10, requests=30, markers=50,
    batch_sizes={"16-31": 1, "2-3": 9}, p50_ms=1.5, p95_ms=4.0,
)  # fmt: skip


def test_moment_without_an_answer_is_a_gap_and_axes_name_time_and_unit() -> None:
    silent = replace(SAMPLE, at=NOON + timedelta(seconds=5), up=False, p50_ms=None, p95_ms=None)

    depth, latency = queue_depth([SAMPLE, silent]), latencies([SAMPLE, silent])

    [depths] = depth["data"]
    assert (depths["x"], depths["y"]) == (["2026-09-21 12:00:00", "2026-09-21 12:00:05"], [4, None])
    assert depth["layout"]["xaxis"]["title"]["text"] == "UTC"
    assert depth["layout"]["yaxis"]["title"]["text"] == "names waiting"
    assert [(line["name"], line["y"]) for line in latency["data"]] == [
        ("p50", [1.5, None]),
        ("p95", [4.0, None]),
    ]
    assert latency["layout"]["yaxis"]["title"]["text"] == "ms"
    assert latencies([silent])["data"] == queue_depth([])["data"] == []


def sample(at_s: float, *, batches: int, markers: int, requests: int) -> None:
    ServerSample.objects.create(
        at=timezone.now() - timedelta(seconds=at_s), up=True, batches=batches, markers=markers,
        requests=requests, batch_sizes={"16-31": 1, "2-3": batches},
    )  # fmt: skip


@pytest.mark.django_db
def test_saved_writes_are_markers_less_batches_in_both_periods() -> None:
    sample(60, batches=10, markers=100, requests=40)
    sample(1, batches=30, markers=300, requests=100)

    status = marker_server_status()

    assert status.recent is not None
    assert status.total is not None
    assert (status.recent.batches, status.recent.saved, status.total.saved) == (20, 180, 270)
    assert (status.recent.markers_per_batch, status.recent.requests_per_batch) == (10.0, 3.0)
    batched, direct = compare_batches([("last 5 minutes", status.recent)])["data"]
    assert (batched["y"], direct["y"]) == ([20], [200])
    assert batch_sizes(status) == [("2 to 3", 30), ("16 to 31", 1)]
    assert size_bars(batch_sizes(status))["data"][0]["x"] == ["2 to 3", "16 to 31"]


@pytest.mark.django_db
def test_restarted_server_has_no_recent_totals() -> None:
    sample(60, batches=10, markers=100, requests=40)
    sample(1, batches=2, markers=3, requests=4)

    status = marker_server_status()

    assert status.recent is None
    assert status.total is not None
    assert status.total.saved == 1


def keep(table: Table, number: int, *, layout: str, files: list[tuple[str, int]]) -> str:
    instant = format_instant(1_790_000_000_000 + number)
    MarkerDirectory.objects.create(
        table=table, instant=instant, layout=layout, by_file=files, changed_at=timezone.now(),
        markers=sum(count for _, count in files) or 7,
    )  # fmt: skip
    return instant


def begin(table: Table, instant: str) -> None:
    InstantRecord.objects.create(
        table=table, requested_at=instant, action="commit", state="inflight"
    )


def test_page_shows_direct_writers_fill_and_the_way_to_delete_orphans(
    trips: Table, as_admin: Client, as_viewer: Client
) -> None:
    direct = keep(trips, 1, layout="direct", files=[])
    begin(trips, direct)
    orphan = keep(
        trips, 2, layout="timeline_server_based", files=[("MARKERS0", 3), ("MARKERS1", 2)]
    )

    directories = marker_directories(trips, timezone.now())
    html = as_admin.get("/t/trips/markers").content.decode()

    [bar] = fill_of_files(directories)["data"]
    assert (bar["x"], bar["y"]) == (["0", "1"], [3, 2])
    assert pending_markers(directories)["data"][0]["x"] == [7, 5]
    assert "Direct markers have no MARKERS files" in html
    assert "1 instant left markers behind" in html
    assert html.count("orphaned</span>") == 1
    assert f"/t/trips/markers/{orphan}" in html
    plan = reverse("service", args=["trips", "delete_markers"])
    assert f'href="{plan}"' in html
    assert plan not in as_viewer.get("/t/trips/markers").content.decode()


def test_page_without_markers_and_server_says_so(trips: Table, as_viewer: Client) -> None:
    html = as_viewer.get("/t/trips/markers").content.decode()

    for words in ("No pending markers", "The marker server is not running", "No batches yet"):
        assert words in html
