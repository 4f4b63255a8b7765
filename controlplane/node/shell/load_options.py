"""Options of `manage.py` for files of rows, the files that patterns name, and the progress
of a load.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from django.core.management import CommandError
from django.core.management.base import OutputWrapper

from controlplane.audit.shell import get_acting_user
from controlplane.node.shell.arguments import add_fields, read_texts
from controlplane.operations.descriptions.write import FILE_OPTIONS, MISSING
from controlplane.operations.source_places import checked_file_of_shell, find_rows_files
from workers.clock import Clock
from workers.loading.options import FORMATS, format_named, without_suffixes
from workers.loading.source_files import files_here, find_source_files
from workers.locations import is_bucket_location
from workers.storage.source_places import check_in_no_table

if TYPE_CHECKING:
    from workers.loading.reader import InputFile, RowSource

COPIED_BYTES_MAX: Final = 8_000_000_000
"""The size of all objects of one load."""
ONE_PATH: Final = (
    "expected one path in a bucket: a file, a pattern such as '2026/*.csv', or a folder "
    "that ends with /"
)
_PATTERN: Final = re.compile(r"[*?\[]")
_SHOWN_EVERY_S: Final = 0.5
_FIELDS: Final = (MISSING, *FILE_OPTIONS)


def add_load_options(parser: ArgumentParser) -> None:
    """Add the options of `workers.loading`, each by its name there."""
    add_fields(parser, _FIELDS)
    add_format(parser)


def add_format(parser: ArgumentParser) -> None:
    """Add the format, which requests give as the kind of their source."""
    parser.add_argument(
        "--format", choices=FORMATS, help="the format, if the name of the file does not show it"
    )


def get_load_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as `load_options` takes them."""
    requested = read_texts(options, _FIELDS)
    if options["format"]:
        requested["format"] = options["format"]
    if options.get("key_from"):
        requested |= {"key": options["record_key"], "key_from": options["key_from"]}
    return requested


def files_named(text: str) -> list[Path]:
    """Return the files that a path, a pattern such as `d/*.csv` or a folder names, in order. Raises
    CommandError for none.
    """
    path = Path(text).absolute()
    if path.is_file():
        return [path.resolve()]
    if path.is_dir():
        matches = [
            entry for entry in path.iterdir() if entry.is_file() and format_named(entry.name)
        ]
    elif _PATTERN.search(text):
        matches = list(Path(path.anchor).glob(str(path)[len(path.anchor) :]))
    else:
        raise CommandError(f"file not found: {path}")
    files = sorted(
        entry.resolve() for entry in matches if entry.is_file() and entry.name[0] not in "._"
    )
    if not files:
        raise CommandError(f"no CSV, JSON lines or Parquet file found by {text}")
    return files


def copy_objects(paths: Sequence[str], scratch: Path, kind: str) -> list[InputFile]:
    """Copy the objects that a path of a bucket names, with the credentials of the environment. None
    for paths of this machine.

    Raises CommandError for more than one path, InvalidRequest, StorageFailed.
    """
    if not any(map(is_bucket_location, paths)):
        return []
    if len(paths) > 1:
        raise CommandError(ONE_PATH)
    (path,) = paths
    if (user := get_acting_user()) is not None:
        files = find_rows_files(path, user, kind)
    else:
        files = find_source_files(path, checked_file_of_shell, kind=kind)
    check_in_no_table(files[0].place)
    return files_here(files, scratch, bytes_max=COPIED_BYTES_MAX)


def get_request_path(text: str, files: Sequence[InputFile]) -> str:
    """Return the path by which a request names the files that `text` names."""
    if is_bucket_location(text):
        return text
    return str(files[0].path if len(files) == 1 else Path(text).absolute())


def get_table_name(file: str) -> str:
    """Return the name of a table for rows of this file: its name without suffixes, made plain."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", without_suffixes(Path(file).name)).strip("_")
    return plain if plain[:1].isalpha() else f"t_{plain}".rstrip("_")


class LoadProgress:
    """Rows read so far, and how many a second: one line of a terminal, and none elsewhere."""

    def __init__(self, out: OutputWrapper, clock: Clock, bytes_in_all: int) -> None:
        self._out = out
        self._clock = clock
        self._bytes_in_all = bytes_in_all
        self._began_s = self._shown_s = clock.monotonic_s()
        self._is_shown = False
        self._rows = 0

    def show(self, rows: RowSource) -> None:
        """Take note of what was read."""
        now_s = self._clock.monotonic_s()
        if not self._out.isatty() or now_s - self._shown_s < _SHOWN_EVERY_S:
            return
        self._shown_s, self._is_shown = now_s, True
        counts = rows.counts
        if counts.rows < self._rows:  # The types are found, and the rows begin.
            self._began_s = now_s
        self._rows = counts.rows
        a_second = counts.rows / max(now_s - self._began_s, 0.001)
        share = counts.bytes_read / max(self._bytes_in_all, 1)
        bar = ("#" * round(20 * share)).ljust(20, ".")
        line = f"\r[{bar}] {share:.0%}  {counts.rows:,} rows  {a_second:,.0f} rows/s"
        self._out.write(line, ending="")

    def end(self) -> None:
        """Leave the line."""
        if self._is_shown:
            self._out.write("")
