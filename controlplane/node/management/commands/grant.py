"""`manage.py grant`: give, take and list roles in namespaces and on tables, and the right to read
rows.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from controlplane.accounts.access_levels import GRANTED
from controlplane.errors import ControlPlaneError
from controlplane.node.shell.arguments import add_fields
from controlplane.node.shell.identity import granter
from controlplane.operations.descriptions.access import GRANT, GRANT_ROWS
from controlplane.operations.descriptions.field import REASON
from controlplane.tables.grants import (
    Granter,
    GrantRequest,
    GrantRow,
    all_grants,
    do_grant,
    do_revoke,
)
from controlplane.tables.models import ROW_RIGHTS
from controlplane.tables.row_grants import (
    RowGrantRequest,
    RowGrantRow,
    all_row_grants,
    do_give_rows,
    do_take_rows,
)

_OF_ROWS = "r"
"""Begins the number of a right to read rows."""


class Command(BaseCommand):
    help = "Grant, revoke and list roles: `grant give operator --user pia --table trips`."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="list users and groups with their roles")
        give = actions.add_parser(
            "give", help="grant a role; it replaces an earlier role on the same table or namespace"
        )
        give.add_argument(
            "role",
            choices=[*GRANTED, *ROW_RIGHTS],
            metavar="role",
            help=f"{', '.join(GRANTED)}; rows: read rows; masked: also see masked columns",
        )
        holder = give.add_mutually_exclusive_group(required=True)
        add_fields(holder, [GRANT["user"], GRANT["group"]])
        place = give.add_mutually_exclusive_group(required=True)
        add_fields(place, [GRANT_ROWS[name] for name in ("namespace", "table", "everywhere")])
        take = actions.add_parser("take", help="revoke a role or row access at once")
        take.add_argument(
            "id", help="the number of the grant, from `list`: 5, or r5 for row access"
        )
        for each in (give, take):
            add_fields(each, [REASON])

    def handle(self, *args: Any, **options: Any) -> None:
        by = granter()
        try:
            if options["action"] == "list":
                rows: list[GrantRow | RowGrantRow] = [*all_grants(), *all_row_grants()]
                for row in rows:
                    self.stdout.write(_line(row))
            elif options["action"] == "give":
                self.stdout.write(_line(_give(options, by)))
            else:
                self.stdout.write(f"revoked: {_line(_take(options, by))}")
        except (ControlPlaneError, Http404, PermissionDenied) as error:
            raise CommandError(str(error)) from error


def _give(options: dict[str, Any], by: Granter) -> GrantRow | RowGrantRow:
    given = {key: options[key] for key in ("user", "group", "namespace", "table")}
    if options["role"] in ROW_RIGHTS:
        rows = RowGrantRequest(right=options["role"], everywhere=options["everywhere"], **given)
        return do_give_rows(rows, by=by, reason=options["reason"])
    if options["everywhere"]:
        raise CommandError(
            "a role cannot be granted everywhere: add the user to the group of the role"
        )
    return do_grant(GrantRequest(role=options["role"], **given), by=by, reason=options["reason"])


def _take(options: dict[str, Any], by: Granter) -> GrantRow | RowGrantRow:
    number = options["id"].removeprefix(_OF_ROWS)
    if not number.isdecimal():
        raise CommandError(f"invalid grant id {options['id']}: `grant list` shows the ids")
    take = do_take_rows if options["id"].startswith(_OF_ROWS) else do_revoke
    return take(int(number), by=by, reason=options["reason"])


def _line(row: GrantRow | RowGrantRow) -> str:
    """Parted by tabs."""
    holder = row.user or f"group {row.group}"
    if isinstance(row, RowGrantRow):
        number, right, place = f"{_OF_ROWS}{row.id}", row.right, row.place
    else:
        number, right = str(row.id), row.role
        place = f"table {row.table}" if row.table else f"namespace {row.namespace}"
    return f"{number}\t{holder}\t{right}\t{place}\tby {row.granted_by}"
