"""The storage side of batching: appends to one directory's files between two looks at the fence.

Called from threads, one at a time per file. An append costs the same however much the files hold
already.
"""

from __future__ import annotations

from collections.abc import Sequence

from workers import stop_points
from workers.clock import InstantTime
from workers.errors import InstantRolledBack, MarkerRefused
from workers.markers import store
from workers.markers.fence import is_fenced, refuse_fenced, writer_name
from workers.markers.marker import is_marker_name
from workers.storage.base import Storage


class MarkersVanished(MarkerRefused):
    """Somebody deleted the directory: what memory says of it is no longer true."""

    code = "markers_vanished"


class MarkersAppender:
    def __init__(self, storage: Storage, instant: InstantTime) -> None:
        self.storage = storage
        self.instant = instant
        self.writer: str | None = None
        self._has_type = False
        self._whole: set[int] = set()
        """Files that end with a newline, because this process wrote their end."""

    def load(self) -> store.StoredNames:
        found = store.read_names(self.storage, self.instant)
        self._has_type = found.has_type
        self._whole.clear()
        self.writer = writer_name(self.storage, self.instant)
        return found

    def write(self, index: int, names: Sequence[str]) -> tuple[str, ...]:
        """Make `names` durable in file `index`; returns what became a marker by the way.

        Raises InstantRolledBack, MarkersVanished, and whatever storage raises.
        """
        refuse_fenced(self.storage, self.instant)
        if self._has_type and self.storage.info(store.type_file(self.instant)) is None:
            self._has_type = False
            self._whole.clear()
            raise MarkersVanished("marker directory was deleted", instant=self.instant)
        if not names:
            return ()
        if not self._has_type:
            store.write_type(self.storage, self.instant)
            self._has_type = True
        finished, written_bytes = self._appended(index, names)
        stop_points.reach("marker_after_flush", writer=self.writer)
        if is_fenced(self.storage, self.instant):
            store.withdraw(self.storage, self.instant, index, written_bytes=written_bytes)
            raise InstantRolledBack("instant was decided meanwhile", instant=self.instant)
        return finished

    def _appended(self, index: int, names: Sequence[str]) -> tuple[tuple[str, ...], int]:
        """Names and bytes added, after ending a half line so that it never merges with a name.

        Where only its newline was missing it is a marker from now on: readers will count it, so
        memory must too.
        """
        tail = ""
        if index not in self._whole:
            tail = store.unfinished_tail(self.storage, self.instant, index)
        self._whole.discard(index)  # Until the append is known to have succeeded.
        written_bytes = store.append_names(
            self.storage, self.instant, index, names, is_behind_half_line=bool(tail)
        )
        self._whole.add(index)
        return ((tail,) if is_marker_name(tail) else ()), written_bytes
