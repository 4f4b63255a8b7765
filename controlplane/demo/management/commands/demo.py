"""`manage.py demo`: three streams of the same ad requests, written at once into one table, and
orders that a sink brings from Kafka into another.
"""

from __future__ import annotations

import shutil
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from controlplane.demo.sink import NoKafka, delete_orders, orders_status, start_orders
from controlplane.demo.streams import (
    SLUG,
    DemoRun,
    newest_operation,
    opened_table,
    rounds_done,
    start_streams,
    table_location,
)
from controlplane.demo.upkeep import CANCEL_WAIT_S, POLL_S, admin, keep_small
from controlplane.errors import ControlPlaneError
from controlplane.operations.actions import do_request_cancel
from controlplane.operations.kinds import write
from controlplane.operations.models import Operation
from controlplane.operations.states import OPEN, OperationState
from controlplane.tables.models import Table as TableRow
from workers.clock import Clock, SystemClock
from workers.errors import LakehouseError


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
        by = admin()
        started = start_streams(
            by,
            DemoRun(
                rounds=options["rounds"],
                requests_per_round=options["requests"],
                pace_s=options["pace"],
                seed=options["seed"],
            ),
        )
        keep_small(started.table, by)
        live = f"{settings.SLUICE_PUBLIC_URL}/t/{SLUG}/live"
        if not started.streams:
            self.stdout.write(f"the demo runs: {live}")
            return
        self.stdout.write(
            f"the demo starts ({', '.join(started.streams)}; {started.rounds} rounds): {live}"
        )

    def _status(self) -> None:
        from workers.demo.ad_requests import STREAMS

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
        for operation in still_open.filter(kind=write.KIND.name):
            if operation.state != OperationState.CANCELLING.value:
                do_request_cancel(operation=operation, by=by, reason="the demo is reset")
        deadline_s = clock.monotonic_s() + CANCEL_WAIT_S
        while still_open.exists():
            if clock.monotonic_s() > deadline_s:
                raise CommandError("the demo's writers did not end; is the node up?")
            clock.sleep(POLL_S)
