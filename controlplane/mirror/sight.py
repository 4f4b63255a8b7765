"""One cheap look at a table in a directory: has anything changed that the mirror tells of?

Everything of a table that the mirror reads between two commits lies below `.hoodie`, and a commit
is a new name there. So the stamps of that folder's files tell it, without a file being opened: some
ten calls for a quiet table. Where stamps do not tell (a bucket, a network file system, a change
less than three seconds old) there is no sight, and the table is read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from controlplane.errors import ControlPlaneError
from controlplane.tables.locations import checked_location
from controlplane.tables.models import Table
from workers.storage.directory_mark import stamps_tell

ENTRIES_MAX = 2000
"""Of more files, such as many markers, reading the table is not much dearer."""
_SETTLED_NS = 3_000_000_000
_NAMES_ONLY = frozenset({".hoodie/timeline", ".hoodie/.sluice/decision"})
"""Their files are made and deleted, never changed: the folder's own stamp says it all."""
_NOT_READ = frozenset({".hoodie/metadata"})
_devices: dict[int, bool] = {}


def sight_of(table: Table) -> str:
    """The same text means the same content; empty where stamps do not tell."""
    if "://" in table.location:
        return ""
    try:
        root = Path(checked_location(table.location))
        if not _is_trusted((root / ".hoodie").stat().st_dev):
            return ""
        lines = list(_lines(root, ".hoodie"))
    except (ControlPlaneError, OSError):
        return ""  # Something went away meanwhile, or it is no table: the sync says what.
    newest_ns = max(newest for newest, _ in lines)
    is_settled = abs(time.time_ns() - newest_ns) > _SETTLED_NS
    if not is_settled or len(lines) > ENTRIES_MAX:
        return ""
    return sha256("\n".join(sorted(line for _, line in lines)).encode()).hexdigest()


def _lines(root: Path, folder: str) -> Iterator[tuple[int, str]]:
    """(newest stamp, what is known without opening it) of a folder and of what it holds."""
    yield _line(folder, (root / folder).stat())
    with os.scandir(root / folder) as entries:
        for number, entry in enumerate(entries):
            path = f"{folder}/{entry.name}"
            if number > ENTRIES_MAX:
                return
            if entry.is_dir(follow_symlinks=False):
                if path in _NAMES_ONLY:
                    yield _line(path, entry.stat(follow_symlinks=False))
                    history = root / path / "history"
                    if history.is_dir():
                        yield _line(f"{path}/history", history.stat())
                elif path not in _NOT_READ:
                    yield from _lines(root, path)
            else:
                yield _line(path, entry.stat(follow_symlinks=False))


def _line(path: str, found: os.stat_result) -> tuple[int, str]:
    stamps = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return max(found.st_mtime_ns, found.st_ctime_ns), f"{path} {stamps}"


def _is_trusted(device: int) -> bool:
    if device not in _devices:
        _devices[device] = stamps_tell(device)
    return _devices[device]
