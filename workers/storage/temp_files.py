"""Temporary files of writes that did not end, because the process was killed or the disk was full.

No listing shows them, no reader sees them, and they are never of use again.
"""

from __future__ import annotations

import os
from pathlib import Path

from workers.storage.base import FileInfo, Storage
from workers.storage.local import TEMPORARY_PREFIX, LocalStorage
from workers.storage.swap import LEGACY_PREFIX, PREFIX, PROPOSALS_KEPT_S

KEPT_MS = 3_600_000
"""Younger ones may belong to a process that sleeps."""


def find_stale_temp_files(storage: Storage, now_ms: int, *, below: str = "") -> list[FileInfo]:
    """Return the unfinished files that are too old to have an owner, sorted by path. A bucket has
    none: its objects appear whole.
    """
    if not isinstance(storage, LocalStorage):
        return []
    root = Path(storage.location)
    abandoned = []
    for directory, _, names in os.walk(root / below):
        is_swap = os.path.basename(directory).startswith(PREFIX)
        kept_ms = PROPOSALS_KEPT_S * 1000 if is_swap else KEPT_MS
        for name in names:
            is_proposal = is_swap and not name.isdecimal()
            if not (is_proposal or name.startswith((TEMPORARY_PREFIX, LEGACY_PREFIX))):
                continue
            info = _info(root, Path(directory, name))
            if info is not None and now_ms - info.modified_ms > kept_ms:
                abandoned.append(info)
    return sorted(abandoned, key=lambda info: info.path)


def _info(root: Path, file: Path) -> FileInfo | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    path = file.relative_to(root).as_posix()
    return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)
