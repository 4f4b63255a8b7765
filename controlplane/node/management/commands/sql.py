"""`manage.py sql`: one statement against registered tables, or tables at given locations.

A DELETE takes rows away, so it is shown first and carried out with `--yes` or `--plan-hash`, as by
`manage.py table delete`. The other statements add versions and run at once, as `manage.py write`;
the rows of a SELECT are printed, one JSON object a line.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError

from controlplane.errors import ControlPlaneError
from controlplane.mirror.storage import engine_table
from controlplane.mirror.sync import sync_table
from controlplane.node.management.commands.table import registered
from controlplane.node.management.commands.write import marker_options
from controlplane.node.shell.arguments import add_confirmation
from controlplane.node.shell.identity import (
    check_namespace_role,
    check_role,
    check_rows,
    registrant,
)
from controlplane.node.shell.table_services import ServiceCommand, plan_and_run
from controlplane.tables.access import Permission
from controlplane.tables.actions import do_register_table
from controlplane.tables.locations import checked_location
from controlplane.tables.models import DEFAULT_NAMESPACE, Table
from workers.concurrency.outcome import Committed, describe_outcome
from workers.errors import LakehouseError
from workers.installation import format_command
from workers.lakehouse import LakehouseTable, open_table
from workers.sql import run_sql
from workers.sql.relations import tables_named
from workers.sql.statements import (
    KNOWN,
    Create,
    Delete,
    Select,
    Statement,
    condition_text,
    statement_of,
)


class Command(BaseCommand):
    help = f"Run one statement: {KNOWN}."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "statement", help="the statement in Spark's syntax; tables are named by their slugs"
        )
        parser.add_argument(
            "--table",
            action="append",
            default=[],
            metavar="NAME=LOCATION",
            help=(
                "a table that is not registered, another name for a table, or the location of "
                "a new table"
            ),
        )
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="a write option, such as hoodie.write.concurrency.mode=...; may be repeated",
        )
        parser.add_argument("--stream", help="the stream whose columns the statement writes")
        add_confirmation(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._act(options)
        except (ControlPlaneError, LakehouseError, PermissionDenied) as error:
            raise CommandError(str(error)) from error

    def _act(self, options: Mapping[str, Any]) -> None:
        statement = statement_of(options["statement"])
        places = dict(_pair("--table", text) for text in options["table"])
        places = {name: checked_location(place) for name, place in places.items()}
        if isinstance(statement, Create):
            self._create(statement, options["statement"], places)
            return
        rows = {name: _row(name, places) for name in tables_named(statement)}
        _check_roles(statement, rows)
        if isinstance(statement, Delete):
            self._delete(statement, rows, options)
            return
        tables = {name: _opened(name, row, places) for name, row in rows.items()}
        if isinstance(statement, Select):
            for answer in run_sql(options["statement"], tables=tables).to_pylist():
                self.stdout.write(json.dumps(answer, default=str, ensure_ascii=False))
            return
        outcome = run_sql(
            options["statement"],
            tables=tables,
            stream=options["stream"],
            options=marker_options() | dict(_pair("--set", text) for text in options["set"]),
        )
        self.stdout.write(describe_outcome(outcome))
        if not isinstance(outcome, Committed):
            raise CommandError("the statement was not committed: see the reason above")
        if (row := rows[statement.target.name]) is not None:
            sync_table(row)

    def _create(self, statement: Create, text: str, places: Mapping[str, str]) -> None:
        if statement.location:
            checked_location(statement.location)
        check_namespace_role(DEFAULT_NAMESPACE)
        made = run_sql(text, tables=places)
        assert isinstance(made, LakehouseTable), made
        name = made.table.config.name
        self.stdout.write(f"created table {name} at {made.location}")
        slug = name.lower().replace("_", "-")
        if not Table.objects.filter(location=made.location).exists():
            do_register_table(location=made.location, slug=slug, name=name, **registrant())
            self.stdout.write(f"registered as {slug}")

    def _delete(
        self, statement: Delete, rows: Mapping[str, Table | None], options: Mapping[str, Any]
    ) -> None:
        row = rows[statement.target.name]
        if row is None:
            raise CommandError(
                f"DELETE requires a registered table: run `{format_command('table register')}`"
            )
        if statement.where is None:
            raise CommandError("DELETE requires a WHERE: to empty the table, delete its partitions")
        command = ServiceCommand(
            service="delete",
            parameters={"predicate": condition_text(statement.where)},
            reason=options["reason"],
            is_confirmed=options["yes"],
            plan_hash=options["plan_hash"],
            is_dry=False,
        )
        plan_and_run(row, command, self.stdout.write)


def _check_roles(statement: Statement, rows: Mapping[str, Table | None]) -> None:
    """A named user reads all rows of what is read, and operates what is written."""
    target = "" if isinstance(statement, Select) else statement.target.name
    for name, row in rows.items():
        check_role(row, Permission.OPERATE) if name == target else check_rows(row)


def _row(name: str, places: Mapping[str, str]) -> Table | None:
    """The registered table; None where a place was given that nobody registered."""
    if name in places:
        return Table.objects.filter(location=places[name]).first()
    return registered(name)


def _opened(name: str, row: Table | None, places: Mapping[str, str]) -> LakehouseTable:
    return LakehouseTable(engine_table(row)) if row is not None else open_table(places[name])


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise CommandError(f"{option} must be NAME=VALUE, not {text!r}")
    return key, value
