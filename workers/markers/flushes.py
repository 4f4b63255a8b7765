"""Marker files on storage that does not append: each flush is an object of its own.

Rewriting a file would cost more with every marker that it holds already. When there are more than
`OBJECTS_MAX` they are folded into one: that one is durable before the others are deleted, and
readers take the union, so no reader ever sees fewer markers.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Sequence

from workers.clock import InstantTime
from workers.errors import NotFound, StorageFailed
from workers.markers.marker import markers_directory
from workers.storage.base import Storage

OBJECTS_MAX = 200
_TAKEN_MAX = 1_000
_NUMBERED = re.compile(r"(?:MARKERS|REQUESTS)([0-9]{1,6})\Z")


class FlushObjects:
    """The flushes of one marker directory. Thread-safe; several servers may write the same one."""

    def __init__(self, storage: Storage, instant: InstantTime) -> None:
        self._storage = storage
        self._directory = markers_directory(instant)
        self._numbers = itertools.count()
        self._folding = threading.Lock()
        self._objects: dict[str, int] = {}
        """About how many there are of each kind."""

    def load(self) -> None:
        """Continue the numbers behind the stored objects."""
        numbers = [
            int(numbered[1])
            for file in self._storage.list_files(self._directory)
            if (numbered := _NUMBERED.match(file.name))
        ]
        self._numbers = itertools.count(max(numbers, default=-1) + 1)
        self._objects = dict.fromkeys(("MARKERS", "REQUESTS"), len(numbers))

    def put(self, path_of: Callable[[int], str], content: bytes) -> int:
        """Return the number of the object that holds `content` now."""
        number = self._put_next(path_of, content)
        kind = path_of(number).rpartition("/")[2].rstrip("0123456789")
        self._objects[kind] = self._objects.get(kind, 0) + 1
        if self._objects[kind] > OBJECTS_MAX and self._folding.acquire(blocking=False):
            try:
                self._fold(kind, path_of)
            finally:
                self._folding.release()
        return number

    def _put_next(self, path_of: Callable[[int], str], content: bytes) -> int:
        """Put the content under the next number that no other server has used."""
        for number in itertools.islice(self._numbers, _TAKEN_MAX):
            if self._storage.put_if_absent(path_of(number), content):
                return number
        raise StorageFailed("other servers take every number", directory=self._directory)

    def _fold(self, kind: str, path_of: Callable[[int], str]) -> None:
        old = [
            file.path
            for file in self._storage.list_files(self._directory)
            if _NUMBERED.match(file.name) and file.name.startswith(kind)
        ]
        contents = self._storage.at_once(self._content, old)
        self._put_next(path_of, b"".join(contents))
        self._storage.delete_many(old)
        self._objects[kind] = 1

    def _content(self, path: str) -> bytes:
        try:
            return self._storage.read(path)
        except NotFound:  # Withdrawn, or all are gone with the instant.
            return b""


def encode_lines(lines: Sequence[str]) -> bytes:
    """Encode the lines in UTF-8, each ended by a newline; empty for no lines."""
    return "\n".join((*lines, "")).encode()
