"""Sinks from launch to end: started as an operation, stopped by a request beside the table, started
again with the same options.

A sink that somebody runs from a shell is no operation: it is seen and stopped all the same, because
both go by the files beside the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.audit.actions import record
from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.mirror.queries.sinks import OVER, sink_record
from controlplane.mirror.storage import storage_of
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.kinds.write import SPARK_USER
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move
from controlplane.operations.queueing import Request, Requester, Wanted
from controlplane.operations.request_places import check_places
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OPEN, OperationKind, OperationState
from controlplane.tables.access import Permission
from controlplane.tables.locations import checked_location, checked_source
from controlplane.tables.models import Table
from workers.errors import InvalidInput, LakehouseError
from workers.jobs import SinkJob
from workers.options.node_options import refuse_connections
from workers.options.sink_keys import SINK_OPTIONS
from workers.options.write_options import write_options
from workers.sink.config import SinkConfig, sink_config
from workers.sink.kafka.client_config import connection
from workers.sink.stop_request import StopKind, StopRequest, request_stop
from workers.spark.settings import checked_settings
from workers.table_services.inline import own_options as options_of_writes

RELAUNCHES_MAX = 20
GRACE_S = 45
"""Above the sink's own patience: after it, it ends its tasks by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAsk:
    """Run a sink until it is stopped."""

    table: Table
    options: Mapping[str, str]
    application: str
    spark_conf: Mapping[str, str]
    relaunches_max: int
    relaunches: int
    what: str
    name: str = "sink"
    permission: Permission = Permission.OPERATE
    confirmation: Confirmation = Confirmation.NONE
    is_bound_to_plan: bool = False
    busy: str = "this sink has an operation already"

    @property
    def body(self) -> dict[str, Any]:
        return {
            "options": dict(self.options),
            "application": self.application,
            "spark_conf": dict(self.spark_conf),
            "relaunches_max": self.relaunches_max,
            "what": self.what,
        }

    def plan(self) -> None:
        """A sink has none: it writes what comes."""

    def wanted(self, request: Request, plan: None) -> Wanted:
        config = checked_options(self.table, self.options)
        if not 0 <= self.relaunches_max <= RELAUNCHES_MAX:
            raise InvalidRequest("too many relaunches", most=RELAUNCHES_MAX)
        session_id = str(uuid.uuid4())
        return Wanted(
            table=self.table,
            kind=OperationKind.SINK,
            job=_job(self, request.operation_id, session_id),
            what=self.what,
            columns={
                "session_id": session_id,
                "user_id_spark": SPARK_USER,
                "sink_id": config.sink_id,
            },
            parameters={
                "writer": config.sink_id,
                "relaunches_max": self.relaunches_max,
                "relaunches": self.relaunches,
            },
            details={"sink": config.sink_id, "topic": config.topic},
        )


def start_sink(
    table: Table,
    options: Mapping[str, str],
    *,
    by: User,
    reason: str = "",
    application: str = "own",
    spark_conf: Mapping[str, str] | None = None,
    relaunches_max: int = 0,
    relaunches: int = 0,
    what: str = "sink.start",
    idempotency_key: str | None = None,
) -> Operation:
    """Queue a sink that runs until it is stopped.

    Raises what `do_request` raises, InvalidRequest before anything is stored, NotAllowedNow while
    an operation of this sink is open.
    """
    ask = SinkAsk(
        table=table,
        options={key: text for key, text in options.items() if text != ""},
        application=application,
        spark_conf=dict(spark_conf or {}),
        relaunches_max=relaunches_max,
        relaunches=relaunches,
        what=what,
    )
    given = Given(reason=reason, idempotency_key=idempotency_key)
    return do_request(ask, Requester.person(by), given)


def stop_sink(
    table: Table, sink_id: str, *, by: str, is_hard: bool = False, reason: str = ""
) -> Operation | None:
    """Ask the sink to stop: after the transaction at hand, or at once and without it. Whoever runs
    it finds the request beside the table. The operation that runs it; None if it is none of ours.

    Raises NotAllowedNow when it does not run, StorageUnavailable.
    """
    operation = open_operation(table, sink_id)
    if operation is None:
        seen = sink_record(table, sink_id)
        if seen is None or seen.state in OVER:
            raise NotAllowedNow("this sink does not run", sink=sink_id)
    kind = StopKind.HARD if is_hard else StopKind.GRACEFUL
    if operation is not None and operation.state == OperationState.CANCELLING.value:
        raise NotAllowedNow("this sink is being stopped already", sink=sink_id)
    asked_at = timezone.now()
    put_stop(table, sink_id, kind, by=by, at=asked_at)
    with transaction.atomic():
        if operation is not None:
            _note_stop(operation, kind, by, asked_at)
        record(
            who=by,
            what="sink.stop",
            subject=table.slug,
            result="requested",
            reason=reason,
            details={
                "sink": sink_id,
                "kind": kind.value,
                "operation": str(operation.pk) if operation else "",
            },
        )
    return operation


