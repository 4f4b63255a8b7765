"""Every page of a table says how old it is, and why, when the mirror cannot read it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from controlplane.mirror.models import SyncMark
from controlplane.tables.freshness import freshness
from controlplane.tables.models import Table
from controlplane.tables.problems import Problem
from tests.support.markup import compact
from web.shell import PLACES

_FOLDER = "its folder is not there"


@pytest.fixture
def lost(trips: Table) -> Table:
    """It was moved away five minutes ago."""
    since = timezone.now() - timedelta(minutes=5)
    Table.objects.filter(pk=trips.pk).update(sync_error="no table here: location=/lake/trips")
    SyncMark.objects.update_or_create(
        table=trips, defaults={"problem": Problem.GONE.value, "failing_since": since}
    )
    return trips


@pytest.mark.sampled(every=9)
@pytest.mark.parametrize("place", [place.page for place in PLACES if place.page != "rollback"])
def test_each_page_of_a_lost_table_says_so_above_its_last_good_state(
    lost: Table, as_viewer: Client, place: str
) -> None:
    page = compact(as_viewer.get(reverse(place, args=[lost.slug])).content.decode())

    assert "unreadable:" in page
    assert _FOLDER in page
    assert "This page shows the last readable state" in page
    assert "no table here: location=/lake/trips" in page


def test_list_says_that_a_table_is_lost_and_since_when(lost: Table, as_viewer: Client) -> None:
    page = compact(as_viewer.get(reverse("tables")).content.decode())

    assert f"{_FOLDER}, for" in page
    assert "5m" in page or "5 min" in page


def test_api_says_that_a_table_is_lost_and_since_when(lost: Table, as_viewer: Client) -> None:
    (row,) = as_viewer.get("/api/v1/tables/").json()["results"]

    assert (row["sync_state"], row["sync_problem"]) == ("unreadable", _FOLDER)
    assert row["sync_failing_since"]
    assert row["synced_at"]
    assert row["sync_age_s"] >= 0


def test_page_of_a_table_in_step_says_how_old_it_is_and_no_more(
    trips: Table, as_viewer: Client
) -> None:
    Table.objects.update(synced_at=timezone.now() - timedelta(seconds=4))

    page = compact(as_viewer.get(reverse("files", args=[trips.slug])).content.decode())

    assert "as of" in page
    assert "unreadable:" not in page
    assert "<strong>Stale:</strong>" not in page


def test_page_that_is_older_than_the_threshold_warns(trips: Table, as_viewer: Client) -> None:
    Table.objects.update(synced_at=timezone.now() - timedelta(minutes=3))

    page = compact(as_viewer.get(reverse("files", args=[trips.slug])).content.decode())

    assert "<strong>Stale:</strong>" in page


def test_parts_of_the_frame_are_fetched_anew(lost: Table, as_viewer: Client) -> None:
    notice = as_viewer.get(reverse("freshness", args=[lost.slug, "mirror_notice"]))
    assert _FOLDER in notice.content.decode()
    assert as_viewer.get(reverse("freshness", args=[lost.slug, "nothing"])).status_code == 404


def test_no_value_of_a_row_is_in_what_readers_get_of_the_error(lost: Table) -> None:
    Table.objects.filter(pk=lost.pk).update(
        sync_error="schema is not readable: table=/lake/trips value=Bergen"
    )
    lost.refresh_from_db()

    reason = freshness(lost).reason

    assert "schema is not readable: table=/lake/trips" in reason
    assert "Bergen" not in reason
