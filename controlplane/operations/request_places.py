"""Where a request may have a node read and write: files of rows below the source roots, and what it
puts beside a table below the table roots.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.errors import InvalidRequest
from controlplane.tables.locations import checked_location, checked_source
from workers.options.lock_options import FILESYSTEM_PATH

DEAD_LETTERS = "sluice.dead.letter.path"
_FILE_KINDS = ("csv", "parquet")


def check_source(source: Mapping[str, Any]) -> None:
    """Raises InvalidRequest for a file that the writer would not be let at."""
    path = source.get("path")
    if source.get("kind") in _FILE_KINDS and path is not None:
        checked_source(str(path))


def check_places(options: Mapping[str, str]) -> None:
    """Raises InvalidRequest for a directory outside the table roots."""
    for key in (DEAD_LETTERS, FILESYSTEM_PATH):
        path = options.get(key, "")
        if not path:
            continue
        try:
            checked_location(path.removeprefix("file://"))
        except InvalidRequest as error:
            raise InvalidRequest(error.message, **{**error.values, "option": key}) from error
