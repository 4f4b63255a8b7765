"""Marker directories on storage: one empty file per marker, or MARKERS<i> files of many lines.

Readers take the union of all files and never fail on damage: a torn last line was never
acknowledged and is dropped, a missing MARKERS.type is inferred, empty, doubled and unparsable lines
are skipped. Appending never rewrites.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import NotFound
from workers.markers.journal import is_requests_file
from workers.markers.marker import (
    MARKERS_TYPE,
    MARKERS_TYPE_FILE,
    Marker,
    is_instant,
    is_marker_name,
    markers_directory,
    parse_marker,
)
from workers.storage.base import Storage
from workers.table_layout import MARKERS

_MARKERS_FILE = re.compile(r"MARKERS([0-9]{1,6})\Z")
_DELETE_ATTEMPTS = 5
_TAIL_BYTES = 4_096  # More than the longest name; of longer lines this much will do.


@dataclass(frozen=True, slots=True)
class StoredNames:
    """The names in one marker directory."""

    by_file: Mapping[int, tuple[str, ...]]
    """Per number of a MARKERS<i> file, in the order written."""
    direct: tuple[str, ...]
    """Names of direct marker files."""
    has_type: bool

    @property
    def are_some_lost(self) -> bool:
        """True if files are missing: they are numbered from 0 on, and the type comes before the
        first.
        """
        numbers = sorted(self.by_file)
        return numbers != list(range(len(numbers))) or (bool(numbers) and not self.has_type)

    def all(self) -> tuple[str, ...]:
        """Return all names of either layout, sorted, each once."""
        return tuple(sorted({*self.direct, *(n for names in self.by_file.values() for n in names)}))


def read_markers(storage: Storage, instant: InstantTime) -> tuple[Marker, ...]:
    """Return all markers of the instant, sorted, each once, from either layout or both."""
    return tuple(sorted(parse_marker(name) for name in read_names(storage, instant).all()))


def read_names(storage: Storage, instant: InstantTime) -> StoredNames:
    """Return the instant's marker names by their file; empty when it has no marker directory."""
    directory = markers_directory(instant)
    direct: list[str] = []
    has_type = False
    numbers: list[int] = []
    for info in storage.list_tree(directory):
        name = info.path.removeprefix(f"{directory}/")
        if name == MARKERS_TYPE_FILE:
            has_type = True
        elif numbered := _MARKERS_FILE.match(name):
            numbers.append(int(numbered[1]))
        elif is_marker_name(name):
            direct.append(name)
    listed = storage.at_once(lambda index: _lines(storage, markers_file(instant, index)), numbers)
    by_file = dict(zip(numbers, listed, strict=True))
    return StoredNames(by_file, tuple(direct), has_type)


def has_markers_directory(storage: Storage, instant: InstantTime) -> bool:
    """Return True while the instant has a marker directory, even one without markers."""
    return markers_directory(instant) in storage.list_directories(MARKERS.path)


def files_of_markers(storage: Storage, instant: InstantTime) -> list[str]:
    """Return paths of all files in the instant's marker directory, for callers that may delete only
    files that they have seen.
    """
    return [info.path for info in storage.list_tree(markers_directory(instant))]


def delete_markers(storage: Storage, instant: InstantTime) -> None:
    """Remove the instant's marker directory; absent is fine. Only for a decided instant: no other
    writer has markers there that count.
    """
    for _ in range(_DELETE_ATTEMPTS - 1):
        try:
            return storage.delete_tree(markers_directory(instant))
        except OSError as error:
            # A request that was already past the fence may add a file while we delete.
            if error.errno != errno.ENOTEMPTY:
                raise
    return storage.delete_tree(markers_directory(instant))


def pending_marker_instants(storage: Storage) -> tuple[InstantTime, ...]:
    """List instants that have a marker directory, sorted."""
    names = (path.rpartition("/")[2] for path in storage.list_directories(MARKERS.path))
    return tuple(sorted(name for name in names if is_instant(name)))


def markers_file(instant: InstantTime, index: int) -> str:
    """Return the path of MARKERS<index>, relative to the table."""
    return f"{markers_directory(instant)}/MARKERS{index}"


def type_file(instant: InstantTime) -> str:
    """Return the path of MARKERS.type, relative to the table."""
    return f"{markers_directory(instant)}/{MARKERS_TYPE_FILE}"


def write_type(storage: Storage, instant: InstantTime) -> None:
    """Write the type of a directory with MARKERS<i> files; required before the first of them."""
    storage.put_if_absent(type_file(instant), MARKERS_TYPE.encode())


def append_lines(
    storage: Storage, path: str, lines: Sequence[str], *, is_behind_half_line: bool
) -> int:
    """Make `lines` durable at the end of one file; returns the bytes added."""
    text = "\n".join((*lines, ""))
    content = (f"\n{text}" if is_behind_half_line else text).encode()
    storage.append(path, content)
    return len(content)


def read_unfinished_tail(storage: Storage, path: str) -> str:
    """Read what follows the last newline of one file: half a line that a crash left, or nothing.

    The next append has to end that line first, or the half line and a new one would become one.
    """
    try:
        stream = storage.open_data(path)
    except NotFound:
        return ""
    with stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - _TAIL_BYTES))
        return stream.read().rpartition(b"\n")[2].decode(errors="surrogateescape")


def remove_unacknowledged(
    storage: Storage, instant: InstantTime, index: int, *, written_bytes: int
) -> None:
    """Remove unacknowledged names that restored a decided instant's directory.

    Only a file without any other line is deleted: a rollback may still need older lines. A name
    that is added after the decision is never acknowledged, so nothing that matters can be added in
    between. The requests are deleted with the last of the names.
    """
    path = markers_file(instant, index)
    file_info = storage.info(path)
    if file_info is not None and file_info.size != written_bytes:
        return
    storage.delete(path)
    directory = markers_directory(instant)
    if all(_names_no_marker(info.name) for info in storage.list_tree(directory)):
        storage.delete_tree(directory)


def _names_no_marker(file_name: str) -> bool:
    return file_name == MARKERS_TYPE_FILE or is_requests_file(file_name)


def _lines(storage: Storage, path: str) -> tuple[str, ...]:
    try:
        content = storage.read(path)
    except NotFound:  # Deleted since it was listed, with the whole directory.
        return ()
    whole = content.split(b"\n")[
        :-1
    ]  # Behind the last newline is a line that was never acknowledged.
    decoded = (line.decode(errors="surrogateescape") for line in whole)
    return tuple(line for line in decoded if is_marker_name(line))
