"""`manage.py down`: stop this node; data stays."""

from __future__ import annotations

import os
from typing import Any

from django.core.management import BaseCommand, CommandError

from controlplane.node.identity import read_identity
from controlplane.node.places import places_from
from controlplane.node.stop import stop
from controlplane.node.turns import NotMyTurn, turn


class Command(BaseCommand):
    help = "Stop every process of this node: writers, marker server and services. Data is kept."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        places = places_from(os.environ)
        if read_identity(places.identity) is None:
            self._say("Sluice is not running.")
            return
        try:
            with turn(places):
                was_running = stop(places, self._say)
        except NotMyTurn as error:
            raise CommandError(str(error)) from error
        if was_running:
            self._say("Sluice is stopped; `up` starts it again with its data.")
        else:
            self._say("Sluice is not running.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
