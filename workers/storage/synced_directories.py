"""Directories whose names were synced by this process, so that a loss of power keeps them.

A name may have been created by a process that was killed before it synced the directory. A writer
below it would lose to a power failure what it reported as durable. So each process syncs the
directory the first time it relies on the name.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_NAMES_MAX: Final = 20_000
"""The limit of remembered names: all are forgotten there, and synced again, which is harmless."""


class SyncedDirectories:
    """The synced names of one directory tree. Thread-safe: concurrent threads may sync a directory
    twice.
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
            # This process may not be allowed to read directories above the table; its owner made
            # the root.
            with suppress(PermissionError):
                self._sync_with_its_like(directory)

    def hold(self, file: Path) -> None:
        """Ensure that the name of an existing file is synced. Raises FileNotFoundError."""
        inode = file.stat().st_ino
        if self._inodes.get(file) != inode:
            sync_directory(file.parent)
            self._note(file)

    def _sync_with_its_like(self, directory: Path) -> None:
        """Sync a directory with its siblings: a table has thousands of partitions, and one sync is
        enough for all.
        """
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
    """Sync the names in a directory to the disk."""
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
