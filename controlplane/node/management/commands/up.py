"""`manage.py up`: start this node, wait until it answers, say where, start what apps add to it."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management import BaseCommand, CommandError

from controlplane.node.additions import additions
from controlplane.node.places import places_from
from controlplane.node.start import CannotStart, start
from controlplane.node.turns import NotMyTurn, turn


class Command(BaseCommand):
    help = "Start every process of this node and its additions; print one address and a login."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        for addition in additions():
            parser.add_argument(
                f"--no-{addition.name}", action="store_true", help=addition.help_without
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
        for addition in additions():
            if is_fresh and not options[f"no_{addition.name}"]:
                addition.start(self.stdout)

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
