"""`manage.py worker engine`: a worker of one or more queues, in the foreground."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from controlplane.node.foreground import run_together
from controlplane.node.identity import Identity
from controlplane.node.places import Places
from controlplane.node.processes import Process
from controlplane.node.role_command import RoleCommand, add_drain_argument
from controlplane.node.roles import QUEUES, build_worker


class Command(RoleCommand):
    help = "Run a worker in the foreground: `worker engine`, `worker control mirror messages`."
    role = "worker"

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "queues", nargs="+", choices=QUEUES, help=f"one or more of {', '.join(QUEUES)}"
        )
        parser.add_argument(
            "--concurrency",
            type=int,
            metavar="JOBS",
            help="jobs that run concurrently (4 for engine, 2 for each other queue)",
        )
        add_drain_argument(parser)

    def run(
        self,
        places: Places,
        identity: Identity,
        processes: dict[str, Process],
        options: dict[str, Any],
    ) -> None:
        queues = tuple(options["queues"])
        worker = build_worker(os.environ, processes["worker"], queues, options["concurrency"])
        if "engine" not in queues:
            self.become(worker, places, identity)
        run_together([], [worker], places, identity, drain_s=options["drain"], report=self.say)
