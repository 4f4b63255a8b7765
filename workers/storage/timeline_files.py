"""Metadata of the files of a timeline in a directory, and contents of small completed ones, as one
process has read them.

These files are created whole and never changed, so a file with the same name and the same inode
needs no second check; an empty one of another engine may be filled later and is checked again. Only
files of the last listing are known. Where the directory's own mark shows that it has the same files
it is not listed again.

POSIX has every creation, renaming and removal of a file stamp its directory. Sluice relies on these
stamps only where the kernel of this machine alone keeps the directory: a network or FUSE file
system may report changes of other machines late or never. It also waits for some time after a
change, because a second change in the same tick of the clock has the same stamp.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final

from workers.storage.base import FileInfo, join
from workers.storage.links import without_links
from workers.table_layout import TIMELINE

_MOUNTS: Final = Path("/proc/self/mountinfo")
_OWN_KERNELS: Final = frozenset({"ext3", "ext4", "tmpfs", "xfs"})
_STAMPS_SETTLED_NS: Final = 3_000_000_000
"""Some keep whole seconds."""
_SETTLED_MS: Final = 10_000
_CONTENT_BYTES_MAX: Final = 64 << 10
_CONTENTS_BYTES_MAX: Final = 8 << 20
"""The limit for one table: all contents are forgotten when it is reached."""
_BY_PATH: Final = attrgetter("path")


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
        return time.time_ns() - newest_ns > _STAMPS_SETTLED_NS


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


@dataclass(slots=True)
class _Known:
    inode: int
    info: FileInfo
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Listing:
    """A listing, replaced as a whole: with the files of another thread a mark would hide some."""

    mark: DirectoryMark | None
    """The directory's mark when these were all its files; None if it does not prove that."""
    file_by_name: dict[str, _Known]
    """The files by name, without those that must be checked again."""
    files: tuple[FileInfo, ...]


class TimelineFiles:
    """The timeline's files in one directory. Thread-safe: concurrent threads may read a file
    twice.
    """

    def __init__(self) -> None:
        self._last = _Listing(None, {}, ())
        self._trusted_device: int | None = None
        self._contents_bytes = 0

    def list_files(self, directory: Path, *, ignoring: tuple[str, ...]) -> tuple[FileInfo, ...]:
        """Return the current files of the directory by name, without those whose names begin with
        `ignoring`.

        Every writer lists several times per commit, and each `stat` of a file is a system call,
        which is slow among threads. Raises FileNotFoundError.
        """
        mark, former = DirectoryMark.of(directory), self._last
        if mark == former.mark:
            return former.files
        is_whole_truth = mark.is_settled and self._are_stamps_exact(mark.device)
        # The metadata of files is then read relative to it.
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            with os.scandir(descriptor) as entries:
                file_by_name, new = _scan_entries(entries, former.file_by_name, ignoring)
        finally:
            os.close(descriptor)
        settled_ms = time.time_ns() // 1_000_000 - _SETTLED_MS
        unsettled = [info for info in new if not _is_settled(info, settled_ms)]
        files = _in_order(former, file_by_name, new)
        for info in unsettled:
            del file_by_name[info.name]
        self._last = _Listing(
            mark if is_whole_truth and not unsettled else None, file_by_name, files
        )
        return files

    def _are_stamps_exact(self, device: int) -> bool:
        if device == self._trusted_device:
            return True
        is_trusted = are_stamps_exact(device)
        self._trusted_device = device if is_trusted else None
        return is_trusted

    def content(self, name: str) -> bytes | None:
        """Return the content of the file last listed under this name; None where it was not
        read.
        """
        file = self._last.file_by_name.get(name)
        return file.content if file else None

    def remember(self, path: Path, content: bytes) -> None:
        """Remember the content that was just read, if it is the file that was listed."""
        file = self._last.file_by_name.get(path.name)
        if file is None or not _is_completed(path.name) or len(content) > _CONTENT_BYTES_MAX:
            return
        try:
            status = path.stat()
        except FileNotFoundError:
            return
        if (status.st_ino, status.st_size) != (file.inode, len(content)) or not content:
            return
        if self._contents_bytes + len(content) > _CONTENTS_BYTES_MAX:
            for file_to_forget in list(self._last.file_by_name.values()):
                file_to_forget.content = None
            self._contents_bytes = 0
        file.content = content
        self._contents_bytes += len(content)


def _scan_entries(
    entries: Iterable[os.DirEntry[str]], former_known: dict[str, _Known], ignoring: tuple[str, ...]
) -> tuple[dict[str, _Known], list[FileInfo]]:
    """Return the files by name, and the metadata of those that were not known."""
    file_by_name: dict[str, _Known] = {}
    new = []
    for entry in without_links(TIMELINE.path, entries):
        name = entry.name
        former_file = former_known.get(name)
        if former_file is not None and former_file.inode == entry.inode():
            file_by_name[name] = former_file
        elif not name.startswith(ignoring) and entry.is_file():
            info = entry_info(TIMELINE.path, entry)
            if info is not None:
                file_by_name[name] = _Known(entry.inode(), info)
                new.append(info)
    return file_by_name, new


def _in_order(
    former: _Listing, file_by_name: dict[str, _Known], new: list[FileInfo]
) -> tuple[FileInfo, ...]:
    """Return all files in order; files that were listed before are in order already."""
    stayed = former.files
    if len(stayed) != len(file_by_name) - len(new):
        stayed = tuple(info for info in stayed if _is_same(file_by_name.get(info.name), info))
    fresh = sorted(new, key=_BY_PATH)
    if stayed and fresh and fresh[0].path < stayed[-1].path:
        return tuple(sorted((*stayed, *fresh), key=_BY_PATH))
    return (*stayed, *fresh)


def _is_same(file: _Known | None, info: FileInfo) -> bool:
    return file is not None and file.info is info


def _is_settled(info: FileInfo, settled_ms: int) -> bool:
    return info.size > 0 or not _is_completed(info.name) or info.modified_ms < settled_ms


def _is_completed(name: str) -> bool:
    """Return True for a name with both times; a pending file is for the process that executes
    it.
    """
    return "_" in name


def entry_info(directory: str, entry: os.DirEntry[str]) -> FileInfo | None:
    """Return the size and time of a listed file of `directory`; None when it has been deleted
    since.
    """
    try:
        status = entry.stat()
    except FileNotFoundError:  # Deleted between listing and looking: it is simply not there.
        return None
    return FileInfo(join(directory, entry.name), status.st_size, status.st_mtime_ns // 1_000_000)
