"""`manage.py backup FILE`: copy the node's database into one file, while the node runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.node.backup.actions import do_back_up
from controlplane.node.backup.archive import BackupFailed
from controlplane.node.places import places_from


class Command(BaseCommand):
    help = "Copy the database of this node into one file. The node can keep running."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the file to write; it must not exist")
        parser.add_argument(
            "--with-secrets",
            action="store_true",
            help="include secrets.json: readers of the file can then decrypt stored secrets",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(options["file"]).absolute()
        try:
            manifest = do_back_up(
                path,
                places_from(os.environ),
                self.stdout.write,
                with_secrets=options["with_secrets"],
            )
        except BackupFailed as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{path}: {sum(manifest.rows.values())} rows of {len(manifest.rows)} tables, "
            f"{path.stat().st_size} bytes, audit {manifest.audit_head}"
        )
        if not options["with_secrets"]:
            self.stdout.write("secrets.json is not included: keep a copy of it in another place")
