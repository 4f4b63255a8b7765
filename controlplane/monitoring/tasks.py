"""Celery tasks of monitoring."""

from __future__ import annotations

from django.utils import timezone

from controlplane.celery import app
from controlplane.monitoring.channels.deliveries import (
    ATTEMPT_MAX_S,
    delete_old_messages,
    do_deliver,
    list_due_messages,
)
from controlplane.monitoring.health import delete_old_alerts
from controlplane.monitoring.health import evaluate_table_health as judge


@app.task(name="controlplane.monitoring.judge_tables")
def judge_tables() -> None:
    judge()


@app.task(name="controlplane.monitoring.forget")
def forget() -> None:
    delete_old_alerts(now=timezone.now())
    delete_old_messages(now=timezone.now())


@app.task(name="controlplane.monitoring.messages.send_due")
def send_due() -> None:
    """Start a task for each due message, so that a slow receiver does not delay the others."""
    for message_id in list_due_messages(timezone.now()):
        deliver.apply_async((message_id,), expires=ATTEMPT_MAX_S)


@app.task(name="controlplane.monitoring.messages.deliver", time_limit=ATTEMPT_MAX_S)
def deliver(message_id: int) -> None:
    do_deliver(message_id)
