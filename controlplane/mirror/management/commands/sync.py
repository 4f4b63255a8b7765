"""`manage.py sync [slug ...]`: read table storage into the mirror now, without waiting for the
schedule.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.mirror.sync import forget_mirror, sync_table
from controlplane.tables.models import Table


class Command(BaseCommand):
    help = "Read table storage into the mirror now."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug", nargs="*", help="slugs of the tables (default: all)")
        parser.add_argument(
            "--rebuild", action="store_true", help="delete the mirror of these tables first"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        tables = Table.objects.filter(slug__in=options["slug"]) if options["slug"] else None
        chosen = list(tables if tables is not None else Table.objects.all())
        if unknown := sorted(set(options["slug"]) - {table.slug for table in chosen}):
            raise CommandError(f"table not found: {', '.join(unknown)}")
        for table in chosen:
            if options["rebuild"]:
                forget_mirror(table)
            changed = sync_table(table)
            table.refresh_from_db()
            self.stdout.write(f"{table.slug}: {_sentence(changed, table.sync_error)}")


def _sentence(changed: frozenset[str] | None, error: str) -> str:
    if changed is None:
        return "another process is syncing this table"
    return error or (", ".join(sorted(changed)) + " changed" if changed else "up to date")
