"""One cheap look at a table in a directory: has anything changed that the mirror tells of?

Everything of a table that the mirror reads between two commits lies below `.hoodie`, and a commit
is a new name there. So the stamps of that folder's files tell it, without a file being opened: some
ten calls for a quiet table.

That a folder's own stamp tells of its names is relied on where this machine's kernel alone keeps
the folder (`are_stamps_exact`: ext3, ext4, tmpfs, xfs). On every other file system (overlay, btrfs,
zfs, NFS, SMB, 9p, FUSE, whatever is no Linux) the names themselves are listed, with size and time
of the files that change in place: the calls by which a read begins, without its opening of files.
What they miss, a file of the same size and time, is found when the table is read as a whole, and
there that is soon (`is_by_names`).

No sight, so that the table is read each time: in a bucket, so soon after a file changed that
another change might have the same stamp, with thousands of files that change in place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from hashlib import sha256

from controlplane.errors import ControlPlaneError
from controlplane.tables.locations import checked_location
from controlplane.tables.models import Table
from workers.storage.timeline_files import are_stamps_exact
from workers.table_layout import DECISIONS, HOODIE, METADATA_TABLE, TIMELINE

ENTRIES_MAX = 2000
"""Of more files, such as many markers, reading the table is not much dearer."""
_SETTLED_NS = 3_000_000_000
"""Some keep whole seconds."""
_TICKS_NS = 200_000_000
"""Where this kernel keeps finer stamps, they are as fine as its clock's ticks, ten ms at most."""
_NAMES_ONLY = frozenset({TIMELINE.path, DECISIONS.path})
"""Their files are made and deleted, never changed: the folder's own stamp says it all."""
_NOT_READ = frozenset({METADATA_TABLE.path})
_BY_NAMES = "names:"
_devices: dict[int, bool] = {}


def sight_of(table: Table) -> str:
    """The same text means the same content; empty where nothing cheap tells."""
    if "://" in table.location:
        return ""
    try:
        root = checked_location(table.location)
        is_trusted = _is_trusted(os.stat(f"{root}/{HOODIE}").st_dev)
        lines = list((_lines if is_trusted else _listed)(root, HOODIE))
    except (ControlPlaneError, OSError):
        return ""  # Something went away meanwhile, or it is no table: the sync says what.
    newest_ns = max((newest for newest, _ in lines), default=0)
    if not _is_settled(newest_ns, is_trusted) or len(lines) > ENTRIES_MAX:
        return ""
    digest = sha256("\n".join(sorted(line for _, line in lines)).encode()).hexdigest()
    return digest if is_trusted else _BY_NAMES + digest[:40]


def is_by_names(sight: str) -> bool:
    """Whether it was made without stamps of folders, on a file system where they do not tell."""
    return sight.startswith(_BY_NAMES)


def _is_settled(newest_ns: int, is_trusted: bool) -> bool:
    """Whether any later change has another stamp. False as well when the clock was set back."""
    is_fine = is_trusted and newest_ns % 1_000_000_000 != 0
    wait_ns = min(_TICKS_NS, _SETTLED_NS) if is_fine else _SETTLED_NS
    return abs(time.time_ns() - newest_ns) > wait_ns


def _lines(root: str, folder: str) -> Iterator[tuple[int, str]]:
    """(newest stamp, what is known without opening it) of a folder and of what it holds."""
    yield _line(folder, os.stat(f"{root}/{folder}"))
    with os.scandir(f"{root}/{folder}") as entries:
        for number, entry in enumerate(entries):
            path = f"{folder}/{entry.name}"
            if number > ENTRIES_MAX:
                return
            if entry.is_dir(follow_symlinks=False):
                if path in _NAMES_ONLY:
                    yield _line(path, entry.stat(follow_symlinks=False))
                    history = f"{path}/history"
                    if os.path.isdir(f"{root}/{history}"):
                        yield _line(history, os.stat(f"{root}/{history}"))
                elif path not in _NOT_READ:
                    yield from _lines(root, path)
            else:
                yield _line(path, entry.stat(follow_symlinks=False))


def _listed(root: str, folder: str) -> Iterator[tuple[int, str]]:
    """The same of a file system whose folders have no stamps to rely on, nor its files numbers."""
    with os.scandir(f"{root}/{folder}") as entries:
        for number, entry in enumerate(entries):
            path = f"{folder}/{entry.name}"
            if number > ENTRIES_MAX:
                return
            if not entry.is_dir(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield status.st_mtime_ns, f"{path} {status.st_size} {status.st_mtime_ns}"
            elif path in _NAMES_ONLY:
                yield 0, _names(root, path)
                if os.path.isdir(f"{root}/{path}/history"):
                    yield 0, _names(root, f"{path}/history")
            elif path not in _NOT_READ:
                yield 0, path
                yield from _listed(root, path)


def _names(root: str, folder: str) -> str:
    with os.scandir(f"{root}/{folder}") as entries:
        names = "\n".join(sorted(entry.name for entry in entries))
    return f"{folder} {sha256(names.encode(errors='surrogateescape')).hexdigest()}"


def _line(path: str, status: os.stat_result) -> tuple[int, str]:
    stamps = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return max(status.st_mtime_ns, status.st_ctime_ns), f"{path} {stamps}"


def _is_trusted(device: int) -> bool:
    if device not in _devices:
        _devices[device] = are_stamps_exact(device)
    return _devices[device]
