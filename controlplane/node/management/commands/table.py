"""`manage.py table ...`: register and list tables, change what is registered, look at one, run its
services.

What takes committed data away is shown first and carried out with `--yes` or `--plan-hash`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.audit.shell import get_acting_user
from controlplane.errors import ControlPlaneError
from controlplane.mirror.sync import sync_table
from controlplane.node.shell.arguments import (
    add_confirmation,
    add_fields,
    parse_pair,
    read_texts,
)
from controlplane.node.shell.identity import (
    check_namespace_role,
    check_role,
    check_rows,
    registrant,
)
from controlplane.node.shell.masking import add_masking, mask_columns
from controlplane.node.shell.rollbacks import plan_and_roll_back
from controlplane.node.shell.rows import add_showing, show_rows
from controlplane.node.shell.showing import show_file_groups, show_schema, show_services
from controlplane.node.shell.table_changes import TABLE_CHANGES, add_table_changes, change_table
from controlplane.node.shell.table_creation import add_table_creation, create
from controlplane.node.shell.table_services import ServiceCommand, plan_and_run
from controlplane.node.shell.validation import validate_metadata
from controlplane.operations.descriptions.rollback import ROLLBACK
from controlplane.operations.descriptions.services import SERVICES, Service
from controlplane.operations.descriptions.tables import REGISTER_TABLE
from controlplane.operations.permissions import is_destructive
from controlplane.tables.access import Permission, visible_tables
from controlplane.tables.actions import do_register_table
from controlplane.tables.former_slugs import slug_now
from controlplane.tables.models import Table
from workers.errors import LakehouseError
from workers.installation import format_command
from workers.locations import is_bucket_location

_ACTIONS = {service.command.partition(" ")[2]: service for service in SERVICES.values()}
_VIEWS = {
    "schema": "list all schema versions with their changes",
    "services": "show the backlog, plans, savepoints, schedules and runs of its services",
    "validate": "check that Hudi's metadata table matches the files in storage",
}


class Command(BaseCommand):
    help = "Register, create, show and change tables, and run their services."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        register = actions.add_parser("register", help="register the table at this location")
        add_fields(register, REGISTER_TABLE.fields)
        create_text = "create an empty table and register it"
        add_table_creation(actions.add_parser("create", help=create_text, description=create_text))
        add_masking(actions.add_parser)
        actions.add_parser("list", help="list slug, namespace and location of each table")
        add_table_changes(actions.add_parser)
        for action, service in _ACTIONS.items():
            text = service.purpose
            _add_service(actions.add_parser(action, help=text, description=text), service)
        rollback = actions.add_parser("rollback", help="roll back one instant")
        rollback.add_argument("slug", help="the slug of the table")
        add_fields(rollback, [ROLLBACK["instant"]])
        add_confirmation(rollback)
        groups = actions.add_parser("file-groups", help="list file groups with their sizes")
        groups.add_argument("slug", help="the slug of the table")
        groups.add_argument("--partition", help="only this partition")
        groups.add_argument(
            "--limit", type=int, default=50, help="the maximum number of file groups (50)"
        )
        show = actions.add_parser("show", help="print rows, one JSON object per line")
        add_showing(show)
        for action, text in _VIEWS.items():
            actions.add_parser(action, help=text).add_argument("slug", help="the slug of the table")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._act(options)
        except (ControlPlaneError, LakehouseError, PermissionDenied) as error:
            raise CommandError(str(error)) from error

    def _act(self, options: Mapping[str, Any]) -> None:
        say = self.stdout.write
        match options["action"]:
            case "list":
                user = get_acting_user()
                for table in Table.objects.all() if user is None else visible_tables(user):
                    say(f"{table.slug}\t{table.namespace}\t{table.location}")
            case "register":
                check_namespace_role(options["namespace"])
                place = {name: options[name] for name in REGISTER_TABLE.names}
                table = do_register_table(**place, **registrant())
                say(f"registered {table.slug} at {table.location}")
            case "create":
                create(options, say)
            case action if action in TABLE_CHANGES:
                change_table(registered(options["slug"]), action, options, say)
            case "mask":
                mask_columns(registered(options["slug"]), options, say)
            case "rollback":
                roll_back(self, options)
            case "file-groups":
                limit = options["limit"]
                table = synced(options["slug"])
                show_file_groups(table, say, partition=options["partition"], limit=limit)
            case "show":
                check_rows(registered(options["slug"]))
                show_rows(registered(options["slug"]), options, say)
            case "schema":
                show_schema(synced(options["slug"]), say)
            case "services":
                show_services(synced(options["slug"]), say)
            case "validate":
                validate_metadata(registered(options["slug"]), say)
            case action:
                plan_and_run(registered(options["slug"]), _service_command(action, options), say)


def roll_back(command: BaseCommand, options: Mapping[str, Any]) -> None:
    plan_and_roll_back(
        registered(options["slug"]),
        options["instant"],
        is_confirmed=options["yes"],
        plan_hash=options["plan_hash"],
        reason=options["reason"],
        say=command.stdout.write,
    )


def registered(slug: str) -> Table:
    """The table of this slug. Raises CommandError."""
    table = Table.objects.filter(slug=slug).first()
    if table is None and (now := slug_now(slug)):
        raise CommandError(f"table {slug} not found: its slug is now {now}")
    if table is None:
        raise CommandError(
            f"table {slug} not found; `{format_command('table list')}` lists all tables"
        )
    check_role(table, Permission.VIEW)
    return table


def synced(slug: str) -> Table:
    """With its mirror as new as storage, also where no node runs."""
    table = registered(slug)
    sync_table(table)
    table.refresh_from_db()
    if table.sync_error:
        raise CommandError(table.sync_error)
    return table


def _add_service(parser: ArgumentParser, service: Service) -> None:
    parser.add_argument("slug", help="the slug of the table")
    is_open = service.name == "savepoint"  # Without an instant the newest one is kept.
    add_fields(
        parser,
        [replace(field, is_needed=field.is_needed and not is_open) for field in service.fields],
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the service, such as hoodie.clean.commits.retained=3; may be repeated",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan only")
    add_confirmation(parser)


def _service_command(action: str, options: Mapping[str, Any]) -> ServiceCommand:
    service = _ACTIONS[action]
    parameters = dict(parse_pair(text) for text in options["set"])
    parameters |= read_texts(options, service.fields)
    if (path := parameters.get("path")) and not is_bucket_location(path):
        parameters["path"] = str(Path(path).resolve())
    return ServiceCommand(
        service=service.name,
        parameters=parameters,
        reason=options["reason"],
        is_confirmed=options["yes"] or not is_destructive(service.name),
        plan_hash=options["plan_hash"],
        is_dry=options["dry_run"],
    )
