"""Detection, by the stamps of a directory, that no file was made, renamed or removed in it.

POSIX has every such change stamp the directory. Sluice relies on it only where the kernel of this
machine alone keeps the directory: a network or FUSE file system may report changes of other
machines late or never. It also waits for some time after a change, because a second change in the
same tick of the clock has the same stamp.
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
    """The stamps of a directory at one time. Equal marks mean equal files where `are_stamps_exact`
    and the mark `is_settled`.
    """

    device: int
    inode: int
    bytes: int
    modified_ns: int
    changed_ns: int
    """Unlike the modification time, no process can set it."""

    @classmethod
    def of(cls, directory: Path) -> DirectoryMark:
        """Return the mark of a directory as it is now. Raises FileNotFoundError."""
        status = directory.stat()
        return cls(
            status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
        )

    @property
    def is_settled(self) -> bool:
        """True if any later change will have another stamp. False as well if the clock was set
        back.
        """
        newest_ns = max(self.modified_ns, self.changed_ns)
        return time.time_ns() - newest_ns > _SETTLED_NS


def are_stamps_exact(device: int) -> bool:
    """Return True if a directory on this device has the same files while it has the same mark."""
    device_numbers = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = _MOUNTS.read_text(errors="replace")
    except OSError:  # Not Linux.
        return False
    return bool(kinds := _find_file_systems(mounts, device_numbers)) and kinds <= _OWN_KERNELS


def _find_file_systems(mounts: str, device: str) -> set[str]:
    """Return the types of the file systems on the device: the text after a lone dash (proc(5))."""
    kinds = set()
    for line in mounts.splitlines():
        about, _, kind = line.partition(" - ")
        if about.split(" ", 3)[2] == device:
            kinds.add(kind.partition(" ")[0])
    return kinds
