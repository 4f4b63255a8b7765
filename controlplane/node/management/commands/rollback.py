"""`manage.py rollback <table> <instant>`: the same as `table rollback`."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.errors import ControlPlaneError
from controlplane.node.management.commands.table import roll_back
from controlplane.node.shell.arguments import add_confirmation, add_fields
from controlplane.operations.descriptions.rollback import ROLLBACK
from workers.errors import LakehouseError


class Command(BaseCommand):
    help = "Roll back one instant: prints the plan; runs it with --yes or --plan-hash."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", help="the slug of the table")
        add_fields(parser, [ROLLBACK["instant"]])
        add_confirmation(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            roll_back(self, options)
        except (ControlPlaneError, LakehouseError, PermissionDenied) as error:
            raise CommandError(str(error)) from error
