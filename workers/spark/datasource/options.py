"""The data source's options: Hudi's names where Hudi has one, and refused where unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping

from workers.errors import InvalidInput
from workers.options.read_keys import (
    AS_OF,
    COLUMNS,
    INCREMENTAL_FORMAT,
    OPERATION,
    PATH,
    QUERY,
    QUERY_TYPE,
    READ_OPTIONS,
    SINCE,
    UNTIL,
)
from workers.options.write_keys import WRITE_OPTIONS
from workers.ports import system_ports
from workers.read.request import EARLIEST, Query, ReadRequest, read_request
from workers.storage.opening import open_storage
from workers.table.table import Table, open_

_OF_CATALOGS = frozenset({"owner", "provider", "location", "external"})
"""What Spark says of a table that is made in a catalog, and of no other."""
_VIEW = (
    "Spark hands a Python source neither LOCATION nor OPTIONS of a table in a catalog; in SQL say "
    "CREATE TEMPORARY VIEW name USING sluice OPTIONS (path '...')"
)
_FILE = re.compile(r"file:(?://(?P<host>[^/]*))?/+")
"""As Hadoop spells a path (`file:/x`), and as RFC 8089 does (`file:///x`)."""
_FORMATS = {"latest_state": Query.INCREMENTAL, "cdc": Query.CDC}


def location(options: Mapping[str, str]) -> str:
    """The table's location among the options. Raises InvalidInput without a path."""
    if _OF_CATALOGS & set(options):
        raise InvalidInput(f"a table of a catalog cannot be read: {_VIEW}")
    path = options.get(PATH)
    if not path:
        raise InvalidInput(f"the sluice source needs the path of a table, .load(path): {_VIEW}")
    if (file_url := _FILE.match(path)) is None:
        return path
    if file_url["host"] not in (None, "", "localhost"):
        raise InvalidInput("a file has no host; write file:///path", given=path)
    return f"/{path[file_url.end() :]}"


def opened(where: str) -> Table:
    """The table at this location, opened with this process's ports. Raises TableNotFound,
    UnsupportedTable, MalformedTable.
    """
    return open_(open_storage(where), system_ports())


def request_of(options: Mapping[str, str]) -> ReadRequest:
    """What is to be read, as the options of the data source say. Raises InvalidInput for an option
    that reading does not know, and as `read_request`.
    """
    READ_OPTIONS.filled(options)
    query = options.get(QUERY) or options.get(QUERY_TYPE) or Query.SNAPSHOT
    given = options.get(INCREMENTAL_FORMAT)
    if given is not None:
        if given not in _FORMATS or query != Query.INCREMENTAL:
            raise InvalidInput(
                "option goes with incremental queries", key=INCREMENTAL_FORMAT, known=list(_FORMATS)
            )
        query = _FORMATS[given]
    columns = options.get(COLUMNS)
    since = options.get(SINCE)
    return read_request(
        query=query,
        as_of=options.get(AS_OF),
        since=EARLIEST if since is None and query in ("incremental", "cdc") else since,
        until=options.get(UNTIL),
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
    )


def write_options_of(options: Mapping[str, str], *, overwrite: bool) -> tuple[str, dict[str, str]]:
    """(operation, options of the write). Raises InvalidInput for an option that is neither."""
    rest = {key: value for key, value in options.items() if key not in (PATH, OPERATION)}
    WRITE_OPTIONS.filled(rest)
    operation = options.get(OPERATION)
    if not overwrite:
        return operation or "upsert", rest
    if operation not in (None, "insert_overwrite", "insert_overwrite_table"):
        raise InvalidInput(
            "mode overwrite replaces; write other operations with append", given=operation
        )
    return operation or "insert_overwrite_table", rest
