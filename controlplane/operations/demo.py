"""What the demo's buttons do: two writers on the same file groups, a schema that moves under a
writer, a writer killed.

Nothing here is a special path: the buttons ask for ordinary writes, and for one SIGKILL.
"""

from __future__ import annotations

from collections.abc import Mapping

from django.contrib.auth.models import User

from controlplane.audit.services import record
from controlplane.errors import NotAllowedNow
from controlplane.operations.models import Operation
from controlplane.operations.processes import is_running, kill_group
from controlplane.operations.requests import request_write
from controlplane.operations.states import OperationKind, OperationState
from controlplane.tables.models import Table

HEARTBEAT = {
    "hoodie.client.heartbeat.interval_in_ms": "2000",
    "hoodie.client.heartbeat.tolerable.misses": "5",
}
OPTIMISTIC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", **HEARTBEAT}


def start_demo_conflict(table: Table, by: User) -> tuple[Operation, Operation]:
    """Two optimistic backfills of the same requests at the same time: one commits, the other is
    told to whom it lost.
    """
    first = _write(table, by, "backfill-a", {"kind": "demo_backfill", "seed": 1}, OPTIMISTIC)
    second = _write(table, by, "backfill-b", {"kind": "demo_backfill", "seed": 2}, OPTIMISTIC)
    return first, second


def start_demo_schema_conflict(table: Table, by: User) -> tuple[Operation, Operation]:
    """Two writers that evolve one column in different ways at the same time (scenario 8 of the
    schema table).
    """
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
        assert operation.pid is not None
        if not is_running(operation.pid, str(operation.pk)):
            continue
        record(
            who=by.get_username(),
            what="demo.kill_writer",
            subject=table.slug,
            result="requested",
            details={"operation": str(operation.pk), "pid": operation.pid},
        )
        if kill_group(operation.pid, str(operation.pk)):
            return operation
    raise NotAllowedNow("no demo writer is running now", table=table.slug)


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
