"""Rolling an instant back: the plan to look at, and the request that carries its hash.

The plan is the engine's own; here it becomes plain values. Whoever executes compares the hash
again, in the worker.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest, NotAllowedNow, PlanVoid, StorageUnavailable
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.storage import engine_table
from controlplane.operations.confirmation import check_words
from controlplane.operations.models import Operation
from controlplane.operations.queueing import Wanted, known_request, queue_once
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationKind
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import InvalidInput, LakehouseError, NotFound, RollbackRefused, StorageFailed
from workers.jobs import RollbackJob
from workers.recovery import plan as engine

STORED_FILES_MAX = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFileRow:
    path: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What a rollback would do, exactly."""

    instant: InstantTime
    action: str
    state: str
    files: list[PlannedFileRow]
    bytes_total: int
    rows: int | None
    """As the mirror knows them; None for a write that is not completed."""
    partitions: list[str]
    blockers: list[str]
    """Why it cannot run now; empty when it can."""
    warnings: list[str]
    plan_hash: str

    @property
    def is_executable(self) -> bool:
        return not self.blockers

    @property
    def plan(self) -> dict[str, Any]:
        """The same as JSON; a very long file list is cut there and says so."""
        return {
            "instant": self.instant,
            "action": self.action,
            "state": self.state,
            "files": [
                {"path": file.path, "bytes": file.bytes} for file in self.files[:STORED_FILES_MAX]
            ],
            "file_count": len(self.files),
            "bytes_total": self.bytes_total,
            "rows": self.rows,
            "partitions": self.partitions,
            "blockers": self.blockers,
            "warnings": self.warnings,
            "plan_hash": self.plan_hash,
        }


def plan_rollback(table: Table, instant: InstantTime, by: User | None = None) -> PlanView:
    """What undoing `instant` would delete, now. Changes nothing.

    Raises InvalidRequest for an instant that is none, StorageUnavailable.
    """
    if not INSTANT_TIME.match(instant):
        raise InvalidRequest("this is no instant time", instant=instant[:32])
    try:
        plan = engine.plan_rollback(engine_table(table), instant)
    except StorageFailed as error:
        raise StorageUnavailable(error.message, **error.values) from error
    except RollbackRefused as error:
        raise NotAllowedNow(error.message, **error.values) from error
    except (InvalidInput, NotFound) as error:
        raise InvalidRequest(error.message, **error.values) from error
    except LakehouseError as error:
        raise NotAllowedNow(error.message, **error.values) from error
    return PlanView(
        instant=plan.target,
        action=str(plan.action),
        state=str(plan.state),
        files=[PlannedFileRow(path=file.path, bytes=file.bytes) for file in plan.files],
        bytes_total=plan.bytes_total,
        rows=InstantRecord.objects.filter(table=table, requested_at=instant)
        .values_list("rows", flat=True)
        .first(),
        partitions=sorted(plan.partitions),
        blockers=list(plan.blockers),
        warnings=list(plan.warnings),
        plan_hash=plan.plan_hash,
    )


def request_rollback(
    table: Table,
    instant: InstantTime,
    plan_hash: str,
    reason: str,
    typed_name: str,
    by: User,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue the rollback that was shown as `plan_hash`. The same key by the same person has one
    effect.

    Raises InvalidRequest (name, reason), NotAllowedNow (blockers, one already runs), PlanVoid (the
    table moved on).
    """
    same = {"table_id": table.pk, "instant": instant, "plan_hash": plan_hash}
    if known := known_request(by, idempotency_key, same):
        return known
    check_words(table, reason, typed_name)
    view = plan_rollback(table, instant, by)
    if view.plan_hash != plan_hash:
        raise PlanVoid("the table changed since the plan was shown", instant=instant)
    if view.blockers:
        raise NotAllowedNow("this rollback is blocked", instant=instant, blockers=view.blockers)
    wanted = _wanted(table, view, reason.strip(), by, idempotency_key)
    return queue_once(wanted, same, busy="a rollback of this instant is under way")


def _wanted(
    table: Table, view: PlanView, reason: str, by: User, idempotency_key: str | None
) -> Wanted:
    operation_id = uuid.uuid4()
    job = RollbackJob(
        operation_id=str(operation_id),
        table=table.location,
        instant=view.instant,
        plan_hash=view.plan_hash,
        reason=reason,
        by=by.get_username(),
        run_dir=run_dir(operation_id),
        report_url=settings.SLUICE_REPORT_URL,
    )
    return Wanted(
        table=table,
        kind=OperationKind.ROLLBACK,
        job=job,
        by=by,
        who=by.get_username(),
        what="operation.rollback",
        reason=reason,
        plan=view.plan,
        plan_hash=view.plan_hash,
        idempotency_key=idempotency_key,
        columns={
            "instant": view.instant,
            "progress_total": len(view.files),
            "progress_unit": "files",
        },
        details={"instant": view.instant},
    )
