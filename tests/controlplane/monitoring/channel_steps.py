"""Steps of tests about channels: an alert fires, and what is due is sent."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.mirror.health_check import Check, Verdict
from controlplane.monitoring.channels.actions import ChannelSpec
from controlplane.monitoring.channels.deliveries import do_deliver, list_due_messages
from controlplane.monitoring.channels.queries import MessageRow, list_messages
from controlplane.monitoring.health import update_alerts
from controlplane.tables.models import Table
from tests.support.receivers import Received, Receiver

MINUTE = timedelta(minutes=1)
HUSH = "hushhushhush"


def wish(receiver: Receiver, **changed: object) -> ChannelSpec:
    fields = {
        "name": "night watch",
        "kind": "webhook",
        "address": f"http://127.0.0.1:{receiver.port}/{HUSH}",
        "group_s": 0,
    }
    return ChannelSpec(**(fields | changed))  # type: ignore[arg-type]  # as its fields are


def judge(table: Table, verdict: Verdict, at: datetime, name: str = "compaction") -> None:
    check = Check(name=name, title="Compaction keeps up", verdict=verdict, sentence="12 <b>behind")
    update_alerts(table, [check], at)


def fire(table: Table, verdict: Verdict = "bad", name: str = "compaction") -> None:
    judge(table, verdict, timezone.now() - 2 * MINUTE, name)
    judge(table, verdict, timezone.now() - MINUTE / 2, name)


def deliver_due(after: timedelta = timedelta()) -> int:
    now = timezone.now() + after
    return sum(do_deliver(key, now=now) for key in list_due_messages(now))


def newest(admin: User) -> MessageRow:
    return list_messages(admin)[0]


def said(received: Received) -> dict[str, Any]:
    return dict(json.loads(received.body))
