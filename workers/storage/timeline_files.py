"""What one process knows of the files of a timeline in a directory: their sizes, and what small
completed ones hold.

They are made whole and never changed, so a file that goes by the same name and the same inode needs
no second look; one that another engine made empty may be filled yet and is looked at again. Nothing
is known but of files that the last listing found.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final
from weakref import WeakValueDictionary

from workers.storage.base import FileInfo, join

DIRECTORY: Final = ".hoodie/timeline"
_SETTLED_MS: Final = 10_000
_CONTENT_BYTES_MAX: Final = 64 << 10
_CONTENTS_BYTES_MAX: Final = 8 << 20
"""Of one table; when it is reached all contents are forgotten."""


@dataclass(slots=True)
class _Known:
    inode: int
    info: FileInfo
    content: bytes | None = None


class TimelineFiles:
    """Of one directory. Thread-safe: what threads learn at once they may learn twice."""

    _shared: ClassVar[WeakValueDictionary[Path, TimelineFiles]] = WeakValueDictionary()

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._contents_bytes = 0

    @classmethod
    def of(cls, root: Path) -> TimelineFiles:
        """The one that all of this process share who have the table at `root` open.

        Two that open it first at the same moment may get one each.
        """
        return cls._shared.setdefault(root, cls())

    def listed(self, entries: Iterable[os.DirEntry[str]]) -> list[FileInfo]:
        """The files among the entries that the directory has now.

        Listed by every writer several times per commit, and each look at a file is a call to the
        system, which is dear among threads.
        """
        settled_ms = time.time_ns() // 1_000_000 - _SETTLED_MS
        standing, kept, found = self._known, {}, []
        for entry in entries:
            name = entry.name
            known = standing.get(name)
            if known is None or known.inode != entry.inode():
                info = entry_info(DIRECTORY, entry) if entry.is_file() else None
                if info is None:
                    continue
                known = _Known(entry.inode(), info)
            info = known.info
            found.append(info)
            if info.size or not _is_completed(name) or info.modified_ms < settled_ms:
                kept[name] = known
        self._known = kept
        return found

    def content(self, name: str) -> bytes | None:
        """What the file held that was listed last under this name; None where it was not read."""
        known = self._known.get(name)
        return known.content if known else None

    def keep(self, path: Path, content: bytes) -> None:
        """Remember what was just read there, if that was the file that was listed."""
        known = self._known.get(path.name)
        if known is None or not _is_completed(path.name) or len(content) > _CONTENT_BYTES_MAX:
            return
        try:
            found = path.stat()
        except FileNotFoundError:
            return
        if (found.st_ino, found.st_size) != (known.inode, len(content)) or not content:
            return
        if self._contents_bytes + len(content) > _CONTENTS_BYTES_MAX:
            for one in list(self._known.values()):
                one.content = None
            self._contents_bytes = 0
        known.content = content
        self._contents_bytes += len(content)


def _is_completed(name: str) -> bool:
    """By the name of both times; what a pending one holds is for whoever carries it out."""
    return "_" in name


def entry_info(directory: str, entry: os.DirEntry[str]) -> FileInfo | None:
    try:
        found = entry.stat()
    except FileNotFoundError:  # Deleted between listing and looking: it is simply not there.
        return None
    return FileInfo(join(directory, entry.name), found.st_size, found.st_mtime_ns // 1_000_000)
