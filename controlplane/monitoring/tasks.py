"""Celery's side of monitoring."""

from __future__ import annotations

from django.utils import timezone

from controlplane.celery import app
from controlplane.monitoring.alerts import forget_alerts
from controlplane.monitoring.health import judge_tables as judge


@app.task(name="controlplane.monitoring.judge_tables")
def judge_tables() -> None:
    judge()


@app.task(name="controlplane.monitoring.forget")
def forget() -> None:
    forget_alerts(now=timezone.now())
