"""`manage.py demo`: three streams of the same ad requests, written at once into one table, and
orders that a sink brings from Kafka into another.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from controlplane.demo.reset import delete_all, start_all
from controlplane.demo.sink import SLUG as ORDERS_SLUG
from controlplane.demo.sink import NoKafka, orders_status
from controlplane.demo.streams import (
    SLUG,
    DemoRun,
    newest_operation,
    opened_table,
    rounds_done,
)
from controlplane.demo.upkeep import admin
from controlplane.errors import ControlPlaneError
from controlplane.tables.models import Table as TableRow
from workers.clock import SystemClock
from workers.errors import LakehouseError
from workers.installation import format_command


class Command(BaseCommand):
    help = "Start, show or reset the demo: three streams and a sink. An unfinished run continues."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument(
            "--start", action="store_true", help="start or continue the streams and the sink"
        )
        what.add_argument("--status", action="store_true", help="show the progress of each part")
        what.add_argument(
            "--reset", action="store_true", help="stop the demo and delete its tables"
        )
        parser.add_argument("--rounds", type=int, default=90, help="rounds of a new run (90)")
        parser.add_argument("--pace", type=float, default=8.0, help="seconds per round (8)")
        parser.add_argument("--requests", type=int, default=40, help="ad requests per round (40)")
        parser.add_argument("--seed", type=int, default=7, help="the seed of the generator (7)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["start"]:
                self._start(options)
            elif options["status"]:
                self._status()
            else:
                delete_all(admin(), SystemClock())
                self.stdout.write(
                    f"the demo was deleted; `{format_command('demo --start')}` starts a new one"
                )
        except (ControlPlaneError, LakehouseError, NoKafka) as error:
            raise CommandError(str(error)) from error

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()

    def _start(self, options: Mapping[str, Any]) -> None:
        by = admin()
        wanted = DemoRun(
            rounds=options["rounds"],
            requests_per_round=options["requests"],
            pace_s=options["pace"],
            seed=options["seed"],
        )
        demo = start_all(by, wanted, SystemClock(), self._say)
        live = f"{settings.SLUICE_PUBLIC_URL}/t/{SLUG}/live"
        if demo.streams.streams:
            names = ", ".join(demo.streams.streams)
            self._say(f"the demo starts ({names}; {demo.streams.rounds} rounds): {live}")
        else:
            self._say(f"the demo runs: {live}")
        if demo.problem:
            self._say(f"the demo has no sink: {demo.problem}")
            self._say(f"everything else runs; `{format_command('demo --start')}` tries again")
        else:
            sinks = f"{settings.SLUICE_PUBLIC_URL}/t/{ORDERS_SLUG}/sinks"
            self._say(f"orders go through Kafka at {demo.bootstrap} into {sinks}")

    def _status(self) -> None:
        from workers.demo.ad_requests import STREAMS

        row = TableRow.objects.filter(slug=SLUG).first()
        if row is None:
            self.stdout.write(f"the demo was never started; run `{format_command('demo --start')}`")
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
