"""Celery's side of operations: short adapters that beat calls."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.sessions.models import Session
from django.utils import timezone

from controlplane.accounts.models import Token
from controlplane.batches import delete_in_batches
from controlplane.celery import app
from controlplane.mirror.models import ServerSample
from controlplane.operations import (
    corrections,
    log_collecting,
    log_limits,
    marker_server,
    recovery,
    retention,
    schedules,
    settling,
    sink_relaunches,
    upload_uses,
)
from controlplane.operations.scheduled import actions as scheduled_actions
from controlplane.operations.scheduled import turns
from controlplane.operations.table_changes.sent_twice import do_forget_requests
from controlplane.writers.actions import do_forget_hints

SAMPLES_KEPT_FOR = timedelta(hours=6)
REPORTS_KEPT_FOR = timedelta(days=7)
KEYS_KEPT_FOR = timedelta(days=7)
RUNS_KEPT_FOR = timedelta(days=90)
"""Of schedules."""
TOKENS_KEPT_FOR = timedelta(days=90)
"""After they expired: their owners see until then which program lost its access."""


@app.task(name="controlplane.operations.reconcile")
def reconcile() -> None:
    recovery.recover_tables()
    settling.do_reconcile()
    corrections.correct_ends(timezone.now())
    sink_relaunches.relaunch_lost(timezone.now())
    log_collecting.do_collect_ended(now=timezone.now())
    upload_uses.do_remove_loaded()


@app.task(name="controlplane.operations.supervise")
def supervise() -> None:
    marker_server.supervise()


@app.task(name="controlplane.operations.run_due_services")
def run_due_services() -> None:
    schedules.run_due_services()


@app.task(name="controlplane.operations.run_due_schedules")
def run_due_schedules() -> None:
    turns.run_due_schedules()


@app.task(name="controlplane.operations.forget")
def forget() -> None:
    now = timezone.now()
    delete_in_batches(ServerSample.objects.filter(at__lt=now - SAMPLES_KEPT_FOR))
    do_forget_hints(before=now - REPORTS_KEPT_FOR)
    do_forget_requests(before=now - KEYS_KEPT_FOR)
    scheduled_actions.do_forget_runs(before=now - RUNS_KEPT_FOR)
    retention.forget_operations(now=now)
    retention.forget_run_dirs(now=now)
    log_limits.forget_logs(now=now)
    upload_uses.do_remove_expired(now)
    delete_in_batches(Session.objects.filter(expire_date__lt=now))
    delete_in_batches(Token.objects.filter(expiry__lt=now - TOKENS_KEPT_FOR))
