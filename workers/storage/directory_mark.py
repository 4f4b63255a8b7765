"""Telling by one look at a directory that no file was made, renamed or removed in it.

POSIX has every such change stamp the directory. That is relied on where this machine's kernel alone
keeps the directory: a network or FUSE file system may tell of others' changes late or never. And
only some time after a change: a second one in the same tick of the clock has the same stamp.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_OWN_KERNELS: Final = frozenset({"ext3", "ext4", "tmpfs", "xfs"})
_SETTLED_NS: Final = 3_000_000_000
"""Some keep whole seconds."""


@dataclass(frozen=True, slots=True)
class DirectoryMark:
    """A directory's stamps at one look. Equal marks mean equal files where `are_stamps_exact`
    and the mark `is_settled`.
    """

    device: int
    inode: int
    bytes: int
    modified_ns: int
    changed_ns: int
    """Unlike the other, nobody can set it."""

    @classmethod
    def of(cls, directory: Path) -> DirectoryMark:
        """The mark of a directory as it is now. Raises FileNotFoundError."""
        status = directory.stat()
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )

    @property
    def is_settled(self) -> bool:
        """Any later change will have another stamp. False as well when the clock was set back."""
        newest_ns = max(self.modified_ns, self.changed_ns)
        return time.time_ns() - newest_ns > _SETTLED_NS


def are_stamps_exact(device: int) -> bool:
    """Whether a directory on this device has the same files while it has the same mark."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = _MOUNTS.read_text(errors="replace")
    except OSError:  # Not Linux.
        return False
    return bool(kinds := _kinds_of(mounts, wanted)) and kinds <= _OWN_KERNELS


def _kinds_of(mounts: str, device: str) -> set[str]:
    """The file system's name stands behind a lone dash (proc(5))."""
    kinds = set()
    for line in mounts.splitlines():
        about, _, kind = line.partition(" - ")
        if about.split(" ", 3)[2] == device:
            kinds.add(kind.partition(" ")[0])
    return kinds
