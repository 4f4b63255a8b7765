"""Whether rows without an ordering value ever came to a table: a note that is never taken back.

Most tables have none, and whoever looks for them would have to read base files for it.
"""

from __future__ import annotations

from workers.storage.base import Storage

PATH = ".hoodie/.sluice/unordered"


def note_unordered(storage: Storage) -> None:
    """Raises StorageFailed."""
    if not has_unordered(storage):
        storage.put(PATH, b"1")


def has_unordered(storage: Storage) -> bool:
    """Raises StorageFailed."""
    return storage.info(PATH) is not None
