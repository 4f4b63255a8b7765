"""The kind of operation that is a write of a few rows by Arrow: what may be asked for, and what
storage shows of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from controlplane.mirror.storage import engine_table
from controlplane.operations.ask import Ask, Request, Wanted
from controlplane.operations.checks import Check
from controlplane.operations.kinds.kind import Kind
from controlplane.operations.models import Operation
from controlplane.operations.outcomes import Outcome
from controlplane.operations.own_instants import own_instant
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationState
from controlplane.operations.storage_settling import settled_by_storage
from controlplane.tables.access import Permission
from tests.controlplane.kills.arrow_task import ArrowJob
from workers.timeline.instant import Action

_WRITES = (Action.COMMIT, Action.DELTACOMMIT)
_ENDS = {OperationState.CONFLICTED, OperationState.ROLLED_BACK, OperationState.FAILED}


@dataclass(frozen=True, slots=True)
class ArrowAsk(Ask[None]):
    """Write the rows of a name, in one of the modes of concurrency."""

    name: str
    mode: str
    request_name = "ArrowAsk"
    busy = "this write is under way"

    @property
    def kind(self) -> Kind:
        return KIND

    @property
    def body(self) -> dict[str, Any]:
        return {"name": self.name, "mode": self.mode}

    def plan(self) -> None:
        """There is one way to write."""

    def wanted(self, request: Request, plan: None) -> Wanted:
        job = ArrowJob(
            operation_id=str(request.operation_id),
            table=self.table.location,
            name=self.name,
            mode=self.mode,
            run_dir=run_dir(request.operation_id),
            report_url=settings.SLUICE_REPORT_URL,
        )
        return Wanted(job=job, what="operation.arrow_write")


def _confirm(operation: Operation, claimed: OperationState) -> Outcome | None:
    table = engine_table(operation.table)
    own = own_instant(table, table.timeline(), operation, _WRITES)
    if own is not None:
        return Outcome(OperationState.SUCCEEDED, "", own.instant.requested_at)
    return Outcome(claimed) if claimed in _ENDS else None


def _checks(operation: Operation) -> list[Check]:
    is_there = _confirm(operation, OperationState.SUCCEEDED) is not None
    return [Check("commit", "Its commit is there", is_there, "looked at, now")]


KIND = Kind(
    name="arrow_write",
    job=ArrowJob,
    permission=lambda _: Permission.OPERATE,
    confirm=_confirm,
    titles={"commit": "Its commit is there"},
    checks=_checks,
    settle=settled_by_storage,
    page="writers",
)
