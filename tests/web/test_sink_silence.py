"""When a sink counts as silent: one bound, by the time of its last word."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.tables.models import Table
from tests.support.sinks import NOW_MS, stopped_state, stuck_state
from tests.web.test_sinks_page import PAGE, words
from workers.sink.state_file import put_state
from workers.sink.stop_request import StopKind, StopRequest, request_stop


@pytest.mark.parametrize(("said_ms_ago", "phase"), [(13_000, "running"), (15_000, "silent")])
def test_page_api_and_health_share_one_bound_of_silence(
    client: Client, viewer: User, orders: Table, said_ms_ago: int, phase: str
) -> None:
    """By the time of the last word in the database: nothing is synced in between."""
    now_ms = int(timezone.now().timestamp() * 1000)
    said = replace(stuck_state(missing=-1), updated_ms=now_ms - said_ms_ago)
    put_state(storage_of(orders), said)
    sync_table(orders)
    client.force_login(viewer)

    page, listed = words(client), words(client, f"{PAGE}/list")
    [told_by_api] = client.get("/api/v1/tables/orders/sinks/").json()
    health = {one.name: one.verdict for one in health_checks(orders, timezone.now())}

    due = f'data-due="{said.updated_ms + 15_000}"'
    assert told_by_api["phase"] == phase
    assert health["sinks"] == {"running": "good", "silent": "bad"}[phase]
    for shown in (page, listed):
        assert f'data-state="{phase}"' in shown
        assert (due in shown) is (phase == "running"), "the browser asks again then"


def test_what_was_asked_to_stop_or_ended_is_no_silent_sink_to_health(orders: Table) -> None:
    put_state(storage_of(orders), replace(stopped_state(), updated_ms=NOW_MS - 600_000))
    stopping = replace(stuck_state(sink_id="b-second"), updated_ms=NOW_MS - 600_000)
    put_state(storage_of(orders), stopping)
    request_stop(storage_of(orders), "b-second", StopRequest(StopKind.HARD, "ada", NOW_MS))
    sync_table(orders)

    [check] = [one for one in health_checks(orders, timezone.now()) if one.name == "sinks"]

    assert check.verdict == "good"
