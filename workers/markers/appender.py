"""The storage side of batching: appends to one directory's files between two checks of the fence.

Called from threads, one at a time per file. An append costs the same for a file of any size.

On storage that cannot append, each flush is an object of its own: rewriting a file would cost more
with every marker that it holds already. When there are more than `OBJECTS_MAX` they are folded into
one: that one is durable before the others are deleted, and readers take the union, so no reader
ever sees fewer markers.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait

from workers import failpoints
from workers.clock import InstantTime
from workers.concurrency.heartbeat import read_heartbeat
from workers.errors import InstantRolledBack, MarkerRefused, NotFound, StorageFailed
from workers.markers import journal, store
from workers.markers.fence import is_fenced, raise_if_fenced
from workers.markers.journal import Journal, Request
from workers.markers.marker import is_marker_name, markers_directory
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


class MarkersVanished(MarkerRefused):
    """Another process deleted the directory: the server's memory of it is no longer true."""

    code = "markers_vanished"


class MarkersAppender:
    """Reads and extends the MARKERS<i> and REQUESTS<i> files of one instant. It blocks, so its
    callers are threads; no two of them may write the same index at once.
    """

    def __init__(
        self,
        storage: Storage,
        instant: InstantTime,
        *,
        journal_pool: Executor,
        check_place: Callable[[], object] | None = None,
    ) -> None:
        """`journal_pool` writes the REQUESTS<i> files while the caller writes the MARKERS<i> file;
        it must not be the caller's, whose threads may all be waiting here.
        """
        self.storage = storage
        self.instant = instant
        self.writer: str | None = None
        self._journal_pool = journal_pool
        self._flushes = None if storage.appends_in_place else FlushObjects(storage, instant)
        self._check_place = check_place
        self._has_type = False
        self._has_journal = False
        self._foreign: list[str] = []
        """Names that stood here before there was a journal."""
        self._sequence = itertools.count()
        self._whole: set[str] = set()
        """Files that end with a newline, because this process wrote their end."""

    def load(self) -> tuple[store.StoredNames, Journal]:
        """Return the stored names, and the requests that created them."""
        stored_names = store.read_names(self.storage, self.instant)
        stored_journal = journal.read_journal(self.storage, self.instant)
        self._has_type = stored_names.has_type
        self._has_journal = stored_journal.exists
        self._foreign = [] if stored_journal.exists else list(stored_names.all())
        self._sequence = itertools.count(stored_journal.last_sequence + 1)
        self._whole.clear()
        if self._flushes is not None:
            self._flushes.load()
        heartbeat = read_heartbeat(self.storage, self.instant)
        self.writer = heartbeat.writer if heartbeat else None
        return stored_names, stored_journal

    def write(
        self, index: int, names: Sequence[str], requests: Sequence[Request]
    ) -> tuple[str, ...]:
        """Make `names` durable in file `index`, with their requests; returns half lines that became
        markers.

        Raises InstantRolledBack, MarkersVanished, and whatever storage or `check_place` raises.
        """
        if self._check_place is not None:
            self._check_place()
        raise_if_fenced(self.storage, self.instant)
        if self._has_type and self.storage.info(store.type_file(self.instant)) is None:
            self._forget()
            raise MarkersVanished("marker directory was deleted", instant=self.instant)
        if not requests:
            return ()
        finished, number, written_bytes = self._written(index, names, requests)
        failpoints.hit_failpoint("marker_after_flush", writer=self.writer)
        if is_fenced(self.storage, self.instant):
            store.remove_unacknowledged(
                self.storage, self.instant, number, written_bytes=written_bytes
            )
            raise InstantRolledBack("instant was decided since then", instant=self.instant)
        return finished

    def _written(
        self, index: int, names: Sequence[str], requests: Sequence[Request]
    ) -> tuple[tuple[str, ...], int, int]:
        """Return the half lines that became markers, the number of MARKERS<i>, and the bytes added
        to it.
        """
        recorded = self._journal_pool.submit(self._record, index, requests)
        try:
            if not self._has_type:
                store.write_type(self.storage, self.instant)
                self._has_type = True
            if not self._has_journal:
                # Later, an absent journal means that others wrote the names.
                recorded.result()
            finished, number, written_bytes = (
                self._append_names(index, names) if names else ((), index, 0)
            )
        finally:
            # No other write may touch the file before this one ended, however it ended.
            wait([recorded])
        recorded.result()
        return finished, number, written_bytes

    def _record(self, index: int, requests: Sequence[Request]) -> None:
        foreign = [] if self._has_journal else self._foreign
        sequence = next(self._sequence)
        lines = journal.lines(sequence, [Request(None, foreign)] if foreign else [])
        self._append(self._requests_file, index, lines + journal.lines(sequence, requests))
        self._has_journal = True

    def _append_names(self, index: int, names: Sequence[str]) -> tuple[tuple[str, ...], int, int]:
        """Append names; return those that became markers, the file's number and the bytes added. If
        only its newline was missing, the half line is a marker from now on: readers will count it,
        so memory must too.
        """
        tail, number, written_bytes = self._append(self._markers_file, index, names)
        return ((tail,) if is_marker_name(tail) else ()), number, written_bytes

    def _markers_file(self, index: int) -> str:
        return store.markers_file(self.instant, index)

    def _requests_file(self, index: int) -> str:
        return journal.requests_file(self.instant, index)

    def _append(
        self, path_of: Callable[[int], str], index: int, lines: Sequence[str]
    ) -> tuple[str, int, int]:
        """Append lines. Return the half line that was ended first, so that it does not merge with a
        new one, the file's number, and the bytes added.
        """
        if self._flushes is not None:
            content = encode_lines(lines)
            return "", self._flushes.put(path_of, content), len(content)
        path = path_of(index)
        tail = "" if path in self._whole else store.read_unfinished_tail(self.storage, path)
        self._whole.discard(path)  # Until the append is known to have succeeded.
        written_bytes = store.append_lines(
            self.storage, path, lines, is_behind_half_line=bool(tail)
        )
        self._whole.add(path)
        return tail, index, written_bytes

    def _forget(self) -> None:
        self._has_type = self._has_journal = False
        self._foreign = []
        self._whole.clear()
