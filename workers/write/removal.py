"""Remove a table that was created for one load and received nothing from it."""

from __future__ import annotations

from workers.concurrency.lock_takeover import table_lock
from workers.options.write_options import WriteOptions
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.table_layout import PROPERTIES, PROPERTIES_BACKUP


def remove_unwritten(table: Table, options: WriteOptions) -> bool:
    """Remove all files of a table that has no rows and no pending instant. Return False, and remove
    nothing, for any other table.

    Writers begin and commit under the table lock, so none can do either in between. A writer that
    opened the table before finds no properties when it commits, and raises TableNotFound.

    Raises LockTimeout, StorageFailed.
    """
    storage = table.storage
    with table_lock(table, options).hold() as lease:
        if FileSystemView.load(table).slices or list(table.timeline().pending()):
            return False
        lease.confirm()
        storage.delete_many([PROPERTIES.path, PROPERTIES_BACKUP.path])
        for directory in storage.list_directories(""):
            storage.delete_tree(directory)
        storage.delete_many([file.path for file in storage.list_files("")])
    return True
