"""Where a request may have a node read and write: files of rows below the source roots, and what it
puts beside a table below the table roots; of whoever has not every table, in his own ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.tables.access import Permission, may_everywhere, visible_tables
from controlplane.tables.locations import checked_location, checked_rows_place, overlap
from workers.errors import InvalidInput
from workers.locations import is_bucket_location, lies_under, resolved_location
from workers.options.lock_options import FILESYSTEM_PATH

DEAD_LETTERS = "sluice.dead.letter.path"
_FILE_KINDS = ("csv", "json", "parquet")
_FILE_SCHEME = re.compile(r"\Afile:/+", re.IGNORECASE)
_PATTERN = re.compile(r"[*?\[\]{}]")
_BESIDE_A_TABLE = "-dead-letters"


def check_source(source: Mapping[str, Any]) -> None:
    """Refuse, as InvalidRequest, a file that the writer would not be let at."""
    path = source.get("path")
    if source.get("kind") in _FILE_KINDS and path is not None:
        checked_rows_place(str(path))


def check_places(options: Mapping[str, str]) -> None:
    """Refuse, as InvalidRequest, a directory outside the table roots."""
    for key in (DEAD_LETTERS, FILESYSTEM_PATH):
        path = options.get(key, "")
        if not path:
            continue
        try:
            checked_location(path.removeprefix("file://"))
        except InvalidRequest as error:
            raise InvalidRequest(error.message, **{**error.values, "option": key}) from error


def check_own_places(user: User, body: object) -> None:
    """Refuse, as InvalidRequest, any text in `body` that names a place below the table roots,
    unless it lies in a table that `user` operates, or in its dead letters. It says the same of
    another's table and of a place where there is none.
    """
    if may_everywhere(user, Permission.OPERATE):
        return
    places = [(text, place) for text in _texts(body) if (place := _below_the_roots(text))]
    if not places:
        return
    own = visible_tables(user, Permission.OPERATE).values_list("location", flat=True)
    allowed = [place for location in own for place in (location, f"{location}{_BESIDE_A_TABLE}")]
    for text, place in places:
        is_own = any(place == each or lies_under(place, each) for each in allowed)
        if not is_own or _PATTERN.search(text):
            raise InvalidRequest(
                "a place below the table roots lies in a table that you operate", place=text[:200]
            )


def _texts(body: object) -> Iterator[str]:
    """Every text in a JSON value, however deep it lies."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, Mapping):
        for part in body.values():
            yield from _texts(part)
    elif isinstance(body, list | tuple):
        for part in body:
            yield from _texts(part)


def _below_the_roots(text: str) -> str:
    """The place that the text names, where it has to do with the table roots; empty for any other
    text.
    """
    path = _FILE_SCHEME.sub("/", text.strip())
    if "\x00" in path or not (path.startswith("/") or is_bucket_location(path)):
        return ""
    try:
        place = resolved_location(path)
    except InvalidInput:
        return ""  # Whoever takes a place from this text refuses it.
    roots = (resolved_location(root) for root in settings.SLUICE_TABLE_ROOTS)
    return place if any(overlap(place, root) for root in roots) else ""
