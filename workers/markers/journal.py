"""The requests that created each marker, so that a repeated request is answered as the first time.

`REQUESTS<i>` is next to `MARKERS<i>` and grows with it, a line per request: a sequence number, the
request's id (empty if it has none) and the names that it created, between tabs. Readers of markers
skip these files. An answer is given when both are durable. So a marker without a line was never
acknowledged, and the next request for it created it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.errors import NotFound
from workers.markers.marker import markers_directory
from workers.storage.base import Storage

_REQUESTS_FILE = re.compile(r"REQUESTS[0-9]{1,6}\Z")
_SEPARATOR = "\t"  # In no marker's name and in no request's id.


@dataclass(frozen=True, slots=True)
class Request:
    """The names that one request created."""

    request_id: str | None
    names: list[str]


@dataclass(frozen=True, slots=True)
class Journal:
    """The contents of the REQUESTS<i> files of one marker directory."""

    creators: Mapping[str, str | None] = field(default_factory=dict)
    """Name to the id of the request that created it; its marker may have been lost in a crash."""
    last_sequence: int = -1
    exists: bool = False


def requests_file(instant: InstantTime, index: int) -> str:
    """Return the path of REQUESTS<index>, relative to the table."""
    return f"{markers_directory(instant)}/REQUESTS{index}"


def is_requests_file(name: str) -> bool:
    """True for the file name REQUESTS and 1 to 6 digits, without a folder before it."""
    return _REQUESTS_FILE.match(name) is not None


def lines(sequence: int, requests: Iterable[Request]) -> list[str]:
    """Format a line per request, without its newline."""
    return [
        _SEPARATOR.join((str(sequence), request.request_id or "", *request.names))
        for request in requests
    ]


def read_journal(storage: Storage, instant: InstantTime) -> Journal:
    """Read the journal. A half last line is dropped: no answer was based on it."""
    paths = [
        info.path
        for info in storage.list_files(markers_directory(instant))
        if is_requests_file(info.name)
    ]
    latest: dict[str, tuple[int, str | None]] = {}
    last = -1
    for entries in storage.at_once(lambda path: list(_entries(storage, path)), paths):
        for sequence, request_id, names in entries:
            last = max(last, sequence)
            for name in names:
                # A flush that failed may have left its line: the later one was answered.
                if name not in latest or latest[name][0] < sequence:
                    latest[name] = (sequence, request_id)
    creators = {name: request_id for name, (_, request_id) in latest.items()}
    return Journal(creators, last, bool(paths))


def _entries(storage: Storage, path: str) -> Iterable[tuple[int, str | None, list[str]]]:
    try:
        content = storage.read(path)
    except NotFound:  # Deleted since it was listed, with the whole directory.
        return
    for line in content.split(b"\n")[:-1]:
        sequence, *rest = line.decode(errors="surrogateescape").split(_SEPARATOR)
        if rest and sequence.isascii() and sequence.isdigit():
            yield int(sequence), rest[0] or None, rest[1:]
