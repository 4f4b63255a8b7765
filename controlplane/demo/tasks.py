"""Celery's side of the demo."""

from __future__ import annotations

from controlplane.celery import app
from controlplane.demo.actions import KILL_TASK, kill_in_the_middle
from controlplane.tables.models import Table


@app.task(name=KILL_TASK)
def kill_writer(slug: str) -> None:
    if table := Table.objects.filter(slug=slug).first():
        kill_in_the_middle(table)
