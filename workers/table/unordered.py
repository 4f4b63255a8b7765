"""Whether rows without an ordering value ever came to a table: a note that is never taken back.

Most tables have none, and whoever looks for them would have to read base files for it.
"""

from __future__ import annotations

from workers.storage.base import Storage
from workers.table_layout import UNORDERED


def note_unordered(storage: Storage) -> None:
    """Note beside the table that rows without an ordering value came. Raises StorageFailed."""
    if not has_unordered(storage):
        storage.put(UNORDERED.path, b"1")


def has_unordered(storage: Storage) -> bool:
    """Whether `note_unordered` was ever called for the table. Raises StorageFailed."""
    return storage.info(UNORDERED.path) is not None
