"""Celery's side of monitoring."""

from __future__ import annotations

from controlplane.celery import app
from controlplane.monitoring.health import judge_tables as judge


@app.task(name="controlplane.monitoring.judge_tables")
def judge_tables() -> None:
    judge()
