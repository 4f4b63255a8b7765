"""`manage.py table ...`: register and list tables, change what is registered, look at one, run its
services.

What takes committed data away is shown first and carried out with `--yes` or `--plan-hash`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.audit.shell import acting_user
from controlplane.errors import ControlPlaneError
from controlplane.mirror.sync import sync_table
from controlplane.node.shell.arguments import add_confirmation
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
from controlplane.operations.permissions import is_destructive
from controlplane.tables.access import Permission, visible_tables
from controlplane.tables.actions import do_register_table
from controlplane.tables.former_slugs import slug_now
from controlplane.tables.models import DEFAULT_NAMESPACE, Table
from workers.errors import LakehouseError

_SERVICES = {
    "compact": ("compaction", "merge log files into base files"),
    "cluster": ("clustering", "rewrite file groups in another order"),
    "clean": ("clean", "delete files that no retained snapshot needs"),
    "archive": ("archive", "move old instants into the history"),
    "savepoint": ("savepoint", "keep the files of one commit"),
    "delete-savepoint": ("delete_savepoint", "let the files of a savepoint go"),
    "restore": ("restore", "take the table back to a savepoint"),
    "rollback-several": ("rollback_several", "undo several instants, newest first"),
    "upgrade": ("upgrade", "bring a table of version 6 or 8 to version 9"),
    "adopt": ("adopt", "write into a table that another engine made"),
    "repair": ("repair", "delete what cut-off writes left behind"),
    "delete-markers": ("delete_markers", "delete markers of instants that are not pending"),
    "delete": ("delete", "delete the rows that a condition names"),
    "delete-partition": ("delete_partition", "empty whole partitions"),
    "insert-overwrite": ("insert_overwrite", "put a file's rows in the place of their partitions'"),
    "insert-overwrite-table": ("insert_overwrite_table", "put a file's rows in the place of all"),
}
_POSITIONAL = {
    "savepoint": ("instant", "?", "the commit; the newest when absent"),
    "delete-savepoint": ("instant", None, "the savepoint's commit"),
    "restore": ("instant", None, "the savepoint's commit"),
    "rollback-several": ("instants", "?", "17 digits each, with commas between them"),
    "delete": ("predicate", "?", "such as \"city = 'Oslo' and ts < 5\""),
    "delete-partition": ("partitions", None, "paths with commas between them"),
    "insert-overwrite": ("path", None, "a .csv or .parquet file"),
    "insert-overwrite-table": ("path", None, "a .csv or .parquet file"),
}
_OPTIONAL = ("comment", "keys", "path", "after")

_VIEWS = {
    "schema": "every schema and what it changed",
    "services": "backlog, plans, savepoints, schedules, runs",
    "validate": "whether Hudi's metadata table lists the files that storage has",
}


class Command(BaseCommand):
    help = "Register tables, look at them, and run their services."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        register = actions.add_parser("register", help="show the table at this location")
        register.add_argument("location", help="absolute path under a configured root")
        register.add_argument("--slug", required=True, help="short name for addresses")
        register.add_argument("--name", default="", help="name for people; the slug when absent")
        register.add_argument("--namespace", default=DEFAULT_NAMESPACE, help="the group of tables")
        create_text = "make a new, empty table and register it"
        add_table_creation(actions.add_parser("create", help=create_text, description=create_text))
        add_masking(actions.add_parser)
        actions.add_parser("list", help="slug, namespace and location of each")
        add_table_changes(actions.add_parser)
        for action, (_, text) in _SERVICES.items():
            _add_service(actions.add_parser(action, help=text, description=text), action)
        rollback = actions.add_parser("rollback", help="undo one instant")
        rollback.add_argument("slug")
        rollback.add_argument("instant")
        add_confirmation(rollback)
        groups = actions.add_parser("file-groups", help="file groups with their sizes")
        groups.add_argument("slug")
        groups.add_argument("--partition", help="only this one")
        groups.add_argument("--limit", type=int, default=50, help="how many (50)")
        show = actions.add_parser("show", help="some of its rows, one JSON object a line")
        add_showing(show)
        for action, text in _VIEWS.items():
            actions.add_parser(action, help=text).add_argument("slug")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._act(options)
        except (ControlPlaneError, LakehouseError, PermissionDenied) as error:
            raise CommandError(str(error)) from error

    def _act(self, options: Mapping[str, Any]) -> None:
        say = self.stdout.write
        match options["action"]:
            case "list":
                user = acting_user()
                for table in Table.objects.all() if user is None else visible_tables(user):
                    say(f"{table.slug}\t{table.namespace}\t{table.location}")
            case "register":
                check_namespace_role(options["namespace"])
                table = do_register_table(
                    location=options["location"],
                    slug=options["slug"],
                    name=options["name"],
                    namespace=options["namespace"],
                    **registrant(),
                )
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
        raise CommandError(f"no such table: {slug}; it is called {now} now")
    if table is None:
        raise CommandError(f"no such table: {slug}; `manage.py table list` names them")
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


def _add_service(parser: ArgumentParser, action: str) -> None:
    parser.add_argument("slug")
    if action in _POSITIONAL:
        name, count, text = _POSITIONAL[action]
        parser.add_argument(name, nargs=count, default="", help=text)
    if action == "savepoint":
        parser.add_argument("--comment", default="", help="why it is kept")
    if action == "rollback-several":
        parser.add_argument("--after", default="", help="all after this commit, instead of a list")
    if action == "delete":
        parser.add_argument(
            "--keys", default="", help="keys as a JSON list, instead of a condition"
        )
        parser.add_argument("--path", default="", help="a file of keys, instead of a condition")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a parameter of the service, such as hoodie.clean.commits.retained=3",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the plan only")
    add_confirmation(parser)


def _service_command(action: str, options: Mapping[str, Any]) -> ServiceCommand:
    service, _ = _SERVICES[action]
    parameters = dict(_pair(text) for text in options["set"])
    if action in _POSITIONAL and (value := options[_POSITIONAL[action][0]]):
        parameters[_POSITIONAL[action][0]] = value
    parameters |= {key: value for key in _OPTIONAL if (value := options.get(key))}
    if path := parameters.get("path"):
        parameters["path"] = str(Path(path).resolve())
    return ServiceCommand(
        service=service,
        parameters=parameters,
        reason=options["reason"],
        is_confirmed=options["yes"] or not is_destructive(service),
        plan_hash=options["plan_hash"],
        is_dry=options["dry_run"],
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise CommandError(f"--set takes KEY=VALUE, not {text!r}")
    return key, value
