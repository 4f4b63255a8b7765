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
from controlplane.operations.connection_sources import has_connection
from controlplane.operations.descriptions.write import FILES
from controlplane.operations.source_places import (
    check_rows_files,
    checked_rows_place,
    tables_above,
)
from controlplane.tables.access import Permission, may_everywhere, visible_tables
from controlplane.tables.locations import checked_location, overlap
from controlplane.tables.models import Table
from controlplane.uploads.places import is_upload
from workers.errors import InvalidInput
from workers.locations import (
    is_bucket_location,
    lies_under,
    resolve_location,
    source_root,
    source_roots_above,
)
from workers.options.lock_options import FILESYSTEM_PATH
from workers.options.node_options import reject_connection_options
from workers.options.sink_keys import FILE_KEY, LETTERS_KEY
from workers.options.write_options import write_options
from workers.storage.source_places import LETTERS_SUFFIX
from workers.table_services.inline import own_options
from workers.table_services.input_rows import PATH_KEY

DEAD_LETTERS = "sluice.dead.letter.path"
_FILE_SCHEME = re.compile(r"\Afile:/+", re.IGNORECASE)
_PATTERN = re.compile(r"[*?\[\]{}]")


def check_places(table: Table, options: Mapping[str, str]) -> None:
    """Refuse, as InvalidRequest, a directory that no option of a write into `table` may name."""
    for key in (DEAD_LETTERS, LETTERS_KEY, FILESYSTEM_PATH):
        if path := options.get(key, ""):
            try:
                checked_place_beside(table, path.removeprefix("file://"))
            except InvalidRequest as error:
                raise InvalidRequest(error.message, **{**error.values, "option": key}) from error


def check_write_options(table: Table, options: Mapping[str, str]) -> None:
    """Refuse options that no write into `table` may have, as InvalidInput or InvalidRequest."""
    reject_connection_options(options)
    write_options(own_options(options))
    check_places(table, options)


def checked_place_beside(table: Table, path: str) -> str:
    """The resolved directory, below a table root and neither in another table nor in its dead
    letters: what `table` shows of its own would be of other tables' rows. Raises InvalidRequest.
    """
    place = checked_location(path)
    sources = [source_root(root) for root in settings.SLUICE_SOURCE_ROOTS]
    tables = [resolve_location(root) for root in settings.SLUICE_TABLE_ROOTS]
    if source_roots_above(place, sources, tables):
        raise InvalidRequest("the directory must not be below a source root", path=path[:200])
    if tables_above(place).exclude(pk=table.pk).exists():
        raise InvalidRequest("the directory must not be inside another table", path=path[:200])
    return place


def check_named_places(user: User | None, body: Mapping[str, Any]) -> None:
    """Refuse, as InvalidRequest, a request or a job that names a place that `user` may not read or
    write: a file of rows that they may not load, and any text that names a place below the table
    roots, unless it lies in a table that they operate, or in its dead letters. The error is the
    same for the table of another person and for a place without a table. Without a person only
    files are checked.
    """
    _check_files(user, body)
    _check_options(body)
    if user is None or may_everywhere(user, Permission.OPERATE):
        return
    places = [(text, place) for text in _texts(body) if (place := _below_the_roots(text))]
    if not places:
        return
    own = visible_tables(user, Permission.OPERATE).values_list("location", flat=True)
    allowed = [place for location in own for place in (location, f"{location}{LETTERS_SUFFIX}")]
    for text, place in places:
        is_own = any(place == each or lies_under(place, each) for each in allowed)
        if not is_own or _PATTERN.search(text):
            raise InvalidRequest(
                "a path below the table roots must be inside a table on which you are operator",
                place=text[:200],
            )


def may_still_name(user: User, job: Mapping[str, Any]) -> bool:
    """Whether `user` may still have the files read that a stored job names: a role may be gone, and
    a table be registered there meanwhile.
    """
    try:
        _check_files(user, job)
    except InvalidRequest:
        return False
    return True


def _check_files(user: User | None, body: Mapping[str, Any]) -> None:
    """Check the files of a write, of a service and of a sink, as they are requested and as their
    jobs have them. Raises InvalidRequest.
    """
    source, parameters = body.get("source"), body.get("parameters")
    # A path in the bucket of a connection is checked with the connection.
    if isinstance(source, Mapping) and source.get("kind") in FILES and not has_connection(source):
        check_rows_files(str(source.get("path", "")), user)
    if isinstance(parameters, Mapping) and (text := str(parameters.get(PATH_KEY, "")).strip()):
        check_rows_files(text, user)
    for name in ("options", "sink_options"):
        options = body.get(name)
        if isinstance(options, Mapping) and (path := options.get(FILE_KEY)):
            checked_rows_place(str(path), user)


def _check_options(body: Mapping[str, Any]) -> None:
    """Refuse, as InvalidRequest, an upload as the file of an option: writers read it repeatedly."""
    for name in ("options", "sink_options"):
        options = body.get(name)
        if isinstance(options, Mapping) and is_upload(str(options.get(FILE_KEY) or "")):
            raise InvalidRequest("this option requires a file in a source root", option=FILE_KEY)


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
        place = resolve_location(path)
    except InvalidInput:
        return ""  # Whoever takes a place from this text refuses it.
    roots = (resolve_location(root) for root in settings.SLUICE_TABLE_ROOTS)
    return place if any(overlap(place, root) for root in roots) else ""
