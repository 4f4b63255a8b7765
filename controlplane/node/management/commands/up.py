"""`manage.py up`: start this node, wait until it answers, say where, start the demo."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management import BaseCommand, CommandError, call_command, get_commands

from controlplane.node.places import places_from
from controlplane.node.start import CannotStart, start
from controlplane.node.turns import NotMyTurn, turn


class Command(BaseCommand):
    help = "Start every process of this node and the demo; print one address and a login."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--no-demo",
            action="store_true",
            help="start no demo streams (they can be started later)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        places = places_from(os.environ)
        try:
            with turn(places):
                is_fresh = start(places, self._say)
        except NotMyTurn as error:
            raise CommandError(str(error)) from error
        except CannotStart as error:
            raise CommandError(f"Sluice is not up.\n{error}") from error
        except KeyboardInterrupt:
            raise CommandError("interrupted; Sluice is not up.") from None
        if is_fresh and not options["no_demo"] and "demo" in get_commands():
            call_command("demo", "--start", stdout=self.stdout)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