def relaunch_sink(
    table: Table, sink_id: str, *, by: User, reason: str = "", idempotency_key: str | None = None
) -> Operation:
    """The newest operation of this sink once more, under the options that it had.

    Raises NotAllowedNow where it was never launched here, or still runs.
    """
    before = newest_operation(table, sink_id)
    if before is None:
        raise NotAllowedNow(
            "this sink was not launched from here, so its options are not known; start it",
            sink=sink_id,
        )
    return launch_again(before, by=by, reason=reason, idempotency_key=idempotency_key)


def launch_again(
    before: Operation,
    *,
    by: User,
    reason: str,
    relaunches: int = 0,
    idempotency_key: str | None = None,
) -> Operation:
    """Raises what `start_sink` raises."""
    job = before.parameters["job"]
    return start_sink(
        before.table,
        job["sink_options"],
        by=by,
        reason=reason,
        application=job["application"],
        spark_conf=job["spark_conf"],
        relaunches_max=int(before.parameters.get("relaunches_max", 0)),
        relaunches=relaunches,
        what="sink.relaunch",
        idempotency_key=idempotency_key,
    )


def open_operation(table: Table, sink_id: str) -> Operation | None:
    open_operations = _operations(table, sink_id).filter(state__in=sorted(OPEN))
    return open_operations.first()


def newest_operation(table: Table, sink_id: str) -> Operation | None:
    return _operations(table, sink_id).order_by("-requested_at").first()


def checked_options(table: Table, options: Mapping[str, str]) -> SinkConfig:
    """Raises InvalidRequest for what the sink would refuse, and for what it may not touch."""
    try:
        refuse_connections(options)
        config = sink_config(own_options(options))
        others = {key: text for key, text in options.items() if key not in SINK_OPTIONS}
        write_options(options_of_writes(others))
        # The password itself is known only where the sink will run.
        connection(config, {options.get("sasl.password.env", ""): "known there"})
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    check_places(others)
    if config.schema_file:
        checked_source(config.schema_file)
    if config.dead_letter_path:
        checked_location(config.dead_letter_path)
    if table.table_type and table.table_type != "MERGE_ON_READ":
        raise InvalidRequest("a sink writes merge-on-read tables only", type=table.table_type)
    return config


def own_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the sink itself; the others are options of writes and of table services."""
    return {key: text for key, text in options.items() if key in SINK_OPTIONS}


def put_stop(table: Table, sink_id: str, kind: StopKind, *, by: str, at: datetime) -> None:
    """Raises StorageUnavailable."""
    stop_request = StopRequest(kind, by, int(at.timestamp() * 1000))
    try:
        request_stop(storage_of(table), sink_id, stop_request)
    except LakehouseError as error:
        raise StorageUnavailable(f"the stop request cannot be written: {error.message}") from error


def stop_deadline(operation: Operation) -> datetime | None:
    """When a sink that ends its transaction is stopped without; None while nobody asked for it."""
    stop_request = operation.parameters.get("stop")
    if not stop_request:
        return None
    wait = timedelta(seconds=int(stop_request["wait_s"]))
    return datetime.fromisoformat(stop_request["at"]) + wait


def _note_stop(operation: Operation, kind: StopKind, by: str, at: datetime) -> None:
    config = sink_config(own_options(operation.parameters["job"]["sink_options"]))
    is_hard = kind is StopKind.HARD
    stop = {
        "kind": kind.value,
        "by": by,
        "at": at.isoformat(),
        "wait_s": 0 if is_hard else config.graceful_timeout_s + GRACE_S,
    }
    amend(operation.pk, parameters={**operation.parameters, "stop": stop}, attempts=0)
    # What no worker has taken yet is ended by the job that ends the others.
    is_begun = operation.state not in (OperationState.QUEUED.value, OperationState.UNKNOWN.value)
    wanted = OperationState.CANCELLING if is_hard or not is_begun else OperationState.STOPPING
    message = "stops at once" if is_hard else "ends its transaction, then stops"
    move(operation.pk, wanted, message=message)


def _operations(table: Table, sink_id: str) -> QuerySet[Operation]:
    return Operation.objects.filter(
        table=table, kind=OperationKind.SINK.value, sink_id=sink_id
    ).select_related("table", "requested_by")


def _job(ask: SinkAsk, operation_id: uuid.UUID, session_id: str) -> SinkJob:
    try:
        checked_settings(ask.spark_conf)
        return SinkJob(
            operation_id=str(operation_id),
            table=ask.table.location,
            sink_options=dict(ask.options),
            application=ask.application,
            wanted_at_ms=int(timezone.now().timestamp() * 1000),
            spark_conf=dict(ask.spark_conf),
            session_id=session_id,
            user_id=SPARK_USER,
            run_dir=run_dir(operation_id),
            report_url=settings.SLUICE_REPORT_URL,
        )
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
