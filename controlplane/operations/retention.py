"""Retention of operations that ended, and of their run directories with logs and endings."""

from __future__ import annotations

import logging
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, Q, Subquery
from django.utils import timezone

from controlplane.batches import delete_in_batches
from controlplane.operations.models import Operation, Schedule, ScheduleRun
from controlplane.operations.states import OPEN
from controlplane.uploads.models import UploadUse

log = logging.getLogger(__name__)

KEPT_FOR = timedelta(days=7)
KEPT_MAX = 200
_BATCH_OPERATIONS = 50
"""Each has up to thousands of log lines."""


def forget_operations(*, now: datetime) -> int:
    """Delete operations that ended more than `SLUICE_OPERATION_DAYS` ago, with their logs and
    approvals; return how many rows went.

    These stay: the newest of its kind on a table, which pages show as the last run, and one that a
    schedule, a kept run of a schedule or an upload refers to. The audit keeps its rows.
    """
    if not settings.SLUICE_OPERATION_DAYS:
        return 0
    alike = Operation.objects.filter(
        table=OuterRef("table"),
        kind=OuterRef("kind"),
        service=OuterRef("service"),
        sink_id=OuterRef("sink_id"),
    )
    newest = alike.order_by("-requested_at", "-pk").values("pk")[:1]
    this = OuterRef("pk")
    ended = Operation.objects.exclude(state__in=sorted(OPEN)).filter(
        ~Q(pk=Subquery(newest)),
        ~Exists(Schedule.objects.filter(after_operation=this)),
        ~Exists(ScheduleRun.objects.filter(Q(operation=this) | Q(after=this))),
        ~Exists(UploadUse.objects.filter(operation=this)),
        changed_at__lt=now - timedelta(days=settings.SLUICE_OPERATION_DAYS),
    )
    count = delete_in_batches(ended, batch_rows=_BATCH_OPERATIONS)
    if count:
        log.info("deleted old operations: rows=%s", count)
    return count


def forget_run_dirs(*, now: datetime | None = None) -> int:
    """Delete directories older than a week, and the oldest above two hundred; never one whose
    operation is open. How many went.
    """
    at = now or timezone.now()
    root = settings.SLUICE_HOME / "run" / "operations"
    folders = sorted(_folders(root), key=lambda folder: -folder[1])
    oldest_s = (at - KEPT_FOR).timestamp()
    doomed = [
        path
        for number, (path, modified_s) in enumerate(folders)
        if number >= KEPT_MAX or modified_s < oldest_s
    ]
    is_open = {
        str(key)
        for key in Operation.objects.filter(
            pk__in=[path.name for path in doomed], state__in=sorted(OPEN)
        ).values_list("pk", flat=True)
    }
    gone = [path for path in doomed if path.name not in is_open]
    for path in gone:
        shutil.rmtree(path, ignore_errors=True)
    if gone:
        log.info("deleted old run directories: count=%s", len(gone))
    return len(gone)


def _folders(root: Path) -> list[tuple[Path, float]]:
    """(directory, when it last changed) of what is named like an operation, links left out."""
    if not root.is_dir():
        return []
    return [
        (path, path.stat().st_mtime)
        for path in root.iterdir()
        if _is_operation(path.name) and path.is_dir() and not path.is_symlink()
    ]


def _is_operation(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
