"""`manage.py options`: every option that Sluice takes, with type, default and meaning."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management import BaseCommand, CommandError

from workers.options.catalogue import lines, markdown


class Command(BaseCommand):
    help = "Print the options of tables, writes, services, sinks and reads."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "word",
            nargs="?",
            default="",
            help="only options whose name or meaning contains this word",
        )
        parser.add_argument(
            "--markdown", action="store_true", help="print the page docs/options.md"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["markdown"]:
            self.stdout.write(markdown(), ending="")
            return
        if not (printed := lines(options["word"])):
            raise CommandError(
                f"no option contains {options['word']!r}; without a word, all options are listed"
            )
        self.stdout.write("\n".join(printed))
