"""`manage.py all`: every role of a node in the foreground, without a supervisor.

Unlike `up`, it starts neither Redis nor Spark and restarts nothing: when one process ends, it stops
the others and ends with 1, so that an orchestrator starts all of them again.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from typing import Any

from controlplane.node.foreground import run_together
from controlplane.node.identity import Identity
from controlplane.node.places import Places
from controlplane.node.processes import Process
from controlplane.node.role_command import RoleCommand, add_drain_argument
from controlplane.node.roles import prepare_static_files

_SERVICES = ("markers", "web")


class Command(RoleCommand):
    help = "Run every role of a node in the foreground; ends with 1 if a process ends."
    role = "all"

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        add_drain_argument(parser)

    def run(
        self,
        places: Places,
        identity: Identity,
        processes: dict[str, Process],
        options: dict[str, Any],
    ) -> None:
        prepare_static_files(places, self.say)
        # Its workers only sample the marker server, which this command starts.
        url = identity.marker_url or identity.own_marker_url
        identity = replace(identity, marker_url=url)
        services = [processes[name] for name in _SERVICES]
        workers = [process for name, process in processes.items() if name not in _SERVICES]
        run_together(services, workers, places, identity, drain_s=options["drain"], report=self.say)
