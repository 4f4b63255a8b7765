"""`manage.py status`: which processes of this node run, and its address. Ends with 1 when not all
of them do.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management import BaseCommand

from controlplane.node.additions import additions
from controlplane.node.identity import read_identity
from controlplane.node.living import processes_of, supervisor_pid
from controlplane.node.places import places_from
from controlplane.node.readiness import probes
from controlplane.node.supervision import Supervisor


class Command(BaseCommand):
    help = "Show the processes of this node and its address; ends with 1 when not all are ready."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        places = places_from(os.environ)
        identity = read_identity(places.identity)
        if identity is None or supervisor_pid(places) is None:
            left = processes_of(places, identity) if identity else []
            rest = (
                f" ({len(left)} processes of an earlier run still run; `down` stops them)"
                if left
                else ""
            )
            self.stdout.write(f"Sluice is not running.{rest}")
            sys.exit(1)
        supervisor = Supervisor(identity)
        if not supervisor.answers():
            self.stdout.write(f"The supervisor does not answer; see {places.supervisor_log}")
            sys.exit(1)
        states = supervisor.states()
        is_well = True
        wanted = probes(identity, supervisor)
        for addition in additions():
            wanted |= addition.probes(places, supervisor)
        for name, probe in wanted.items():
            problem = probe()
            is_well = is_well and problem is None
            state = states.get(name)
            where = (
                f"pid {state.pid}, up {state.up_s} s"
                if state and state.pid
                else "started by Celery"
            )
            self.stdout.write(f"  {name:<8} {'ready' if problem is None else problem} ({where})")
        self.stdout.write(f"{identity.url}")
        if not is_well:
            sys.exit(1)
