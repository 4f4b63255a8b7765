"""Whether the temporary files of tests fit into memory."""

from __future__ import annotations

import os
from pathlib import Path

MEMORY = Path("/dev/shm")
_FREE_BYTES_MIN = 2 << 30


def has_room(directory: Path) -> bool:
    """Check whether tests may put their files there: they write some hundred megabytes, and start
    programs.
    """
    if not os.access(directory, os.W_OK):
        return False
    room = os.statvfs(directory)
    return not room.f_flag & os.ST_NOEXEC and room.f_bavail * room.f_frsize >= _FREE_BYTES_MIN
