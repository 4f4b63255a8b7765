"""`manage.py up`: start this node, wait until it answers, say where, start what apps add to it.
With `--foreground` it stays until the node ends, for whatever starts it again, such as systemd.
"""

from __future__ import annotations

import os
import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management import BaseCommand, CommandError

from controlplane.node.additions import additions
from controlplane.node.living import await_supervisor
from controlplane.node.places import Places, places_from
from controlplane.node.start import CannotStart, start
from controlplane.node.stop import stop
from controlplane.node.turns import NotMyTurn, turn
from workers.installation import format_command


class Command(BaseCommand):
    help = "Start every process of this node; print its address and a login."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--foreground",
            action="store_true",
            help=(
                "keep running, print no password, stop the node on SIGTERM; end with 1 if the "
                "node ends"
            ),
        )
        for addition in additions():
            parser.add_argument(
                f"--no-{addition.name}", action="store_true", help=addition.help_without
            )

    def handle(self, *args: Any, **options: Any) -> None:
        places = places_from(os.environ)
        stays = options["foreground"]
        if stays:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with turn(places):
                is_fresh = start(places, self._say, shows_login=not stays)
        except NotMyTurn as error:
            raise CommandError(str(error)) from error
        except CannotStart as error:
            raise CommandError(f"Sluice did not start.\n{error}") from error
        except KeyboardInterrupt:
            raise CommandError("interrupted; Sluice did not start.") from None
        for addition in additions():
            if is_fresh and not options[f"no_{addition.name}"]:
                self._say(addition.start(self._say))
        if stays:
            self._stay(places)
        elif is_fresh:
            self._say(f"`{format_command('down')}` stops the node and keeps its data.")

    def _stay(self, places: Places) -> None:
        """Until the supervisor dies, whose processes are ended then, or a signal stops the node."""
        is_stopped = False
        try:
            await_supervisor(places)
        except KeyboardInterrupt:
            is_stopped = True
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)  # A second one ends nothing sooner.
        try:
            with turn(places):
                stop(places, self._say)
        except NotMyTurn as error:
            raise CommandError(str(error)) from error
        if not is_stopped:
            raise CommandError(
                "the supervisor of this node has ended; its processes were stopped; see its log"
            )
        self._say("Sluice is stopped; `up` starts it again with its data.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
