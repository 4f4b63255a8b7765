"""The demo's buttons start real operations, for admins, on the demo's table only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from controlplane.demo.streams import DemoRun, start_streams
from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.web.conftest import fill
from workers.demo.ad_requests import STREAMS


@pytest.mark.parametrize("button", ["conflict", "schema"])
def test_admin_starts_two_writers(button: str, busy: Table, as_admin: Client) -> None:
    answer = as_admin.post(f"/t/ads/demo/{button}", follow=True)

    assert answer.redirect_chain == [("/t/ads/live", 302)]
    assert Operation.objects.filter(kind="write").count() == 2
    assert b"tone-good" in answer.content


def test_button_that_cannot_work_now_is_disabled_with_the_reason(
    busy: Table, as_admin: Client
) -> None:
    as_admin.post("/t/ads/demo/schema")

    html = as_admin.get("/t/ads/live").content.decode()

    tags = re.findall(r'/demo/(\w+)">.*?<button(.*?)>', html, re.DOTALL)
    assert {name for name, tag in tags if "disabled" in tag} == {"schema", "kill"}
    assert "two writers change the schema already; wait until both have ended" in html
    assert "start the demo again first" in html


def test_killing_when_nobody_writes_says_so(busy: Table, as_admin: Client) -> None:
    answer = as_admin.post("/t/ads/demo/kill", follow=True)

    assert b"No demo writer runs on this machine" in answer.content


@pytest.mark.parametrize("button", ["conflict", "schema", "kill"])
def test_viewer_sees_them_disabled_and_cannot_press_them(
    button: str, busy: Table, as_viewer: Client
) -> None:
    html = as_viewer.get("/t/ads/live").content.decode()

    assert html.count("disabled>") >= 3
    assert "requires the admin role" in html
    assert as_viewer.post(f"/t/ads/demo/{button}").status_code == 403


def test_buttons_are_pressed_by_post_only(busy: Table, as_admin: Client) -> None:
    assert as_admin.get("/t/ads/demo/conflict").status_code == 405


def test_other_tables_have_none(admin: User, as_admin: Client) -> None:
    fill("weather", admin)
    Table.objects.filter(slug="weather").update(record_key="id")

    assert b"Kill a writer" not in as_admin.get("/t/weather/live").content
    assert as_admin.post("/t/weather/demo/conflict").status_code == 404
    assert not Operation.objects.filter(kind="write").exists()


@pytest.fixture
def demo(root: Path, admin: User) -> Table:
    """Its streams were asked for as `manage.py demo --start` does it, and have ended since."""
    started = start_streams(admin, DemoRun(rounds=2))
    Operation.objects.update(state="succeeded")
    sync_table(started.table)
    return started.table


def signed_in(role: str) -> Client:
    user = User.objects.create_user(f"a {role}", password="a long enough password")
    user.groups.add(Group.objects.get(name=role))
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    return client


def press(client: Client, *, with_token: bool = True) -> int:
    form = client.get("/t/ad-requests/live").content.decode()
    [token] = set(re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form)) or {""}
    given = {"csrfmiddlewaretoken": token} if with_token else {}
    return client.post("/t/ad-requests/demo/start", given).status_code


@pytest.mark.slow
def test_operator_starts_the_demo_again_once_it_has_ended(demo: Table) -> None:
    operator = signed_in("operator")
    assert b"Start the demo again" in operator.get("/t/ad-requests/live").content

    assert press(operator) == 302

    running = Operation.objects.filter(state="queued")
    sources = [one.parameters["job"]["source"] for one in running.order_by("requested_at")]
    assert [one["stream"] for one in sources] == list(STREAMS)
    assert {one.requested_by.get_username() for one in running if one.requested_by} == {
        "a operator"
    }
    assert b"Start the demo again" not in operator.get("/t/ad-requests/live").content
    assert press(operator) == 302
    assert Operation.objects.filter(state="queued").count() == 3, "nothing is started twice"


def test_viewer_and_whoever_has_no_token_do_not_start_it(demo: Table) -> None:
    viewer, operator = signed_in("viewer"), signed_in("operator")

    shown = viewer.get("/t/ad-requests/live").content.decode()

    [button] = [one for one in shown.split("<button") if "Start the demo again" in one]
    assert " disabled>" in button
    assert viewer.post("/t/ad-requests/demo/start").status_code == 403
    assert press(operator, with_token=False) == 403
    assert press(viewer) == 403
    assert not Operation.objects.filter(state="queued").exists()


def test_only_the_demos_own_table_starts_it(busy: Table, as_admin: Client) -> None:
    assert as_admin.post("/t/ads/demo/start").status_code == 404
    assert as_admin.get("/t/ad-requests/demo/start").status_code == 405
