"""`manage.py bench ...`: `python -m bench` of this checkout, with the same arguments."""

from __future__ import annotations

import subprocess
import sys
from argparse import REMAINDER
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = "Compare Sluice with Apache Hudi and delta-rs; `bench -- --help` lists the arguments."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("arguments", nargs=REMAINDER, help="arguments of `python -m bench`")

    def handle(self, *args: Any, **options: Any) -> None:
        if not (settings.BASE_DIR / "bench" / "__main__.py").is_file():
            raise CommandError(
                "this installation has no benchmarks: run the command in a checkout of the source"
            )
        given = [one for one in options["arguments"] if one != "--"]
        command = [sys.executable, "-m", "bench", *given]
        if code := subprocess.run(command, cwd=settings.BASE_DIR, check=False).returncode:
            raise CommandError("the benchmark failed; see its output above", returncode=code)
