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
    help = "Match what a node installs with advisories that lie here; ends with 1 for a hit."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "place", type=Path, help="directory or .zip of OSV records (JSON) of Python packages"
        )
        parser.add_argument(
            "--pins", type=Path, action="append", help="other files of pins than a node's own"
        )
        parser.add_argument(
            "--accept", action="append", default=[], metavar="ID", help="no hit: looked at before"
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
                f"{options['place']} has no advisory of a Python package; give the records of "
                "OSV's ecosystem PyPI"
            )
        for hit in judged.hits:
            self.stdout.write(hit.line())
        said = f"{len(pins)} packages against {judged.records} advisories"
        if judged.hits:
            raise CommandError(
                f"{said}: {len(judged.hits)} hits; raise the pins, or --accept what you have "
                "looked at"
            )
        self.stdout.write(f"{said}: no hit")


def _load_pins(files: list[Path] | None) -> list[tuple[str, str]]:
    """Return (name, version) of each package in the files; without files, of this node."""
    if not files and not IS_CHECKOUT:
        return list(load_components())
    return [pin for path in files or PINS for pin in pinned(path.read_text())]
