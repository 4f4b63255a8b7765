"""Did the rollback do what its plan said? Asked of storage, never of the worker that ran it, nor of
the mirror.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.errors import ControlPlaneError
from controlplane.mirror.storage import engine_table
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import LakehouseError
from workers.table import table as engine
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision
from workers.timeline.instant import Action
from workers.timeline.metadata import read_rollback_targets
from workers.timeline.timeline import Timeline

FILES_CHECKED_MAX = 2000
_ROLLBACKS_READ_MAX = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackProof:
    is_read: bool
    """Whether storage answered."""
    is_off_timeline: bool
    is_decided: bool
    """Whether the target was decided to be rolled back, or its rollback is completed."""
    rollback_instant: InstantTime | None
    """The completed one."""
    files_planned: int
    files_left: tuple[str, ...] | None
    """None when storage did not answer."""
    rows_written: int | None
    newest_instant: InstantTime | None

    @property
    def is_proved(self) -> bool:
        """What nobody planned, the end of a live writer, has no files to look for."""
        is_undone = self.rollback_instant is not None or self.is_decided
        return self.is_off_timeline and is_undone and self.files_left == ()


def rollback_proof(table: Table, target: InstantTime, plan: Mapping[str, Any]) -> RollbackProof:
    """What is left of the rolled back instant: no query, one look at storage per planned file."""
    planned = [str(file["path"]) for file in plan.get("files", [])][:FILES_CHECKED_MAX]
    rows = plan.get("rows")
    count = int(plan.get("file_count", len(planned)))
    rows_written = rows if isinstance(rows, int) else None
    try:
        opened = engine_table(table)
        timeline = opened.timeline()
        infos = opened.storage.at_once(opened.storage.info, planned)
        left = tuple(path for path, info in zip(planned, infos, strict=True) if info is not None)
        by = _completed_rollback(opened, timeline, target)
        is_decided = _is_decided(opened, target)
    except (LakehouseError, ControlPlaneError, OSError):
        return RollbackProof(
            is_read=False,
            is_off_timeline=False,
            is_decided=False,
            rollback_instant=None,
            files_planned=count,
            files_left=None,
            rows_written=rows_written,
            newest_instant=None,
        )
    writes = timeline.list_completed_writes()
    return RollbackProof(
        is_read=True,
        is_off_timeline=timeline.find(target) is None,
        is_decided=is_decided,
        rollback_instant=by,
        files_planned=count,
        files_left=left,
        rows_written=rows_written,
        newest_instant=writes[-1].requested_at if writes else None,
    )


def _completed_rollback(
    table: engine.Table, timeline: Timeline, target: InstantTime
) -> InstantTime | None:
    rollbacks = [
        one
        for one in timeline.iterate_completed()
        if one.action is Action.ROLLBACK and one.requested_at > target
    ]
    for rollback in rollbacks[:_ROLLBACKS_READ_MAX]:
        if target in read_rollback_targets(table.storage.read(table.layout.path(rollback))):
            return rollback.requested_at
    return None


def _is_decided(table: engine.Table, target: InstantTime) -> bool:
    decision = decisions.read(table.storage, target)
    is_undone = decisions.find_rollback_instant(table.storage, target) is not None
    return is_undone or isinstance(decision, RollbackDecision)
