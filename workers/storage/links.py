"""No link inside a table is followed: whoever may write into one table could otherwise lead reads,
writes and deletes into another (threats T1, T3). A table's own directory may be a link; where it
leads is settled by whoever opens the table.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Final

from workers.errors import StorageFailed

_DIRECTORIES_MAX: Final = 20_000
"""When so many are known all are forgotten: they are looked at once more."""


class PlainDirectories:
    """Which directories below `root` are none that a link leads to. Thread-safe: what threads learn
    at once they may learn twice.
    """

    def __init__(self, root: str) -> None:
        self._prefix = f"{root.rstrip('/')}/"
        self._known: set[str] = {""}

    def check(self, directory: str, *, is_anew: bool = False) -> None:
        """Refuse, as StorageFailed, a `directory`, relative to the root, that is a link or lies in
        one.

        `is_anew`: looks again at what was known, as before something is deleted there.
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
                return  # What is not there, or cannot be looked at, leads nowhere.
            if stat.S_ISLNK(mode):
                raise _linked(path)
            if len(self._known) >= _DIRECTORIES_MAX:
                self._known = {""}
            self._known.add(path)


def without_links(directory: str, entries: Iterable[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    """The entries themselves. Raises StorageFailed where one is a link: rows that it hides or shows
    twice would be missed by nobody.
    """
    listed = list(entries)
    for entry in listed:
        if entry.is_symlink():
            raise _linked(f"{directory}/{entry.name}" if directory else entry.name)
    return listed


def refuse_link(path: Path) -> None:
    """Refuse, as StorageFailed, a link at `path`."""
    if path.is_symlink():
        raise _linked(str(path))


def open_unlinked(path: str) -> IO[bytes]:
    """To read. Raises OSError, and where the name is a link too."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW))


def _linked(path: str) -> StorageFailed:
    return StorageFailed(
        "a link stands inside the table, and is not followed; remove it", path=path
    )
