"""The data source's options: Hudi's names where Hudi has one, and refused where unknown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from workers.errors import InvalidInput
from workers.options.read_keys import (
    AS_OF,
    COLUMNS,
    FILTER,
    HUDI_COLUMNS,
    INCREMENTAL_FORMAT,
    OF_SPARK_STREAMS,
    OPERATION,
    OPERATION_OPTIONS,
    PATH,
    QUERY,
    QUERY_TYPE,
    READ_OPTIONS,
    SINCE,
    START,
    STREAM_NAME,
    UNTIL,
    WHERE,
)
from workers.options.write_keys import WRITE_OPTIONS, WRITER_KEY
from workers.ports import system_ports
from workers.read.request import EARLIEST, Query, ReadRequest, read_request
from workers.storage.opener import open_storage
from workers.table.table import Table, open_

_OF_CATALOGS = frozenset({"owner", "provider", "location", "external"})
"""What Spark says of a table that is made in a catalog, and of no other."""
_VIEW = (
    "Spark hands a Python source neither LOCATION nor OPTIONS of a table in a catalog; in SQL say "
    "CREATE TEMPORARY VIEW name USING sluice OPTIONS (path '...'), or name the columns, CREATE "
    "TABLE name (...) USING sluice, and say FROM name WITH ('path' = '...') in each statement"
)
_FILE = re.compile(r"file:(?://(?P<host>[^/]*))?/+")
"""As Hadoop spells a path (`file:/x`), and as RFC 8089 does (`file:///x`)."""
_SPELLED = {key.lower(): key for key in READ_OPTIONS}
"""Spark takes options in any case of letters and hands them on in lower case."""
_OF_INSERTS = frozenset((*WRITE_OPTIONS, *OPERATION_OPTIONS))
"""A view has one set of options: what is read of it, and what an INSERT into it is told."""
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
    spelled = {_SPELLED.get(key.lower(), key): said for key, said in options.items()}
    READ_OPTIONS.fill_defaults(
        {key: said for key, said in spelled.items() if key not in _OF_INSERTS}
    )
    query = options.get(QUERY) or options.get(QUERY_TYPE) or Query.SNAPSHOT
    given = options.get(INCREMENTAL_FORMAT)
    if given is not None:
        if given not in _FORMATS or query != Query.INCREMENTAL:
            raise InvalidInput(
                "option goes with incremental queries", key=INCREMENTAL_FORMAT, known=list(_FORMATS)
            )
        query = _FORMATS[given]
    columns = _said_once(options, COLUMNS, HUDI_COLUMNS)
    since = options.get(SINCE)
    return read_request(
        query=query,
        as_of=options.get(AS_OF),
        since=EARLIEST if since is None and query in ("incremental", "cdc") else since,
        until=options.get(UNTIL),
        columns=None if columns is None else [name.strip() for name in columns.split(",")],
    )


def condition_of(options: Mapping[str, str]) -> str | None:
    """Which rows are to be read; None for all. Raises InvalidInput for two that are not alike."""
    return _said_once(options, WHERE, FILTER)


def stream_request_of(options: Mapping[str, str]) -> tuple[ReadRequest, str]:
    """What a stream reads of each window, and where it begins. Raises InvalidInput for an option
    of other reads, and as `request_of`.
    """
    of_others = [key for key in (AS_OF, SINCE, UNTIL) if options.get(key)]
    if of_others:
        raise InvalidInput("a stream has no end; say where it begins", key=of_others[0], say=START)
    request = request_of(options)
    said = options.get(QUERY) or options.get(QUERY_TYPE)
    if said and not request.query.has_window:
        raise InvalidInput(
            "a stream gives rows as they come (query=incremental) or changes (query=cdc)",
            query=said,
        )
    query = request.query if said else Query.INCREMENTAL
    return replace(request, query=query), options.get(START) or READ_OPTIONS[START].default


def check_is_no_stream(options: Mapping[str, str]) -> None:
    """Refuse, as InvalidInput, what only a stream takes."""
    if options.get(START):
        raise InvalidInput("a stream begins there; a read says since when", key=START, say=SINCE)


def write_options_of(options: Mapping[str, str], *, overwrite: bool) -> tuple[str, dict[str, str]]:
    """(operation, options of the write). Raises InvalidInput for an option that is neither."""
    rest = {key: value for key, value in options.items() if key not in (PATH, OPERATION)}
    WRITE_OPTIONS.fill_defaults(rest)
    operation = options.get(OPERATION)
    if not overwrite:
        return operation or "upsert", rest
    if operation not in (None, "insert_overwrite", "insert_overwrite_table"):
        raise InvalidInput(
            "mode overwrite replaces; write other operations with append", given=operation
        )
    return operation or "insert_overwrite_table", rest


def stream_options_of(
    options: Mapping[str, str], *, overwrite: bool
) -> tuple[str, str, dict[str, str]]:
    """(the stream's name, operation, options of each write). Raises InvalidInput without a name,
    and as `write_options_of`.
    """
    name = (options.get(STREAM_NAME) or "").strip()
    if not name:
        raise InvalidInput(
            "a stream that writes needs a name of its own in this table, by which an epoch that "
            f"is sent again is known; say .option('{STREAM_NAME}', ...)"
        )
    theirs = OF_SPARK_STREAMS | {STREAM_NAME}
    rest = {key: text for key, text in options.items() if key.lower() not in theirs}
    operation, written = write_options_of(rest, overwrite=overwrite)
    return name, operation, {WRITER_KEY: name, **written}


def _said_once(options: Mapping[str, str], key: str, other: str) -> str | None:
    """What two keys of one meaning say. Raises InvalidInput where they differ."""
    said = {options[name] for name in (key, other) if options.get(name)}
    if len(said) > 1:
        raise InvalidInput("two options of one meaning differ: give one", first=key, second=other)
    return said.pop() if said else None
