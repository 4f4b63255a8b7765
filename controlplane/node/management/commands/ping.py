"""`manage.py ping ROLE`: does the role's process on this machine work? Ends with 1 if it does not.

For health checks of orchestrators. The web process and the marker server also answer `GET /healthz`
and `GET /health`.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from typing import Any

from django.core.management import BaseCommand, CommandError

from controlplane.node.identity import BadSetting, build_identity
from controlplane.node.places import places_from
from controlplane.node.readiness import beat_works, server_works, this_worker_answers, web_works
from controlplane.node.roles import QUEUES


class Command(BaseCommand):
    help = "Check that a role's process on this machine works: `ping web`, `ping worker engine`."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        roles = parser.add_subparsers(dest="role", required=True, metavar="ROLE")
        roles.add_parser("web", help="check that it answers GET /healthz")
        worker = roles.add_parser("worker", help="check that it answers through its queue")
        worker.add_argument(
            "queues", nargs="+", choices=QUEUES, help="the queues that were passed to `worker`"
        )
        roles.add_parser("beat", help="check that it ran in the last minute")
        roles.add_parser("markers", help="check that it answers GET /health")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            problem = self._find_problem(options)
        except BadSetting as error:
            raise CommandError(str(error)) from error
        if problem is not None:
            raise CommandError(f"{options['role']}: {problem}")
        self.stdout.write(f"{options['role']} works")

    def _find_problem(self, options: dict[str, Any]) -> str | None:
        own = build_identity(os.environ, node="")
        match options["role"]:
            case "web":
                return web_works(own.web_host, own.web_port)
            case "worker":
                return this_worker_answers(tuple(options["queues"]))
            case "beat":
                return beat_works(places_from(os.environ))
            case _:
                return server_works(own.marker_host, own.marker_port)
