"""The lock's record on the table's own storage, by conditional writes, as Hudi's storage lock."""

from __future__ import annotations

from workers.concurrency.locks.record import LockState, StoredLock, decode_lock
from workers.errors import NotFound
from workers.storage.base import Storage
from workers.table_layout import LOCK


class StorageRecord:
    """See RecordStore. The file at `LOCK.path`, where Hudi's storage-based provider has its own."""

    is_lasting = True

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @property
    def place(self) -> str:
        """The location of the record for messages."""
        return f"{self._storage.location}/{LOCK.path}"

    def read(self) -> StoredLock | None:
        """Return the record; None if there is none. Raises MalformedTable for a damaged one."""
        try:
            tagged = self._storage.read_tagged(LOCK.path)
        except NotFound:
            return None
        return StoredLock(decode_lock(tagged.content, self.place), tagged.tag)

    def create(self, state: LockState) -> bool:
        """Create the record; True if this call created it."""
        return self._storage.put_if_absent(LOCK.path, state.encode())

    def replace(self, state: LockState, tag: str) -> bool:
        """Replace the record if it still has `tag`."""
        return (
            self._storage.replace_if_match(LOCK.path, state.encode(), tag, LOCK.durability)
            is not None
        )

    def close(self) -> None:
        """Do nothing: no connection is open."""
