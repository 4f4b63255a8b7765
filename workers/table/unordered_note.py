"""The note that rows without an ordering value were written to a table. It is never removed.

Most tables have no such rows. Without the note a search for them would read base files.
"""

from __future__ import annotations

from workers.storage.base import Storage
from workers.table_layout import UNORDERED


def note_unordered(storage: Storage) -> None:
    """Write the note that rows without an ordering value came. Raises StorageFailed."""
    if not has_unordered(storage):
        storage.put(UNORDERED.path, b"1")


def has_unordered(storage: Storage) -> bool:
    """Check whether the table has the note. Raises StorageFailed."""
    return storage.info(UNORDERED.path) is not None
