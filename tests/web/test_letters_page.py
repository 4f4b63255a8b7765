"""Dead letters on the Sinks page: read, chosen, confirmed and sent again, by an admin only."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.operations.actions import do_start_sink
from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.controlplane.left_out import leave_out, sent_again
from tests.support.markup import compact
from tests.support.sinks import SINK, TOPIC
from workers import create_table

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "city": pa.string()}
COLUMNS = pa.schema(_TYPES)
PAGE = "/t/orders/sinks"
REPLAY = f"{PAGE}/{SINK}/replay"
OPTIONS = {"hoodie.kafka.topic": TOPIC, "hoodie.sink.id": SINK}


@pytest.fixture
def orders(root: Path, admin: User) -> Table:
    location = str(root / "orders")
    create_table(
        location,
        name="orders",
        schema=COLUMNS,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    row = do_register_table(location=location, slug="orders", by=admin)
    do_start_sink(row, OPTIONS, by=admin)
    return row


@pytest.fixture
def instant(orders: Table) -> str:
    return leave_out(orders)


def words(client: Client, path: str) -> str:
    return compact(client.get(path).content.decode())


def test_letters_that_wait_can_be_chosen_by_an_admin_only(
    client: Client, admin: User, viewer: User, orders: Table, instant: str
) -> None:
    sent_again(orders, 9)
    client.force_login(viewer)
    seen = words(client, f"{PAGE}?dead_letters={instant}")
    client.force_login(admin)
    offered = words(client, f"{PAGE}?dead_letters={instant}")

    assert "requires the admin role" in seen
    assert 'value="0:7"' in offered
    assert 'value="0:9"' not in offered
    assert "by bob" in offered
    assert "?cause=not%20JSON" in offered
    assert "?cause=not%20UTF-8" not in offered
    client.force_login(viewer)
    assert client.get(f"{REPLAY}?instant={instant}").status_code == 403


def test_a_choice_is_confirmed_with_a_reason_and_a_double_click_is_one_operation(
    client: Client, admin: User, orders: Table, instant: str
) -> None:
    client.force_login(admin)
    question = words(client, f"{REPLAY}?instant={instant}&dead_letter=0:7")
    key = re.search(r'name="idempotency_key" value="([^"]+)"', question)
    assert key is not None
    assert "1 dead letter<" in question
    form = {"instant": instant, "dead_letter": "0:7", "idempotency_key": key[1]}

    without = client.post(REPLAY, form)
    first = client.post(REPLAY, {**form, "reason": "the producer is mended"})
    second = client.post(REPLAY, {**form, "reason": "the producer is mended"})

    assert (without.status_code, first.status_code, second.status_code) == (409, 302, 302)
    assert "is required" in without.content.decode()
    operation = Operation.objects.get(kind="replay")
    assert first["Location"] == second["Location"]
    assert str(operation.pk) in first["Location"]
    assert "Replay" in words(client, first["Location"])


def test_what_was_sent_already_says_so(
    client: Client, admin: User, orders: Table, instant: str
) -> None:
    sent_again(orders, 7, 9)
    client.force_login(admin)

    page = words(client, f"{REPLAY}?instant={instant}")
    refused = client.post(REPLAY, {"instant": instant, "reason": "again"})

    assert "Already replayed" in page
    assert "All 2 dead letters were already replayed to" in page
    assert refused.status_code == 409
    assert "already replayed" in refused.content.decode()
    assert not Operation.objects.filter(kind="replay").exists()
