"""A table that was made for one load and got nothing of it goes again."""

from __future__ import annotations

from workers.table.table import Table
from workers.table.view import FileSystemView


def remove_unwritten(table: Table) -> bool:
    """Remove all files of a table that has no rows and no write under way; False, with nothing
    removed, for any other one.
    """
    view = FileSystemView.load(table)
    if view.slices or list(table.timeline().pending()):
        return False
    storage = table.storage
    for directory in storage.list_directories(""):
        storage.delete_tree(directory)
    storage.delete_many([file.path for file in storage.list_files("")])
    return True
