"""What the demo's buttons do: two writers on the same file groups, a schema that moves under a
writer, a writer killed.

Nothing here is a special path: the buttons ask for ordinary writes, and for one SIGKILL.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from django.contrib.auth.models import User

from controlplane.accounts.roles import is_admin
from controlplane.audit.services import record
from controlplane.errors import NotAllowedNow
from controlplane.operations.models import Operation
from controlplane.operations.requests import request_write, run_dir
from controlplane.operations.states import OPEN, OperationKind, OperationState
from controlplane.tables.models import Table
from workers.clock import SystemClock
from workers.spark.process import is_driver, kill_driver

HEARTBEAT = {
    "hoodie.client.heartbeat.interval_in_ms": "2000",
    "hoodie.client.heartbeat.tolerable.misses": "5",
}
OPTIMISTIC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", **HEARTBEAT}


RESTARTS_MAX = 3


def start_demo_conflict(table: Table, by: User) -> tuple[Operation, Operation]:
    """Two optimistic backfills of the same requests at the same time: one commits, the other is
    told to whom it lost.
    """
    _refuse_while_running(table, "demo_backfill")
    first = _write(table, by, "backfill-a", {"kind": "demo_backfill", "seed": 1}, OPTIMISTIC)
    second = _write(table, by, "backfill-b", {"kind": "demo_backfill", "seed": 2}, OPTIMISTIC)
    return first, second


def start_demo_schema_conflict(table: Table, by: User) -> tuple[Operation, Operation]:
    """Two writers that evolve one column in different ways at the same time (scenario 8 of the
    schema table).
    """
    _refuse_while_running(table, "demo_evolve")
    first = _write(table, by, "evolve-a", {"kind": "demo_evolve", "variant": "a"}, OPTIMISTIC)
    second = _write(table, by, "evolve-b", {"kind": "demo_evolve", "variant": "b"}, OPTIMISTIC)
    return first, second


def kill_demo_writer(table: Table, by: User) -> Operation:
    """SIGKILL to the newest running demo writer and all its processes. Its heartbeat stops;
    recovery does the rest.

    Raises NotAllowedNow when none runs on this machine.
    """
    running = Operation.objects.filter(
        table=table, kind=OperationKind.WRITE.value, state=OperationState.RUNNING.value
    ).exclude(pid=None)
    for operation in running.order_by("-requested_at"):
        source = operation.parameters["job"]["source"]
        if not str(source.get("kind", "")).startswith("demo_"):
            continue
        folder = Path(run_dir(operation.pk))
        if operation.pid is None or not is_driver(operation.pid, folder):
            continue
        record(
            who=by.get_username(),
            what="demo.kill_writer",
            subject=table.slug,
            result="requested",
            details={"operation": str(operation.pk), "pid": operation.pid},
        )
        if kill_driver(folder, operation.pid, SystemClock()):
            return operation
    raise NotAllowedNow("no demo writer is running now", table=table.slug)


def start_stream_again(operation: Operation) -> Operation | None:
    """Another writer in the place of a demo stream's that died; it goes on behind its last commit.

    None for any other write, after too many restarts, or when nobody may ask for it any more.
    """
    job = operation.parameters["job"]
    restarts = int(operation.parameters.get("restarts", 0))
    if job["source"].get("kind") != "demo_stream" or restarts >= RESTARTS_MAX:
        return None
    if operation.requested_by is None or not is_admin(operation.requested_by):
        return None
    options = {key: text for key, text in job["options"].items() if key != "sluice.operation.id"}
    return request_write(
        table=operation.table,
        parameters={
            "source": job["source"],
            "operation": job["operation"],
            "stream": job["stream"],
            "options": options,
            "spark_conf": job["spark_conf"],
        },
        by=operation.requested_by,
        reason=f"in the place of {operation.pk}",
        restarts=restarts + 1,
    )


def _refuse_while_running(table: Table, kind: str) -> None:
    running = Operation.objects.filter(
        table=table, state__in=sorted(OPEN), parameters__job__source__kind=kind
    )
    if running.exists():
        raise NotAllowedNow("this demonstration is running already", kind=kind)


def _write(
    table: Table,
    by: User,
    writer: str,
    source: Mapping[str, str | int],
    options: Mapping[str, str],
) -> Operation:
    parameters = {
        "source": dict(source),
        "operation": "upsert",
        "options": {**options, "sluice.writer.name": writer},
    }
    return request_write(table=table, parameters=parameters, by=by, reason="demo")
