"""`manage.py metrics`: the list of all metrics, or the token that `/metrics` asks for."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from controlplane.monitoring.exposition import format_markdown, list_metrics
from workers.installation import format_command


class Command(BaseCommand):
    help = "List all metrics of /metrics; `--token` prints the token for scrapes."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--token", action="store_true", help="print only the token, for a file of Prometheus"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["token"]:
            if not settings.SLUICE_METRICS_TOKEN:
                raise CommandError(
                    f"this node has no token yet: run `{format_command('up')}` to create it"
                )
            self.stdout.write(settings.SLUICE_METRICS_TOKEN)
            return
        try:
            self.stdout.write(format_markdown(list_metrics()), ending="")
        except DatabaseError as error:
            raise CommandError(
                f"the node's database is not ready, run `{format_command('up')}`: {error}"
            ) from error
