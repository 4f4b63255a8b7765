"""The demo's buttons start real operations, for admins, on the demo's table only."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.web.conftest import fill


@pytest.mark.parametrize("button", ["conflict", "schema"])
def test_admin_starts_two_writers(button: str, busy: Table, as_admin: Client) -> None:
    answer = as_admin.post(f"/t/ads/demo/{button}", follow=True)

    assert answer.redirect_chain == [("/t/ads/live", 302)]
    assert Operation.objects.filter(kind="write").count() == 2
    assert b"tone-good" in answer.content


def test_killing_when_nobody_writes_says_so(busy: Table, as_admin: Client) -> None:
    answer = as_admin.post("/t/ads/demo/kill", follow=True)

    assert b"No demo writer is running" in answer.content


@pytest.mark.parametrize("button", ["conflict", "schema", "kill"])
def test_viewer_sees_them_disabled_and_cannot_press_them(
    button: str, busy: Table, as_viewer: Client
) -> None:
    html = as_viewer.get("/t/ads/live").content.decode()

    assert html.count("disabled>") == 3
    assert "needs the role admin" in html
    assert as_viewer.post(f"/t/ads/demo/{button}").status_code == 403


def test_buttons_are_pressed_by_post_only(busy: Table, as_admin: Client) -> None:
    assert as_admin.get("/t/ads/demo/conflict").status_code == 405


def test_other_tables_have_none(admin: User, as_admin: Client) -> None:
    fill("weather", admin)
    Table.objects.filter(slug="weather").update(record_key="id")

    assert b"Kill a writer" not in as_admin.get("/t/weather/live").content
    assert as_admin.post("/t/weather/demo/conflict").status_code == 404
    assert not Operation.objects.filter(kind="write").exists()
