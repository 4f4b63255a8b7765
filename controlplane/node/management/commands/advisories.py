"""`manage.py advisories <place>`: the pinned packages against records of OSV that lie there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.node.advisories import UnreadableAdvisories, judge
from controlplane.node.management.commands.sbom import LOCK, load_components, pinned
from workers.installation import IS_CHECKOUT

PINS: Final = (
    LOCK,
    LOCK.with_name("requirements-otel.txt"),
    LOCK.with_name("requirements-polars.txt"),
)


class Command(BaseCommand):
    help = "Compare the packages of a node with local advisories; ends with 1 for a match."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "place", type=Path, help="directory or .zip of OSV records (JSON) of Python packages"
        )
        parser.add_argument(
            "--pins",
            type=Path,
            action="append",
            help="a requirements file to check instead of the node's own; may be repeated",
        )
        parser.add_argument(
            "--accept",
            action="append",
            default=[],
            metavar="ID",
            help="an advisory to ignore; may be repeated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Judge the pins. Raises CommandError for a hit, and where nothing could be judged."""
        try:
            pins = _load_pins(options["pins"])
            judged = judge(options["place"], pins, options["accept"])
        except (UnreadableAdvisories, OSError) as error:
            raise CommandError(str(error)) from error
        if not judged.records:
            raise CommandError(
                f"{options['place']} has no advisories for Python packages; pass the "
                "records of OSV's ecosystem PyPI"
            )
        for hit in judged.hits:
            self.stdout.write(hit.line())
        compared = f"{len(pins)} packages compared with {judged.records} advisories"
        if judged.hits:
            raise CommandError(
                f"{compared}: {len(judged.hits)} hits; raise the pins, or pass --accept ID "
                "for reviewed advisories"
            )
        self.stdout.write(f"{compared}: no hits")


def _load_pins(files: list[Path] | None) -> list[tuple[str, str]]:
    """Return (name, version) of each package in the files; without files, of this node."""
    if not files and not IS_CHECKOUT:
        return list(load_components())
    return [pin for path in files or PINS for pin in pinned(path.read_text())]
