"""Checks of the places that a source of rows may have: one file below a source root or in the
bucket of a named connection, and none in a table (threat T29). Rows of tables are read by row
access, with its masks, and not from their files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from workers.connections import BucketConnection
from workers.errors import InvalidInput
from workers.locations import (
    SourceRoot,
    folders_above,
    is_bucket_location,
    lies_under,
    resolve_location,
    source_roots_above,
)
from workers.storage.opener import open_with
from workers.table_layout import HOODIE, PROPERTIES

_PATTERN = re.compile(r"[*?\[\]{}\\\x00-\x1f\x7f]")
"""What Spark would read as a pattern of names, and what no name should hold."""
LETTERS_SUFFIX = "-dead-letters"
"""The suffix of the directory next to a table, where its sinks put what they could not write."""
IN_A_TABLE = (
    "a source file must not be in a table or below a table root: read rows of tables by SQL"
)
IN_BUCKET = (
    "name the source file by its path below the connection's prefix, such as 2026/orders.parquet, "
    "without any of * ? [ ] { } \\ # and without parts that are empty, . or .."
)
OUTSIDE = (
    "the source file is outside the configured roots: name one below a root of "
    "SLUICE_SOURCE_ROOTS whose namespace you operate"
)


def resolve_source(path: str) -> str:
    """Return the place that `path` names, with links and dots resolved. Raises InvalidInput if the
    path is not absolute, or has characters of a pattern.
    """
    if not (path.startswith("/") or is_bucket_location(path)) or _PATTERN.search(path):
        raise InvalidInput(
            "a source file is named by its absolute path or s3://bucket/name, without any of "
            "* ? [ ] { } \\",
            path=path[:200],
        )
    place = resolve_location(path)
    if _PATTERN.search(place):  # A link may lead to another name.
        raise InvalidInput("the source file has another name than is allowed", path=path[:200])
    return place


def check_below_a_source_root(
    place: str, sources: Iterable[SourceRoot], tables: Iterable[str]
) -> list[SourceRoot]:
    """Return the source roots that a resolved place belongs to, at least one, by its name alone.

    Raises InvalidInput.
    """
    tables = list(tables)
    if roots := source_roots_above(place, sources, tables):
        return roots
    if any(place == root or lies_under(place, root) or lies_under(root, place) for root in tables):
        raise InvalidInput(IN_A_TABLE, path=place[:200])
    raise InvalidInput(OUTSIDE, path=place[:200])


def place_in_bucket(connection: BucketConnection, path: str, tables: Iterable[str]) -> str:
    """Return the resolved place of the object at `path` below the connection's prefix, by its name
    alone; `tables` are the table roots.

    Raises InvalidInput for a path that is absolute or leads out of the prefix, has characters of a
    pattern, or is below a table root.
    """
    try:
        if not path or _PATTERN.search(path):
            raise InvalidInput(IN_BUCKET)
        place = resolve_location(f"{connection.location}/{path}")
    except InvalidInput as error:
        # The prefix is for admins alone: the error names what the request named.
        raise InvalidInput(IN_BUCKET, path=path[:200]) from error
    try:
        check_below_a_source_root(place, [SourceRoot(connection.location, "")], tables)
    except InvalidInput as error:
        raise InvalidInput(IN_A_TABLE, path=path[:200]) from error
    return place


def check_in_no_table(place: str, connection: BucketConnection | None = None) -> None:
    """Check that a place is not a directory, and not in a table or its dead letters, whether the
    table is registered or not. It reads the file system, or the bucket by the connection; above the
    connection's prefix nothing is requested, because its keys may not be allowed to.

    Raises InvalidInput, StorageFailed.
    """
    folders = [place, *folders_above(place)]
    if connection is not None:
        top = connection.location
        folders = [folder for folder in folders if folder == top or lies_under(folder, top)]
    if any(_is_table(folder, connection) for folder in folders):
        raise InvalidInput(IN_A_TABLE, path=place[:200])
    if not is_bucket_location(place) and Path(place).is_dir():
        raise InvalidInput("a source is one file, and this is a directory", path=place[:200])


def _is_table(folder: str, connection: BucketConnection | None) -> bool:
    """Return True if the folder is a table, or has the dead letters of one."""
    place = folder.removesuffix(LETTERS_SUFFIX)
    if is_bucket_location(place):
        return open_with(connection, place).info(PROPERTIES.path) is not None
    return os.path.lexists(f"{place}/{HOODIE}")
