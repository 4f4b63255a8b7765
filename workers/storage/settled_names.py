"""Which names of a directory tree are on the disk for good, as far as this process knows.

A name that stands there may have been made by a process that was killed before it synced the
directory. Whoever writes below it, or goes by what it stands for, would be promised what a loss of
power takes away: so each process syncs the directory once, the first time it relies on the name.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_NAMES_MAX: Final = 20_000
"""When so many are known all are forgotten: they are synced once more, no harm."""


class SettledNames:
    """The names of one directory that are on the disk. Thread-safe: what threads learn at once they
    may learn twice.
    """

    def __init__(self) -> None:
        self._inodes: dict[Path, int] = {}

    def make_directory(self, directory: Path, root: Path) -> None:
        """Make the directory where there is none. Its name and those of the directories above it
        are then on the disk, from that of `root` on, or from further up where those had to be made.
        """
        inode = _inode_of_directory(directory)
        if inode is not None and self._inodes.get(directory) == inode:
            return
        if inode is None or (directory != root and directory.is_relative_to(root)):
            self.make_directory(directory.parent, root)
        if inode is None:
            directory.mkdir(exist_ok=True)
            sync_directory(directory.parent)
            self._note(directory)
        elif directory.is_relative_to(root):
            # Above the table there may be what nobody here may read; its owner made the root then.
            with suppress(PermissionError):
                self._sync_with_its_like(directory)

    def hold(self, file: Path) -> None:
        """See that the name of an existing file is on the disk. Raises FileNotFoundError."""
        inode = file.stat().st_ino
        if self._inodes.get(file) != inode:
            sync_directory(file.parent)
            self._note(file)

    def _sync_with_its_like(self, directory: Path) -> None:
        """A table has thousands of partitions: one sync settles all that stand there."""
        with os.scandir(directory.parent) as listed:
            inodes = {Path(name.path): name.inode() for name in listed if name.is_dir()}
        sync_directory(directory.parent)
        if len(inodes) + len(self._inodes) <= _NAMES_MAX:
            self._inodes |= inodes
        self._note(directory)

    def _note(self, path: Path) -> None:
        if len(self._inodes) >= _NAMES_MAX:
            self._inodes.clear()
        self._inodes[path] = path.stat().st_ino


def sync_directory(directory: Path) -> None:
    """Its names are on the disk when this returns."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _inode_of_directory(path: Path) -> int | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino if stat.S_ISDIR(status.st_mode) else None
