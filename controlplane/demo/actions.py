"""What the demo's buttons do: two writers on the same file groups, a schema that moves under a
writer, a writer killed.

Nothing here is a special path: the buttons ask for ordinary writes, and for one SIGKILL.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from django.contrib.auth.models import User
from django.db import transaction
from kombu.exceptions import OperationalError

from controlplane.audit.actions import do_record
from controlplane.celery import app
from controlplane.demo.source_kinds import BACKFILL, EVOLVE, LATE, SOURCE_KINDS
from controlplane.errors import NotAllowedNow, QueueUnavailable
from controlplane.mirror.storage import storage_of
from controlplane.operations.kinds import write
from controlplane.operations.kinds.write import do_request_write
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OPEN, OperationState
from controlplane.tables.models import Table
from workers.clock import InstantTime, SystemClock
from workers.concurrency.heartbeat import read_heartbeats
from workers.markers.store import read_names
from workers.spark.process import is_driver, kill_driver, read_pid

HEARTBEAT = {
    "hoodie.client.heartbeat.interval_in_ms": "2000",
    "hoodie.client.heartbeat.tolerable.misses": "5",
}
OPTIMISTIC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL", **HEARTBEAT}
EARLY = {**OPTIMISTIC, "hoodie.write.concurrency.early.conflict.detection.enable": "true"}
NON_BLOCKING = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    **HEARTBEAT,
}
SPARK_CONF = {"spark.sql.shuffle.partitions": "2"}
"""A handful of rows."""
LATE_S = 45.0
KILL_TASK = "controlplane.demo.kill_writer"
KILLED_WRITER = "demo.kill_writer"
"""What the audit calls it, when it is requested and when it is done."""
KILL_WAIT_S = 20.0
KILL_POLL_S = 0.05
KILL_ATTEMPTS_MAX = 12
"""Four minutes: a stream that has just been requested starts a Spark before it writes."""
NONE_TO_KILL = "no demo writer runs on this machine; start the demo again first"
_BUSY = {
    BACKFILL: "two writers of this demonstration run already; wait until both have ended",
    EVOLVE: "two writers change the schema already; wait until both have ended",
    LATE: "a burst of late clicks is under way; wait until it has ended",
}
"""Kind of source -> why it cannot be started a second time at once."""


def do_start_demo_conflict(table: Table, by: User) -> tuple[Operation, Operation]:
    """Two optimistic backfills of the same requests at the same time: one commits, the other is
    told to whom it lost.
    """
    _check_startable(table, BACKFILL)
    first = _write(table, by, "backfill-a", {"kind": BACKFILL, "seed": 1}, OPTIMISTIC)
    second = _write(table, by, "backfill-b", {"kind": BACKFILL, "seed": 2}, OPTIMISTIC)
    return first, second


def do_start_demo_early_conflict(table: Table, by: User) -> tuple[Operation, Operation]:
    """The same two, who look at each other's markers while they write: one is stopped before it has
    written all that would be in vain.
    """
    _check_startable(table, BACKFILL)
    first = _write(table, by, "backfill-a", {"kind": BACKFILL, "seed": 1, "hold_s": 6.0}, EARLY)
    second = _write(table, by, "backfill-b", {"kind": BACKFILL, "seed": 2, "hold_s": 6.0}, EARLY)
    return first, second


def do_start_demo_late_clicks(table: Table, by: User) -> tuple[Operation, Operation]:
    """A burst of requests whose clicks come most of a minute late: the coverage of the clicks'
    columns falls, and heals.
    """
    _check_startable(table, LATE)
    run = SystemClock().now_ms() // 1000
    operations = [
        do_request_write(
            table=table,
            parameters={
                "source": {"kind": LATE, "stream": stream, "run": run, "hold_s": hold_s},
                "stream": stream,
                "options": {**NON_BLOCKING, "sluice.writer.name": f"late-{stream}"},
                "spark_conf": SPARK_CONF,
            },
            by=by,
            reason="demo",
        )
        for stream, hold_s in (("impression", 0.0), ("click", LATE_S))
    ]
    return operations[0], operations[1]


def do_start_demo_schema_conflict(table: Table, by: User) -> tuple[Operation, Operation]:
    """Start two writers that each add another column at the same time: case 8 of RFC-82."""
    _check_startable(table, EVOLVE)
    first = _write(table, by, "evolve-a", {"kind": EVOLVE, "variant": "a"}, OPTIMISTIC)
    second = _write(table, by, "evolve-b", {"kind": EVOLVE, "variant": "b"}, OPTIMISTIC)
    return first, second


def do_kill_demo_writer(table: Table, by: User) -> Operation:
    """SIGKILL to a running demo writer and all its processes, in the middle of its next write. Its
    heartbeat stops; recovery does the rest.

    The newest of those that may be hit. Raises NotAllowedNow when none runs on this machine.
    """
    running = [operation for operation in _running(table) if _pid(operation) is not None]
    if not running:
        raise NotAllowedNow(NONE_TO_KILL, table=table.slug)
    do_request_kill(table, by)
    return running[0]


def do_request_kill(table: Table, by: User) -> None:
    """Request the kill of a demo writer that runs, or that starts soon. Raises QueueUnavailable."""
    with transaction.atomic():
        do_record(
            who=by.get_username(),
            what=KILLED_WRITER,
            subject=table.slug,
            result="requested",
            details={"operations": [str(operation.pk) for operation in _running(table)]},
        )
        transaction.on_commit(lambda: send_kill(table.slug, by.get_username()))


def send_kill(slug: str, by: str, attempt: int = 1) -> None:
    """Queue one attempt. Raises QueueUnavailable."""
    try:
        app.send_task(KILL_TASK, args=[slug, by, attempt], retry=False)
    except OperationalError as error:
        raise QueueUnavailable from error


def kill_in_the_middle(
    table: Table, *, by: str = "demo", wait_s: float = KILL_WAIT_S, spares_idle: bool = False
) -> Operation | None:
    """Wait until a demo writer has markers and has not committed, kill it, and record its instant.

    A writer that waits between two rounds leaves nothing that a page could show. If none writes
    in time, the newest is killed as it is, unless `spares_idle`. Return None if none was killed.
    """
    clock = SystemClock()
    storage = storage_of(table)
    deadline_s = clock.monotonic_s() + wait_s
    while clock.monotonic_s() < deadline_s:
        running = {str(operation.pk): operation for operation in _running(table)}
        for beat in read_heartbeats(storage):
            chosen = running.get(beat.operation_id or "")
            if chosen and read_names(storage, beat.instant).all() and _kill(chosen):
                _record_kill(table, by, chosen, beat.instant)
                return chosen
        clock.sleep(KILL_POLL_S)
    if spares_idle:
        return None
    killed = next((operation for operation in _running(table) if _kill(operation)), None)
    if killed is not None:
        _record_kill(table, by, killed, "")
    return killed


def _record_kill(table: Table, by: str, killed: Operation, instant: InstantTime) -> None:
    do_record(
        who=by,
        what=KILLED_WRITER,
        subject=table.slug,
        result="succeeded",
        details={"operation": str(killed.pk), "instant": instant},
    )


def _running(table: Table) -> list[Operation]:
    """Demo writes that report to be running, newest first."""
    kinds = [kind.name for kind in SOURCE_KINDS]
    running = Operation.objects.filter(
        table=table,
        kind=write.KIND.name,
        state=OperationState.RUNNING.value,
        parameters__job__source__kind__in=kinds,
    )
    return list(running.order_by("-requested_at"))


def _pid(operation: Operation) -> int | None:
    """Its driver's, while that lives here."""
    folder = Path(run_dir(operation.pk))
    pid = read_pid(folder)
    return pid if pid is not None and is_driver(pid, folder) else None


