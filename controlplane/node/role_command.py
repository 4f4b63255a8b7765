"""The frame of the commands that run one role of a node: settings, database, role."""

from __future__ import annotations

import os
from abc import abstractmethod
from argparse import ArgumentParser
from typing import Any, ClassVar, NoReturn

from django.core.management import BaseCommand, CommandError

from controlplane.node.foreground import ProcessEnded
from controlplane.node.identity import BadSetting, Identity
from controlplane.node.launch import become
from controlplane.node.places import Places, places_from
from controlplane.node.processes import Process
from controlplane.node.roles import CannotRun, await_database, build_processes, read_role

DATABASE_WAIT_S = 60.0


class RoleCommand(BaseCommand):
    """Runs one role in the foreground until SIGTERM. Reports a missing setting in one sentence."""

    role: ClassVar[str]
    needs_database: ClassVar[bool] = True
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        if self.needs_database:
            parser.add_argument(
                "--wait",
                type=float,
                default=DATABASE_WAIT_S,
                metavar="SECONDS",
                help="how long to wait for the database (%(default)s)",
            )

    def handle(self, *args: Any, **options: Any) -> None:
        places = places_from(os.environ)
        try:
            identity, secrets = read_role(self.role, os.environ, places)
            places.create()
            if self.needs_database:
                await_database(os.environ, wait_s=options["wait"])
            self.run(
                places, identity, build_processes(os.environ, places, identity, secrets), options
            )
        except (BadSetting, CannotRun, ProcessEnded) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(
                f"SLUICE_HOME={places.home} cannot be used ({error.strerror}: {error.filename}); "
                "name a folder that you may write to"
            ) from error

    @abstractmethod
    def run(
        self,
        places: Places,
        identity: Identity,
        processes: dict[str, Process],
        options: dict[str, Any],
    ) -> None:
        """Run the role until it is stopped. Raises CannotRun, ProcessEnded."""

    def become(self, process: Process, places: Places, identity: Identity) -> NoReturn:
        """Replace this command with the process of the role, so that signals reach it directly."""
        self.stdout.flush()
        become(process, places, identity)

    def say(self, line: str) -> None:
        """Write one line at once."""
        self.stdout.write(line)
        self.stdout.flush()


def add_drain_argument(parser: ArgumentParser) -> None:
    """Add the option of the roles that start writers."""
    parser.add_argument(
        "--drain",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="on SIGTERM, how long running jobs and writers may take to finish (%(default)s)",
    )
