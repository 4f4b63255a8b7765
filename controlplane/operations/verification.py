"""Did the rollback do what its plan said? Asked of the mirror and of storage, never of the worker
that ran it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.storage import storage_of
from controlplane.operations.selectors import OperationDetail
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import LakehouseError
from workers.storage.base import Storage

FILES_CHECKED_MAX = 2000
_ROLLBACKS_READ_MAX = 50
_WRITES = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackProof:
    is_synced: bool
    """Whether the mirror has read storage since the rollback ended."""
    is_off_timeline: bool
    rollback_instant: InstantTime | None
    files_planned: int
    files_left: tuple[str, ...] | None
    """None when storage did not answer."""
    rows_written: int | None
    newest_instant: InstantTime | None


def rollback_proof(table: Table, operation: OperationDetail) -> RollbackProof:
    """What is left of the rolled back instant. Three queries, and one look at storage per planned
    file.
    """
    target, plan = operation.row.instant, operation.plan
    ended = operation.row.finished_at or timezone.now()
    planned = [str(file["path"]) for file in plan.get("files", [])]
    is_here = InstantRecord.objects.filter(
        table=table, requested_at=target, action__in=_WRITES
    ).exists()
    is_synced = table.synced_at is not None and table.synced_at > ended
    newest = (
        InstantRecord.objects.filter(table=table, state="completed", action__in=_WRITES)
        .order_by("-completed_at")
        .values_list("requested_at", flat=True)
        .first()
    )
    rows = plan.get("rows")
    return RollbackProof(
        is_synced=is_synced,
        is_off_timeline=is_synced and not is_here,
        rollback_instant=_rollback_of(table, target),
        files_planned=int(plan.get("file_count", len(planned))),
        files_left=_files_left(table, planned[:FILES_CHECKED_MAX]),
        rows_written=rows if isinstance(rows, int) else None,
        newest_instant=newest,
    )


def _rollback_of(table: Table, target: InstantTime) -> InstantTime | None:
    rollbacks = InstantRecord.objects.filter(
        table=table, action="rollback", state="completed", requested_at__gt=target
    ).order_by("requested_at")
    for requested_at, metadata in rollbacks.values_list("requested_at", "metadata")[
        :_ROLLBACKS_READ_MAX
    ]:
        if target in metadata.get("rolled_back", []):
            return str(requested_at)
    return None


def _files_left(table: Table, paths: list[str]) -> tuple[str, ...] | None:
    try:
        storage: Storage = storage_of(table)
        return tuple(path for path in paths if storage.info(path) is not None)
    except (LakehouseError, ControlPlaneError, OSError):
        return None
