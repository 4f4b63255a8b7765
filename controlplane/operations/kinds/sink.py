"""Sinks from launch to end: started as an operation, stopped by a request beside the table, started
again with the same options.

A sink that somebody runs from a shell is no operation: it is seen and stopped all the same, because
both go by the files beside the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.audit.services import record
from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.mirror.storage import storage_of
from controlplane.mirror.views_sinks import OVER, sink_record
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move
from controlplane.operations.queueing import Wanted, known_request, queue_once
from controlplane.operations.request_places import check_places
from controlplane.operations.requests import SPARK_USER
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OPEN, OperationKind, OperationState
from controlplane.tables.locations import checked_location, checked_source
from controlplane.tables.models import Table
from workers.config import write_options
from workers.errors import InvalidInput, LakehouseError
from workers.jobs import SinkJob
from workers.node_options import refuse_connections
from workers.services.inline import own_options as options_of_writes
from workers.sink.config import SINK_OPTIONS, SinkConfig, sink_config
from workers.sink.kafka.client_config import connection
from workers.sink.stop_request import StopKind, StopRequest, request_stop
from workers.spark.settings import checked_settings

RELAUNCHES_MAX = 20
GRACE_S = 45
"""Above the sink's own patience: after it, it ends its tasks by itself."""


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
    """Queue a sink that runs until it is stopped. The same key by the same person has one effect.

    Raises InvalidRequest before anything is stored, NotAllowedNow while an operation of this sink
    is open.
    """
    operation_id = uuid.uuid4()
    given = {key: text for key, text in options.items() if text != ""}
    config = checked_options(table, given)
    same = {"table_id": table.pk, "kind": OperationKind.SINK.value, "sink_id": config.sink_id}
    if known := known_request(by, idempotency_key, same):
        return known
    if not 0 <= relaunches_max <= RELAUNCHES_MAX:
        raise InvalidRequest("too many relaunches", most=RELAUNCHES_MAX)
    session_id = str(uuid.uuid4())
    wanted = Wanted(
        table=table,
        kind=OperationKind.SINK,
        job=_job(table, given, operation_id, session_id, application, spark_conf or {}),
        by=by,
        who=by.get_username(),
        what=what,
        reason=reason,
        idempotency_key=idempotency_key,
        columns={
            "session_id": session_id,
            "user_id_spark": SPARK_USER,
            "sink_id": config.sink_id,
        },
        parameters={
            "writer": config.sink_id,
            "relaunches_max": relaunches_max,
            "relaunches": relaunches,
        },
        details={"sink": config.sink_id, "topic": config.topic},
    )
    return queue_once(wanted, same, busy="this sink has an operation already")


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
    found = _operations(table, sink_id).filter(state__in=sorted(OPEN))
    return found.first()


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
    asked = StopRequest(kind, by, int(at.timestamp() * 1000))
    try:
        request_stop(storage_of(table), sink_id, asked)
    except LakehouseError as error:
        raise StorageUnavailable(f"the stop request cannot be written: {error.message}") from error


def stop_deadline(operation: Operation) -> datetime | None:
    """When a sink that ends its transaction is stopped without; None while nobody asked for it."""
    asked = operation.parameters.get("stop")
    if not asked:
        return None
    wait = timedelta(seconds=int(asked["wait_s"]))
    return datetime.fromisoformat(asked["at"]) + wait


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


def _job(
    table: Table,
    options: Mapping[str, str],
    operation_id: uuid.UUID,
    session_id: str,
    application: str,
    spark_conf: Mapping[str, str],
) -> SinkJob:
    try:
        checked_settings(spark_conf)
        return SinkJob(
            operation_id=str(operation_id),
            table=table.location,
            sink_options=dict(options),
            application=application,
            wanted_at_ms=int(timezone.now().timestamp() * 1000),
            spark_conf=dict(spark_conf),
            session_id=session_id,
            user_id=SPARK_USER,
            run_dir=run_dir(operation_id),
            report_url=settings.SLUICE_REPORT_URL,
        )
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