def _kill(operation: Operation) -> bool:
    return kill_driver(Path(run_dir(operation.pk)), _pid(operation), SystemClock())


def find_obstacles(table: Table) -> dict[str, str]:
    """Return why the writers of each of the demo's sources cannot be started now, and under
    `KILL_TASK` why none can be killed. What can be done is absent. One query.
    """
    kinds = [kind.name for kind in SOURCE_KINDS]
    running = Operation.objects.filter(
        table=table, state__in=sorted(OPEN), parameters__job__source__kind__in=kinds
    )
    obstacles = {KILL_TASK: NONE_TO_KILL}
    for operation in running:
        kind = operation.parameters["job"]["source"]["kind"]
        if kind in _BUSY:
            obstacles[kind] = _BUSY[kind]
        is_running = operation.state == OperationState.RUNNING.value
        if KILL_TASK in obstacles and is_running and _pid(operation) is not None:
            del obstacles[KILL_TASK]
    return obstacles


def _check_startable(table: Table, kind: str) -> None:
    """Raises NotAllowedNow while writers of this kind of source run."""
    running = Operation.objects.filter(
        table=table, state__in=sorted(OPEN), parameters__job__source__kind=kind
    )
    if running.exists():
        raise NotAllowedNow(_BUSY[kind], table=table.slug)


def _write(
    table: Table,
    by: User,
    writer: str,
    source: Mapping[str, str | float],
    options: Mapping[str, str],
) -> Operation:
    parameters = {
        "source": dict(source),
        "operation": "upsert",
        "options": {**options, "sluice.writer.name": writer},
        "spark_conf": SPARK_CONF,
    }
    return do_request_write(table=table, parameters=parameters, by=by, reason="demo")
