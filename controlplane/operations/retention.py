"""Run directories of operations that ended: logs and endings are kept for a while, not for ever."""

from __future__ import annotations

import logging
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from controlplane.operations.models import Operation
from controlplane.operations.states import OPEN

log = logging.getLogger(__name__)

KEPT_FOR = timedelta(days=7)
KEPT_MAX = 200


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
        log.info("forgot run directories: count=%s", len(gone))
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
