"""Wall mode: the live page goes from one busy table to the next, of those that somebody sees."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.tables.models import Table
from tests.web.conftest import fill


@pytest.fixture
def three(admin: User) -> None:
    """Two busy tables, and one where nothing goes on."""
    fill("ads", admin)
    fill("bids", admin)
    Table.objects.create(slug="calm", name="calm", location="/tables/calm", registered_by=admin)


def next_of(client: Client, address: str) -> str:
    found_in = re.search(r'data-next="([^"]*)"', client.get(address).content.decode())
    assert found_in is not None
    return found_in.group(1).replace("&amp;", "&")


@pytest.mark.usefixtures("three")
def test_goes_round_the_busy_tables_and_keeps_its_pace(as_viewer: Client) -> None:
    assert next_of(as_viewer, "/t/ads/live?wall=60") == "/t/bids/live?wall=60"
    assert next_of(as_viewer, "/t/bids/live?wall=60") == "/t/ads/live?wall=60"
    assert next_of(as_viewer, "/t/calm/live?wall") == "/t/ads/live?wall="


@pytest.mark.sampled(every=3)
@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("asked_s", "seconds"),
    [("", 20), ("60", 60), ("0", 5), ("9" * 30, 3600), ("-1", 20), ("²", 20)],
)
def test_pace_has_bounds_whatever_the_address_says(
    as_viewer: Client, asked_s: str, seconds: int
) -> None:
    page = as_viewer.get("/t/ads/live", {"wall": asked_s}).content.decode()

    assert f'data-wall="{seconds}"' in page


@pytest.mark.usefixtures("three")
def test_stays_in_its_namespace(as_viewer: Client) -> None:
    Table.objects.filter(slug="bids").update(namespace="sales")
    fill("clicks", User.objects.get(username="ada"))

    assert next_of(as_viewer, "/t/ads/live?wall&namespace=sales") == (
        "/t/bids/live?wall=&namespace=sales"
    )
    assert next_of(as_viewer, "/t/bids/live?wall&namespace=sales") == ""


@pytest.mark.usefixtures("three")
def test_without_the_word_it_is_the_page_as_ever(as_viewer: Client) -> None:
    page = as_viewer.get("/t/ads/live").content.decode()

    assert "data-wall" not in page
    assert 'href="?wall"' in page
