"""`manage.py demo`: three streams of the same ad requests, written at once into one table, and
orders that a sink brings from Kafka into another.
"""

from __future__ import annotations

import json
import shutil
from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from controlplane.errors import ControlPlaneError
from controlplane.node.demo_sink import NoKafka, delete_orders, orders_status, start_orders
from controlplane.node.demo_upkeep import CANCEL_WAIT_S, POLL_S, admin, keep_small
from controlplane.operations.demo import HEARTBEAT, RESTARTS_MAX
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.services import request_cancel, request_write
from controlplane.operations.states import OPEN, OperationKind, OperationState
from controlplane.tables.models import Table as TableRow
from controlplane.tables.services import register_table
from workers.clock import Clock, SystemClock
from workers.errors import LakehouseError, TableNotFound
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.spark.process import ENDING_FILE, is_driver, read_pid

NAME = "ad_requests"
SLUG = "ad-requests"
BUCKETS = 2
WRITE_OPTIONS = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    **HEARTBEAT,
}
SPARK_CONF = {"spark.sql.shuffle.partitions": "2"}


class Command(BaseCommand):
    help = "Start the demo's three streams and its sink (an unfinished run goes on), show, reset."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--start", action="store_true", help="start, or go on with, all of it")
        what.add_argument("--status", action="store_true", help="how far each part is")
        what.add_argument("--reset", action="store_true", help="end all of it, delete its tables")
        parser.add_argument("--rounds", type=int, default=40, help="rounds of a new run (40)")
        parser.add_argument("--pace", type=float, default=8.0, help="seconds per round (8)")
        parser.add_argument("--requests", type=int, default=40, help="ad requests per round (40)")
        parser.add_argument("--seed", type=int, default=7, help="of the generator (7)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["start"]:
                self._start(options)
                self._start_orders(SystemClock())
            elif options["status"]:
                self._status()
            else:
                delete_orders(SystemClock())
                self._reset(SystemClock())
        except (ControlPlaneError, LakehouseError, NoKafka) as error:
            raise CommandError(str(error)) from error

    def _start_orders(self, clock: Clock) -> None:
        """The demo's own Kafka is fetched from outside; all else is here and does without it."""
        try:
            start_orders(admin(), clock, self._say)
        except NoKafka as error:
            self._say(f"the demo has no sink: {error}")
            self._say("everything else runs; `make demo` tries again")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _start(self, options: Mapping[str, Any]) -> None:
        from workers.spark.sources.ad_requests import STREAMS

        by, table = admin(), opened_table()
        row = TableRow.objects.filter(location=table.location).first() or register_table(
            location=table.location, slug=SLUG, name=NAME, by=by
        )
        keep_small(row, by)
        waiting = [stream for stream in STREAMS if not is_taken_care_of(row, stream)]
        if not waiting:
            self.stdout.write(f"the demo runs: {settings.SLUICE_PUBLIC_URL}/t/{SLUG}/live")
            return
        source = unfinished_run(row, table) or {
            "kind": "demo_stream",
            "seed": options["seed"],
            "run": SystemClock().now_ms() // 1000,
            "rounds": options["rounds"],
            "requests_per_round": options["requests"],
            "pace_s": options["pace"],
        }
        for stream in waiting:
            parameters = {
                "source": {**source, "stream": stream},
                "stream": stream,
                "options": {**WRITE_OPTIONS, "sluice.writer.name": stream},
                "spark_conf": SPARK_CONF,
            }
            request_write(table=row, parameters=parameters, by=by, reason="demo")
        self.stdout.write(
            f"the demo starts ({', '.join(waiting)}; {source['rounds']} rounds): "
            f"{settings.SLUICE_PUBLIC_URL}/t/{SLUG}/live"
        )

    def _status(self) -> None:
        from workers.spark.sources.ad_requests import STREAMS

        row = TableRow.objects.filter(slug=SLUG).first()
        if row is None:
            self.stdout.write("the demo was never started: manage.py demo --start")
            return
        done = rounds_done(opened_table())
        for stream in STREAMS:
            newest = newest_operation(row, stream)
            state = newest.state if newest else "never started"
            rounds = newest.parameters["job"]["source"]["rounds"] if newest else 0
            run = newest.parameters["job"]["source"]["run"] if newest else 0
            position = done.get(stream, (0, 0))
            said = f": {newest.message}" if newest and newest.message else ""
            written = position[1] if position[0] == run else 0
            self.stdout.write(f"  {stream:<11} {written} of {rounds} rounds, {state}{said}")
        orders_status(self.stdout.write)

    def _reset(self, clock: Clock) -> None:
        location = table_location()
        row = TableRow.objects.filter(location=location).first()
        if row is not None:
            self._cancel_all(row, clock)
            row.delete()
        shutil.rmtree(location, ignore_errors=True)
        self.stdout.write("the demo is gone; manage.py demo --start begins anew")

    def _cancel_all(self, row: TableRow, clock: Clock) -> None:
        by = admin()
        still_open = Operation.objects.filter(table=row, state__in=sorted(OPEN))
        for operation in still_open.filter(kind=OperationKind.WRITE.value):
            if operation.state != OperationState.CANCELLING.value:
                request_cancel(operation=operation, by=by, reason="the demo is reset")
        deadline_s = clock.monotonic_s() + CANCEL_WAIT_S
        while still_open.exists():
            if clock.monotonic_s() > deadline_s:
                raise CommandError("the demo's writers did not end; is the node up?")
            clock.sleep(POLL_S)


def table_location() -> str:
    return f"{settings.SLUICE_TABLE_ROOTS[0]}/{NAME}"


def opened_table() -> LakehouseTable:
    from workers.spark.sources.ad_requests import COLUMN_GROUPS, KEY, PARTITION, TABLE_SCHEMA

    try:
        found = open_table(table_location())
        if found.table.config.groups is None:
            raise CommandError(
                "the demo's table was made before its streams had clocks of their own; "
                "`manage.py demo --reset` deletes it, and the next start makes a new one"
            )
        return found
    except TableNotFound:
        return create_table(
            table_location(),
            name=NAME,
            schema=TABLE_SCHEMA,
            record_key=[KEY],
            partition_by=[PARTITION],
            table_type="MERGE_ON_READ",
            options={
                "hoodie.bucket.index.num.buckets": str(BUCKETS),
                "hoodie.multistream.groups": COLUMN_GROUPS,
            },
        )


def newest_operation(row: TableRow, stream: str) -> Operation | None:
    writes = Operation.objects.filter(
        table=row,
        parameters__job__source__kind="demo_stream",
        parameters__job__source__stream=stream,
    )
    return writes.order_by("-requested_at").first()


def is_taken_care_of(row: TableRow, stream: str) -> bool:
    """A driver writes this stream, or somebody will start one without our asking."""
    newest = newest_operation(row, stream)
    if newest is None or OperationState(newest.state) not in OPEN:
        return False
    folder = Path(run_dir(newest.pk))
    pid = read_pid(folder)
    if pid is None or is_driver(pid, folder):
        return True
    try:
        ending = json.loads((folder / ENDING_FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        ending = {}
    # The driver is gone. Reconciliation starts one that died again, not one that was asked to end.
    died = ending.get("state") not in ("cancelled", "succeeded")
    return died and int(newest.parameters.get("restarts", 0)) < RESTARTS_MAX


def rounds_done(table: LakehouseTable) -> dict[str, tuple[int, int]]:
    """Per stream the run and the number of its rounds that the table holds."""
    from workers.spark.sources import Position
    from workers.spark.sources.source import POSITION_KEY
    from workers.table.schema_history import read_instant
    from workers.timeline.metadata import STREAM_KEY

    done: dict[str, tuple[int, int]] = {}
    for instant in table.table.timeline().completed_writes():
        extra = read_instant(table.table, instant).extra_metadata
        position = Position.decode(extra.get(POSITION_KEY, ""))
        if position is not None and STREAM_KEY in extra:
            stream = extra[STREAM_KEY]
            done[stream] = max(done.get(stream, (0, 0)), (position.run, position.round + 1))
    return done


def unfinished_run(row: TableRow, table: LakehouseTable) -> dict[str, Any] | None:
    """The source of the newest run, when a stream of it has rounds left."""
    from workers.spark.sources.ad_requests import STREAMS

    sources = [
        newest.parameters["job"]["source"]
        for stream in STREAMS
        if (newest := newest_operation(row, stream)) is not None
    ]
    if not sources:
        return None
    source: dict[str, Any] = max(sources, key=lambda one: int(one["run"]))
    done = rounds_done(table)
    is_finished = all(done.get(one, (0, 0)) >= (source["run"], source["rounds"]) for one in STREAMS)
    return None if is_finished else source
