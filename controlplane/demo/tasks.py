"""Celery's side of the demo."""

from __future__ import annotations

import logging

from django.contrib.auth.models import User

from controlplane.celery import app
from controlplane.demo.actions import (
    KILL_ATTEMPTS_MAX,
    KILL_TASK,
    kill_in_the_middle,
    send_kill,
)
from controlplane.demo.restart import RESTART_TASK
from controlplane.tables.models import Table

_log = logging.getLogger(__name__)


@app.task(name=KILL_TASK)
def kill_writer(slug: str, by: str = "demo", attempt: int = KILL_ATTEMPTS_MAX) -> None:
    """Kill a writer that writes now, or try again; the last attempt kills one that is idle."""
    table = Table.objects.filter(slug=slug).first()
    if table is None:
        return
    is_last = attempt >= KILL_ATTEMPTS_MAX
    if kill_in_the_middle(table, by=by, spares_idle=not is_last) is None and not is_last:
        send_kill(slug, by, attempt + 1)


@app.task(name=RESTART_TASK)
def begin_anew(user_id: int, *, deletes: bool) -> None:
    from controlplane.demo.reset import delete_all, start_all
    from controlplane.demo.streams import DemoRun
    from workers.clock import SystemClock

    by, clock = User.objects.get(pk=user_id), SystemClock()
    if deletes:
        delete_all(by, clock)
    started = start_all(by, DemoRun(), clock, _log.info)
    if started.problem:
        _log.warning("the demo has no sink: problem=%s", started.problem)
