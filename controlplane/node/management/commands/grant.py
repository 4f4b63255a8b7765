"""`manage.py grant`: give, take and list roles in namespaces and on tables."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from controlplane.accounts.role_names import GRANTED
from controlplane.audit.shell import shell_user
from controlplane.errors import ControlPlaneError
from controlplane.tables.grants import (
    Granter,
    GrantRequest,
    GrantRow,
    all_grants,
    do_grant,
    do_revoke,
)


class Command(BaseCommand):
    help = "Roles in a namespace or on a table: `grant give operator --user pia --table trips`."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("list", help="who has which role, and where")
        give = actions.add_parser("give", help="in place of the role that was granted there before")
        give.add_argument("role", choices=GRANTED)
        holder = give.add_mutually_exclusive_group(required=True)
        holder.add_argument("--user", default="", help="the name that the user signs in with")
        holder.add_argument("--group", default="", help="a group of people, not of a role")
        place = give.add_mutually_exclusive_group(required=True)
        place.add_argument("--namespace", default="", help="all tables that stand in it or will")
        place.add_argument("--table", default="", help="the slug of one table")
        take = actions.add_parser("take", help="end one at once")
        take.add_argument("id", type=int, help="its number, as `list` shows it")
        for each in (give, take):
            each.add_argument("--reason", default="", help="for the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        by = Granter(user=None, name=shell_user())
        try:
            if options["action"] == "list":
                for row in all_grants():
                    self.stdout.write(_line(row))
            elif options["action"] == "give":
                keys = ("role", "user", "group", "namespace", "table")
                wanted = GrantRequest(**{key: options[key] for key in keys})
                self.stdout.write(_line(do_grant(wanted, by=by, reason=options["reason"])))
            else:
                row = do_revoke(options["id"], by=by, reason=options["reason"])
                self.stdout.write(f"taken: {_line(row)}")
        except (ControlPlaneError, Http404) as error:
            raise CommandError(str(error)) from error


def _line(row: GrantRow) -> str:
    """Parted by tabs."""
    holder = row.user or f"group {row.group}"
    place = f"table {row.table}" if row.table else f"namespace {row.namespace}"
    return f"{row.id}\t{holder}\t{row.role}\t{place}\tby {row.granted_by}"
