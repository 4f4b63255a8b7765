"""The lock's record in this process, for writers that are all threads of it."""

from __future__ import annotations

import threading

from workers.concurrency.locks.record import LockState, StoredLock, decode_lock

_mutex = threading.Lock()
_records: dict[str, bytes] = {}


class InProcessRecord:
    """See RecordStore. One record per table for the whole process, gone when it ends."""

    is_lasting = False

    def __init__(self, table: str) -> None:
        self._table = table

    @property
    def place(self) -> str:
        """The location of the record for messages."""
        return f"this process, {self._table}"

    def read(self) -> StoredLock | None:
        """Return the record; None if there is none."""
        with _mutex:
            content = _records.get(self._table)
        return StoredLock(decode_lock(content, self.place), content.decode()) if content else None

    def create(self, state: LockState) -> bool:
        """Create the record; True if this call created it."""
        content = state.encode()
        with _mutex:
            return _records.setdefault(self._table, content) is content

    def replace(self, state: LockState, tag: str) -> bool:
        """Replace the record if it still has `tag`."""
        with _mutex:
            if _records.get(self._table) != tag.encode():
                return False
            _records[self._table] = state.encode()
            return True

    def close(self) -> None:
        """Do nothing: no connection is open."""
