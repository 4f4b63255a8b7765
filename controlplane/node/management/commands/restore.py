"""`manage.py restore FILE`: put a backup in the place of the node's database. `manage.py restore
--from-storage` registers and reads the tables of the table roots, without a backup.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.node.backup.actions import do_restore, find_broken_seals, has_same_key
from controlplane.node.backup.archive import BackupFailed
from controlplane.node.backup.from_storage import LOST, restore_from_storage
from controlplane.node.migrating import migrate
from controlplane.node.places import places_from
from controlplane.node.turns import NotMyTurn, turn
from controlplane.tables.models import DEFAULT_NAMESPACE
from workers.errors import LakehouseError


class Command(BaseCommand):
    help = "Restore the database of this node from a backup, or from table storage alone."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", nargs="?", type=Path, help="a file that `manage.py backup` wrote"
        )
        parser.add_argument(
            "--replace", action="store_true", help="replace a database that is not empty"
        )
        parser.add_argument(
            "--from-storage",
            action="store_true",
            help="restore without a backup: register and read all tables of the table roots",
        )
        parser.add_argument(
            "--namespace",
            default=DEFAULT_NAMESPACE,
            help="the namespace of newly registered tables",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if (options["file"] is None) != options["from_storage"]:
            raise CommandError("expected either a file or --from-storage")
        try:
            if options["from_storage"]:
                self._restore_from_storage(options["namespace"])
            else:
                self._restore(options["file"].absolute(), replaces=options["replace"])
        except (BackupFailed, LakehouseError, NotMyTurn) as error:
            raise CommandError(str(error)) from error

    def _restore(self, path: Path, *, replaces: bool) -> None:
        write = self.stdout.write
        places = places_from(os.environ)
        with turn(places):
            result = do_restore(path, places, write, replaces=replaces)
        manifest = result.manifest
        write(f"restored {sum(manifest.rows.values())} rows, audit {manifest.audit_head}")
        write("users must sign in again; roles, tokens and settings are those of the backup")
        if not (result.has_secrets or has_same_key(manifest)):
            write("the secret key of this node differs from that of the backup")
            for name in find_broken_seals():
                write(f"  {name}: enter the secrets again")
        write("start the node; the mirror then reads all commits since the backup")

    def _restore_from_storage(self, namespace: str) -> None:
        migrate()
        problems = 0
        for report in restore_from_storage(namespace):
            counts = ", ".join(f"{count} {name}" for name, count in report.rows.items())
            self.stdout.write(
                f"{report.slug or '(not registered)'}\t{report.location}\t"
                f"{report.problem or counts}"
            )
            problems += bool(report.problem)
        self.stdout.write("not restored, because it is not in storage:")
        for facts in LOST:
            self.stdout.write(f"  {facts}")
        if problems:
            raise CommandError(f"{problems} tables were not restored; see their errors above")
