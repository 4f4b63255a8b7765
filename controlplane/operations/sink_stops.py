"""Stopping a sink: a request beside the table, which whoever runs it finds there, whoever it is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.errors import NotAllowedNow, StorageUnavailable
from controlplane.mirror.queries.sinks import OVER, sink_record
from controlplane.mirror.storage import storage_of
from controlplane.operations.models import Operation
from controlplane.operations.moves import amend, move
from controlplane.operations.states import OPEN, OperationState
from controlplane.tables.models import Table
from workers.errors import LakehouseError
from workers.options.sink_keys import SINK_OPTIONS
from workers.sink.config import sink_config
from workers.sink.stop_request import StopKind, StopRequest, request_stop

SINK = "sink"
"""The name of the kind."""
GRACE_S = 45
"""Above the sink's own patience: after it, it ends its tasks by itself."""


def do_stop_sink(
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
            raise NotAllowedNow("this sink is not running", sink=sink_id)
    kind = StopKind.HARD if is_hard else StopKind.GRACEFUL
    if operation is not None and operation.state == OperationState.CANCELLING.value:
        raise NotAllowedNow("this sink is already being stopped", sink=sink_id)
    stop_at = timezone.now()
    put_stop(table, sink_id, kind, by=by, at=stop_at)
    with transaction.atomic():
        if operation is not None:
            _note_stop(operation, kind, by, stop_at)
        do_record(
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


def open_operation(table: Table, sink_id: str) -> Operation | None:
    open_operations = _operations(table, sink_id).filter(state__in=sorted(OPEN))
    return open_operations.first()


def newest_operation(table: Table, sink_id: str) -> Operation | None:
    return _operations(table, sink_id).order_by("-requested_at").first()


def own_options(options: Mapping[str, str]) -> dict[str, str]:
    """Those of the sink itself; the others are options of writes and of table services."""
    return {key: text for key, text in options.items() if key in SINK_OPTIONS}


def put_stop(table: Table, sink_id: str, kind: StopKind, *, by: str, at: datetime) -> None:
    """Put the request beside the table, where the sink looks. Raises StorageUnavailable."""
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
    message = "stopping at once" if is_hard else "stopping after the current transaction"
    move(operation.pk, wanted, message=message)


def _operations(table: Table, sink_id: str) -> QuerySet[Operation]:
    return Operation.objects.filter(table=table, kind=SINK, sink_id=sink_id).select_related(
        "table", "requested_by"
    )
