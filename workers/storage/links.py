"""Rejection of links inside a table. No link there is followed: a user who may write into one table
could otherwise lead reads, writes and deletes into another (threats T1, T3). A table's own
directory may be a link; the code that opens the table decides where it leads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final

from workers.errors import StorageFailed

_DIRECTORIES_MAX: Final = 20_000
"""The limit of remembered directories: all are forgotten there, and are checked again."""


class PlainDirectories:
    """The directories below `root` that no link leads to. Thread-safe: concurrent threads may check
    a directory twice.
    """

    def __init__(self, root: str) -> None:
        self._prefix = f"{root.rstrip('/')}/"
        self._known: set[str] = {""}

    def check(self, directory: str, *, is_anew: bool = False) -> None:
        """Check that a `directory`, relative to the root, is not a link and not below a link.

        Raises StorageFailed if it is. With `is_anew` a directory that passed before is checked
        again, as before a delete in it.
        """
        if directory in self._known and not is_anew:
            return
        parts = directory.split("/") if directory else []
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            if path in self._known and not is_anew:
                continue
            try:
                mode = os.lstat(self._prefix + path).st_mode
            except OSError:
                return  # An absent or unreadable path leads nowhere.
            if stat.S_ISLNK(mode):
                raise _build_link_error(path)
            if len(self._known) >= _DIRECTORIES_MAX:
                self._known = {""}
            self._known.add(path)


def without_links(directory: str, entries: Iterable[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    """Return the entries. Raises StorageFailed if one is a link: it could hide rows or repeat them
    unnoticed.
    """
    listed = list(entries)
    for entry in listed:
        if entry.is_symlink():
            raise _build_link_error(f"{directory}/{entry.name}" if directory else entry.name)
    return listed


def reject_link(path: Path) -> None:
    """Reject a link at `path`. Raises StorageFailed if it is one."""
    if path.is_symlink():
        raise _build_link_error(str(path))


def open_unlinked(path: str) -> IO[bytes]:
    """Open a file to read. Raises OSError, also if the name is a link."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW))


def _build_link_error(path: str) -> StorageFailed:
    return StorageFailed("link inside the table is not followed; remove it", path=path)
