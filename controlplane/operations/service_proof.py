"""Did a table service do what its plan said? Asked of the mirror and of storage, never of the
worker that ran it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.storage import storage_of
from controlplane.operations.selectors import OperationDetail
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import LakehouseError

FILES_CHECKED_MAX = 2000
_INSTANT = re.compile(r"\A[0-9]{17}\Z")
_WRITES = ("commit", "deltacommit", "replacecommit")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceProof:
    is_synced: bool
    """Whether the mirror has read storage since the service ended."""
    instant: InstantTime
    """What the service completed as; empty for one that leaves no instant."""
    is_completed: bool
    files_planned: int
    """Files that had to go."""
    files_left: tuple[str, ...] | None
    """None when storage did not answer."""
    undone_planned: int
    """Instants that had to go."""
    undone_left: tuple[InstantTime, ...]


def service_proof(table: Table, operation: OperationDetail) -> ServiceProof:
    """Two queries, and one look at storage per file that had to go."""
    ended = operation.row.finished_at or timezone.now()
    items = [item for item in operation.plan.get("items", []) if isinstance(item, dict)]
    doomed = [str(item.get("what")) for item in items if item.get("effect") == "delete"]
    undone = [
        str(item.get("what"))
        for item in items
        if item.get("effect") == "undo" and _INSTANT.match(str(item.get("what")))
    ]
    instant = operation.row.instant
    return ServiceProof(
        is_synced=table.synced_at is not None and table.synced_at > ended,
        instant=instant,
        is_completed=_is_completed(table, instant),
        files_planned=len(doomed),
        files_left=_files_left(table, [one for one in doomed if not _INSTANT.match(one)]),
        undone_planned=len(undone),
        undone_left=tuple(
            InstantRecord.objects.filter(
                table=table, requested_at__in=undone, action__in=_WRITES
            ).values_list("requested_at", flat=True)
        )
        if undone
        else (),
    )


def _is_completed(table: Table, instant: InstantTime) -> bool:
    found = InstantRecord.objects.filter(table=table, requested_at=instant, state="completed")
    return bool(instant) and found.exists()


def _files_left(table: Table, paths: list[str]) -> tuple[str, ...] | None:
    if not paths:
        return ()
    try:
        storage = storage_of(table)
        return tuple(path for path in paths[:FILES_CHECKED_MAX] if storage.info(path) is not None)
    except (LakehouseError, ControlPlaneError, OSError):
        return None
