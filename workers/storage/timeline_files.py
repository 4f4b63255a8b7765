"""What one process knows of the files of a timeline in a directory: their sizes, and what small
completed ones hold.

They are made whole and never changed, so a file that goes by the same name and the same inode needs
no second look; one that another engine made empty may be filled yet and is looked at again. Only
files of the last listing are known, and where the directory's own mark shows that it has the same
files it is not listed again.
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
from workers.storage.directory_mark import DirectoryMark, are_stamps_exact
from workers.storage.links import without_links
from workers.table_layout import TIMELINE

_SETTLED_MS: Final = 10_000
_CONTENT_BYTES_MAX: Final = 64 << 10
_CONTENTS_BYTES_MAX: Final = 8 << 20
"""Of one table; when it is reached all contents are forgotten."""
_BY_PATH: Final = attrgetter("path")


@dataclass(slots=True)
class _Known:
    inode: int
    info: FileInfo
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Listing:
    """Changed as a whole: beside another thread's files a mark would hide some."""

    mark: DirectoryMark | None
    """The directory's, when these were all its files; None where that does not tell."""
    known: dict[str, _Known]
    """By name, without those that are to be looked at again."""
    files: tuple[FileInfo, ...]


class TimelineFiles:
    """The timeline's files in one directory. Thread-safe: what threads learn at once they may learn
    twice.
    """

    def __init__(self) -> None:
        self._last = _Listing(None, {}, ())
        self._trusted_device: int | None = None
        self._contents_bytes = 0

    def listed(self, directory: Path, *, ignoring: tuple[str, ...]) -> tuple[FileInfo, ...]:
        """The files that the directory has now, by name, without those whose names begin with
        `ignoring`.

        Listed by every writer several times per commit, and each look at a file is a call to the
        system, which is dear among threads. Raises FileNotFoundError.
        """
        mark, former = DirectoryMark.of(directory), self._last
        if mark == former.mark:
            return former.files
        is_whole_truth = mark.is_settled and self._are_stamps_exact(mark.device)
        descriptor = os.open(directory, os.O_RDONLY)  # Looks at files then start there.
        try:
            with os.scandir(descriptor) as entries:
                known, new = _looked_at(entries, former.known, ignoring)
        finally:
            os.close(descriptor)
        settled_ms = time.time_ns() // 1_000_000 - _SETTLED_MS
        unsettled = [info for info in new if not _is_settled(info, settled_ms)]
        files = _in_order(former, known, new)
        for info in unsettled:
            del known[info.name]
        self._last = _Listing(mark if is_whole_truth and not unsettled else None, known, files)
        return files

    def _are_stamps_exact(self, device: int) -> bool:
        if device == self._trusted_device:
            return True
        is_trusted = are_stamps_exact(device)
        self._trusted_device = device if is_trusted else None
        return is_trusted

    def content(self, name: str) -> bytes | None:
        """The content of the file last listed under this name; None where it was not read."""
        known = self._last.known.get(name)
        return known.content if known else None

    def keep(self, path: Path, content: bytes) -> None:
        """Remember what was just read there, if that was the file that was listed."""
        known = self._last.known.get(path.name)
        if known is None or not _is_completed(path.name) or len(content) > _CONTENT_BYTES_MAX:
            return
        try:
            status = path.stat()
        except FileNotFoundError:
            return
        if (status.st_ino, status.st_size) != (known.inode, len(content)) or not content:
            return
        if self._contents_bytes + len(content) > _CONTENTS_BYTES_MAX:
            for known_file in list(self._last.known.values()):
                known_file.content = None
            self._contents_bytes = 0
        known.content = content
        self._contents_bytes += len(content)


def _looked_at(
    entries: Iterable[os.DirEntry[str]], former_known: dict[str, _Known], ignoring: tuple[str, ...]
) -> tuple[dict[str, _Known], list[FileInfo]]:
    """What there is, by name, and what of it was not known."""
    known: dict[str, _Known] = {}
    new = []
    for entry in without_links(TIMELINE.path, entries):
        name = entry.name
        former_file = former_known.get(name)
        if former_file is not None and former_file.inode == entry.inode():
            known[name] = former_file
        elif not name.startswith(ignoring) and entry.is_file():
            info = entry_info(TIMELINE.path, entry)
            if info is not None:
                known[name] = _Known(entry.inode(), info)
                new.append(info)
    return known, new


def _in_order(
    former: _Listing, known: dict[str, _Known], new: list[FileInfo]
) -> tuple[FileInfo, ...]:
    """What was there before stands in order already."""
    stayed = former.files
    if len(stayed) != len(known) - len(new):
        stayed = tuple(info for info in stayed if _is_same(known.get(info.name), info))
    fresh = sorted(new, key=_BY_PATH)
    if stayed and fresh and fresh[0].path < stayed[-1].path:
        return tuple(sorted((*stayed, *fresh), key=_BY_PATH))
    return (*stayed, *fresh)


def _is_same(known: _Known | None, info: FileInfo) -> bool:
    return known is not None and known.info is info


def _is_settled(info: FileInfo, settled_ms: int) -> bool:
    return info.size > 0 or not _is_completed(info.name) or info.modified_ms < settled_ms


def _is_completed(name: str) -> bool:
    """By the name of both times; what a pending one holds is for whoever carries it out."""
    return "_" in name


def entry_info(directory: str, entry: os.DirEntry[str]) -> FileInfo | None:
    """Size and time of a listed file of `directory`; None when it has been deleted since."""
    try:
        status = entry.stat()
    except FileNotFoundError:  # Deleted between listing and looking: it is simply not there.
        return None
    return FileInfo(join(directory, entry.name), status.st_size, status.st_mtime_ns // 1_000_000)
