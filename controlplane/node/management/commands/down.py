"""`manage.py down`: stop this node; data stays."""

from __future__ import annotations

import os
from typing import Any

from django.core.management import BaseCommand

from controlplane.node.places import places_from
from controlplane.node.stop import stop


class Command(BaseCommand):
    help = "Stop every process of this node: writers, marker server, services. Data stays."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        if stop(places_from(os.environ), self._say):
            self._say("Sluice is down; `up` continues where it was.")
        else:
            self._say("Sluice is not running.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
