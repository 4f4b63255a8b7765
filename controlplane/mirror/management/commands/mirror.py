"""`manage.py mirror rebuild <slug> ...`: throw a table's rows away and read its storage anew.

`mirror compare` looks whether the rows are as they were written, and repairs those that are not, as
the mirror does by itself every few seconds.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from controlplane.mirror.comparing import compare_due
from controlplane.mirror.models import SyncMark
from controlplane.mirror.row_sums import KINDS
from controlplane.mirror.sync import look, read_anew
from controlplane.mirror.turns import given_back, take_turn
from controlplane.tables.models import Table


class Command(BaseCommand):
    help = "Rebuild the mirror of tables, or find and repair rows that were changed."

    def add_arguments(self, parser: CommandParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True)
        rebuild = commands.add_parser(
            "rebuild", help="read the storage of these tables again, completely"
        )
        rebuild.add_argument("slug", nargs="+", help="slugs of the tables")
        commands.add_parser("compare", help="find and repair changed rows in all tables")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["command"] == "compare":
            SyncMark.objects.exclude(sums={}).update(compare_at=timezone.now())
            repaired = 0
            while SyncMark.objects.filter(compare_at__lte=(now := timezone.now())).exists():
                repaired += compare_due(now)
            self.stdout.write(f"{repaired} tables repaired")
            return
        tables = {table.slug: table for table in Table.objects.filter(slug__in=options["slug"])}
        if unknown := sorted(set(options["slug"]) - tables.keys()):
            raise CommandError(f"table not found: {', '.join(unknown)}")
        for slug in options["slug"]:
            self._rebuild(tables[slug])

    def _rebuild(self, table: Table) -> None:
        turn = take_turn(table)
        if turn is None:
            raise CommandError(
                f"{table.slug}: another process is reading the table; try again in a minute"
            )
        with given_back(turn):
            looked = read_anew(turn, KINDS)
        while not looked.is_whole and looked.is_applied and (turn := take_turn(table)):
            with given_back(turn):
                looked = look(turn)
        if not looked.is_applied:
            raise CommandError(f"{table.slug}: {looked.error}; its rows are unchanged")
        self.stdout.write(f"{table.slug}: rebuilt, {table.instants.count()} instants")
