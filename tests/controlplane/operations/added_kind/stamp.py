"""A kind that the product does not have: it puts a file beside the table, and that is its proof.

This file is all of it. `test_added_kind` lays it beside the other kinds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from controlplane.operations.ask import Ask, Request, Wanted
from controlplane.operations.checks import Check
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.kinds.kind import Cancelling, Kind
from controlplane.operations.models import Operation
from controlplane.operations.outcomes import Outcome
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationState
from controlplane.operations.storage_settling import settled_by_storage
from controlplane.tables.access import Permission
from workers.clock import SystemClock
from workers.reporting.run_lock import hold_run_lock


@dataclass(frozen=True, slots=True)
class StampJob:
    TASK: ClassVar[str] = "tests.put_stamp"

    path: str
    text: str
    run_dir: str

    def to_message(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_message(cls, message: object) -> Self:
        assert isinstance(message, dict), message
        return cls(**message)


def put_stamp(message: dict[str, Any]) -> None:
    """As its worker would, but for the last report, which is lost."""
    job = StampJob.from_message(message)
    with hold_run_lock(job.run_dir, SystemClock()) as is_mine:
        assert is_mine, job
        Path(job.path).write_text(job.text)


@dataclass(frozen=True, slots=True)
class StampAsk(Ask[None]):
    """Put a stamp beside the table."""

    text: str
    confirmation = Confirmation.REASON
    request_name = "StampAsk"
    busy = "a stamp is under way"

    @property
    def kind(self) -> Kind:
        return KIND

    @property
    def body(self) -> dict[str, Any]:
        return {"text": self.text}

    def plan(self) -> None:
        """There is one way to do it."""

    def wanted(self, request: Request, plan: None) -> Wanted:
        path = f"{self.table.location}-stamp"
        return Wanted(
            job=StampJob(path, self.text, run_dir(request.operation_id)),
            what="operation.stamp",
        )


def _is_there(operation: Operation) -> bool:
    job = StampJob.from_message(operation.parameters["job"])
    return Path(job.path).exists() and Path(job.path).read_text() == job.text


def _confirm(operation: Operation, claimed: OperationState) -> Outcome | None:
    if _is_there(operation):
        return Outcome(OperationState.SUCCEEDED, "the stamp is there")
    return None if claimed is OperationState.SUCCEEDED else Outcome(OperationState.FAILED)


def _checks(operation: Operation) -> list[Check]:
    return [Check("stamp", "The stamp is there", _is_there(operation), "looked at, now")]


KIND = Kind(
    name="stamp",
    job=StampJob,
    permission=lambda _: Permission.OPERATE,
    confirm=_confirm,
    titles={"stamp": "The stamp is there"},
    checks=_checks,
    settle=settled_by_storage,
    cancelling=Cancelling.BETWEEN_STEPS,
    has_trace=False,
    page="writers",
    heading=lambda operation: "A stamp for the table",
)
