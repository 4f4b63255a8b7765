"""`manage.py table register|list`: the tables that the control plane knows."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.errors import ControlPlaneError
from controlplane.tables.models import Table
from controlplane.tables.services import register_table


class Command(BaseCommand):
    help = "Register a table that lies under a configured root, or list those that are registered."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        register = actions.add_parser("register", help="show the table at this location")
        register.add_argument("location", help="absolute path under a configured root")
        register.add_argument("--slug", required=True, help="short name for addresses")
        register.add_argument("--name", default="", help="name for people; the slug when absent")
        actions.add_parser("list", help="slug and location of each")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "list":
            for table in Table.objects.all():
                self.stdout.write(f"{table.slug}\t{table.location}")
            return
        try:
            table = register_table(
                location=options["location"], slug=options["slug"], name=options["name"], by=None
            )
        except ControlPlaneError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"registered {table.slug} at {table.location}")
