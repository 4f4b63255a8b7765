"""Celery tasks of the audit log."""

from __future__ import annotations

from django.utils import timezone

from controlplane.audit.verification import do_verify_round
from controlplane.celery import app


@app.task(name="controlplane.audit.verify")
def verify() -> None:
    do_verify_round(timezone.now())
