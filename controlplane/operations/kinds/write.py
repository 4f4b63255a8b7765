"""Writes with Spark: what may be asked for, and what becomes of one whose driver died.

One that died is settled by storage. What it left is undone by the next writer, or by a job that
also ends its tasks, since those outlive it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.operations.ask import Ask, Request, Requester, Wanted
from controlplane.operations.cancels import SPARK_USER, cancel_job
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.descriptions.write import PLANNED_OPERATIONS, WRITE
from controlplane.operations.drivers import driver_is_gone, take_ending
from controlplane.operations.effect_proofs import WRITE_TITLES, write_checks
from controlplane.operations.kinds.kind import Cancelling, Kind, Permitted
from controlplane.operations.load_defaults import build_job_source, is_unbounded, keep_options
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move, send_cancel
from controlplane.operations.overwrites import OVERWRITES, OverwritePlan, plan_overwrite
from controlplane.operations.query_sources import SQL, checked_query, may_still_read
from controlplane.operations.request_places import check_write_options
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.source_kinds import check_source_kind, source_kind
from controlplane.operations.states import OperationState
from controlplane.operations.upload_uses import to_references
from controlplane.operations.write_outcomes import confirm_write, is_foreign, write_outcome
from controlplane.tables.access import Permission, may
from controlplane.tables.models import Table
from workers.errors import InvalidInput
from workers.jobs import WriteJob
from workers.spark.settings import checked_settings

PARAMETERS = frozenset(WRITE.names) - {"partitions", "reason", "plan_hash", "table_name"}
CANCEL_AGAIN_AFTER = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class WriteAsk(Ask[OverwritePlan | None]):
    """Write one source into the table, with Spark."""

    parameters: Mapping[str, Any]
    restarts: int = 0
    is_scheduled: bool = False
    """Then what it overwrites is whatever is there when it runs."""
    request_name = "WriteAsk"
    busy = "this write is under way"

    @property
    def operation(self) -> str:
        return str(self.parameters.get("operation") or "upsert")

    @property
    def confirmation(self) -> Confirmation:
        is_overwrite = self.operation in OVERWRITES
        return Confirmation.NAME_AND_REASON if is_overwrite else Confirmation.NONE

    @property
    def kind(self) -> Kind:
        return KIND

    @property
    def body(self) -> dict[str, Any]:
        return dict(self.parameters)

    def plan(self) -> OverwritePlan | None:
        """What an overwrite replaces; whatever else is written is not known before."""
        if self.operation not in OVERWRITES:
            return None
        return plan_overwrite(self.table, self.operation, self.parameters)

    def wanted(self, request: Request, plan: OverwritePlan | None) -> Wanted:
        session_id = str(uuid.uuid4())
        parameters, reads = _with_query(self.parameters, request.by)
        job = _write_job(self.table, parameters, request.operation_id, session_id)
        if plan is not None and not self.is_scheduled:
            job = replace(job, replaces=plan.replaces)
        return Wanted(
            job=job,
            what="operation.write",
            plan={} if plan is None else asdict(plan),
            columns={"session_id": session_id, "user_id_spark": SPARK_USER},
            parameters={
                "writer": job.options.get("sluice.writer.name", ""),
                "stream": job.stream or "",
                "restarts": self.restarts,
            },
            details={"source": dict(job.source), **({"reads": reads} if reads else {})},
        )


def do_request_write(
    *,
    table: Table,
    parameters: Mapping[str, Any],
    by: User,
    reason: str = "",
    plan_hash: str = "",
    typed_name: str = "",
    restarts: int = 0,
    idempotency_key: str | None = None,
) -> Operation:
    """Queue a Spark write of `parameters["source"]` into `table`; one that overwrites with the hash
    of its plan (`plan_overwrite`), a reason and the table's name.

    Raises what `do_request` raises, InvalidRequest for an unknown parameter, option or Spark
    setting, before anything is stored.
    """
    given = Given(
        reason=reason, typed_name=typed_name, plan_hash=plan_hash, idempotency_key=idempotency_key
    )
    operation = do_request(WriteAsk(table, parameters, restarts), Requester.person(by), given)
    keep_options(table, parameters.get("source") or {})
    return operation


def _with_query(
    parameters: Mapping[str, Any], by: Requester
) -> tuple[Mapping[str, Any], list[str]]:
    """With the tables that a statement reads as its driver is told of them, and their slugs.

    Raises what `checked_query` raises.
    """
    source = parameters.get("source")
    if not isinstance(source, Mapping) or source.get("kind") != SQL:
        return parameters, []
    if by.user is None:
        raise InvalidRequest("a statement requires a user whose row access applies")
    query = checked_query(by.user, source)
    return {**parameters, "source": query.job_source()}, query.slugs


def _is_still_granted(operation: Operation) -> bool:
    """What a statement reads may have been taken from its requester meanwhile."""
    source = operation.parameters["job"]["source"]
    by = operation.requested_by
    return source.get("kind") != SQL or (by is not None and may_still_read(by, source))


def _write_job(
    table: Table, parameters: Mapping[str, Any], operation_id: uuid.UUID, session_id: str
) -> WriteJob:
    if unknown := sorted(set(parameters) - PARAMETERS):
        raise InvalidRequest("unknown parameters", unknown=unknown, known=sorted(PARAMETERS))
    operation = str(parameters.get("operation") or "upsert")
    if operation in PLANNED_OPERATIONS and operation not in OVERWRITES:
        raise InvalidRequest(
            "this deletes data: plan it first, then confirm the plan", operation=operation
        )
    options = dict(parameters.get("options") or {})
    options.setdefault("sluice.operation.id", str(operation_id))
    spark_conf = dict(parameters.get("spark_conf") or {})
    source = build_job_source(table, parameters.get("source") or {})
    check_source_kind(source, table.namespace)
    try:
        check_write_options(table, options)
        checked_settings(spark_conf)
        return WriteJob(
            operation_id=str(operation_id),
            table=table.location,
            source=source,
            operation=operation,
            stream=parameters.get("stream") or None,
            options=options,
            spark_conf=spark_conf,
            session_id=session_id,
            user_id=SPARK_USER,
            run_dir=run_dir(operation_id),
            report_url=settings.SLUICE_REPORT_URL,
        )
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error


def _watch(operation: Operation, now: datetime) -> None:
    """A driver is ended by a job of its own, which may get lost.

    A driver that tells of its progress knows nothing of the cancellation: what counts is when the
    job was sent, not when the operation changed.
    """
    is_cancelling = operation.state == OperationState.CANCELLING.value
    sent_at = operation.sent_at or operation.requested_at
    if is_cancelling and now - sent_at > CANCEL_AGAIN_AFTER:
        amend(operation.pk, attempts=operation.attempts + 1)
        send_cancel(operation, cancel_job(operation, by="control plane", reason="cancelled"))


def _settle(operation: Operation, now: datetime) -> bool:
    if operation.state != OperationState.UNKNOWN.value and take_ending(operation):
        return True
    ended = _settle_by_storage(operation)
    if ended in (OperationState.FAILED, OperationState.ROLLED_BACK):
        start_again(operation)
    elif ended is OperationState.UNKNOWN:
        _take_over(operation, now)
    return True


def _settle_by_storage(operation: Operation) -> OperationState | None:
    """Nothing final was reported: its newest instant says how it ended.

    The state it is in now; None when it ended in another way meanwhile.
    """
    outcome = write_outcome(operation)
    if outcome.instant and outcome.instant != operation.instant:
        # Once it is undone nothing but its decision tells of it, which is found by its name.
        amend(operation.pk, instant=outcome.instant)
    moved = move(operation.pk, outcome.state, message=outcome.message)
    is_same = operation.state == outcome.state.value
    return outcome.state if moved is not None or is_same else None


def _take_over(operation: Operation, now: datetime) -> None:
    """Interrupt the dead driver's Spark session, since its tasks outlive it, and undo what is left.

    It reports nothing: the decision object will say how it ended. Should it get nowhere, the next
    writer does the same once the heartbeat has run out.
    """
    if operation.state == OperationState.UNKNOWN.value:
        if now - operation.changed_at < CANCEL_AGAIN_AFTER:
            return
        amend(operation.pk, attempts=operation.attempts + 1)
    job = cancel_job(operation, by="control plane", reason="its driver died")
    send_cancel(operation, replace(job, report_url=None))


def start_again(operation: Operation) -> Operation | None:
    """Another writer in the place of one that died, where its source allows for that; it goes on
    behind the last commit.

    None for any other write, for one that overwrites, after too many restarts, or when nobody may
    ask for it any more.
    """
    job = operation.parameters["job"]
    restarts = int(operation.parameters.get("restarts", 0))
    if restarts >= source_kind(job["source"]).restarts_max or job["operation"] in OVERWRITES:
        return None
    by = operation.requested_by
    if by is None or not may(by, Permission.OPERATE, operation.table):
        return None
    return do_request_write(
        table=operation.table,
        parameters=_settled_parameters(operation),
        by=by,
        reason=f"in the place of {operation.pk}",
        restarts=restarts + 1,
    )


def resume_write(operation: Operation, *, by: User, reason: str) -> Operation:
    """Start a write that was cancelled again. It continues behind its last commit.

    Raises what `do_request_write` raises.
    """
    parameters = _settled_parameters(operation)
    return do_request_write(table=operation.table, parameters=parameters, by=by, reason=reason)


def _settled_parameters(operation: Operation) -> dict[str, Any]:
    parameters, source = _parameters(operation), operation.parameters["job"]["source"]
    kept = {key: source[key] for key in source_kind(source).settles if key in source}
    return {**parameters, "source": {**parameters["source"], **kept, **operation.settled}}


def _again(operation: Operation, changed: Mapping[str, Any]) -> WriteAsk:
    return WriteAsk(operation.table, {**_parameters(operation), **changed})


def _scheduled(table: Table, service: str, parameters: Mapping[str, Any]) -> WriteAsk:
    """Raises InvalidRequest where a service is named."""
    if service:
        raise InvalidRequest("a write does not run a service", service=service[:32])
    return WriteAsk(table, parameters, is_scheduled=True)


def _permission(subject: Permitted) -> Permission:
    """What overwrites takes committed data away, whoever or whatever asks for it; a file that may
    decode to any size takes the memory of others.
    """
    parameters: Mapping[str, Any] = {}
    if isinstance(subject, Operation):
        parameters = subject.parameters.get("job", {})
    elif isinstance(subject, WriteAsk):
        parameters = subject.parameters
    is_overwrite = parameters.get("operation") in OVERWRITES
    is_for_admins = is_overwrite or is_unbounded(parameters.get("source"))
    return Permission.ADMINISTER if is_for_admins else Permission.OPERATE


def _parameters(operation: Operation) -> dict[str, Any]:
    """As they were asked for."""
    job = to_references(operation.parameters["job"])
    kind = source_kind(job["source"])
    added = kind.derived | kind.settles
    options = {key: text for key, text in job["options"].items() if key != "sluice.operation.id"}
    return {
        "source": {key: part for key, part in job["source"].items() if key not in added},
        "operation": job["operation"],
        "stream": job["stream"],
        "options": options,
        "spark_conf": job["spark_conf"],
    }


KIND = Kind(
    name="write",
    job=WriteJob,
    permission=_permission,
    confirm=confirm_write,
    titles=WRITE_TITLES,
    checks=write_checks,
    is_still_granted=_is_still_granted,
    may_name=lambda operation, instant: not is_foreign(operation, instant),
    is_gone=driver_is_gone,
    watch=_watch,
    settle=_settle,
    cancelling=Cancelling.BY_JOB,
    again=_again,
    scheduled=_scheduled,
    page="writers",
)
