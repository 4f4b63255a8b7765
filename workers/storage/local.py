"""A table in a directory. Survives SIGKILL at any moment, and power loss for what was acknowledged.

put-if-absent is temporary file, fsync, link, fsync of the directory. replace-if-match is in
`swap.py`. Names that start with `.sluice-` and `tmp-`, `swap-` or `cas-` are never listed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import IO, TypeVar

from workers.durability import Durability
from workers.errors import (
    InvalidInput,
    LakehouseError,
    NotFound,
    StorageFailed,
    WriteOutcomeUnknown,
)
from workers.storage.base import FileInfo, TableCache, Tagged, join, validate_path, validate_size
from workers.storage.links import PlainDirectories, open_unlinked, without_links
from workers.storage.swap import LEGACY_PREFIX, PREFIX, Swap
from workers.storage.synced_directories import SyncedDirectories, sync_directory
from workers.storage.timeline_files import TimelineFiles, entry_info
from workers.table_layout import TIMELINE

TEMPORARY_PREFIX = ".sluice-tmp-"
_READ_BYTES = 1 << 20
_OURS = (TEMPORARY_PREFIX, PREFIX, LEGACY_PREFIX)

_One = TypeVar("_One")
_Answer = TypeVar("_Answer")


class LocalStorage:
    """The storage port over the directory `root`, made by the first write. Thread-safe.

    Reading and listing raise StorageFailed; changes that, or WriteOutcomeUnknown when only the sync
    of a directory failed.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()
        self._prefix = f"{str(self._root).rstrip('/')}/"
        self._plain = PlainDirectories(str(self._root))
        self._remembered = TableCache.of(self._root)
        self._timeline = self._remembered.of_kind(TimelineFiles)
        self._settled = self._remembered.of_kind(SyncedDirectories)

    @property
    def location(self) -> str:
        """The directory as an absolute path; links in it are not resolved."""
        return str(self._root)

    @property
    def cache(self) -> TableCache:
        """Shared by all storages of this process for the same absolute path."""
        return self._remembered

    @property
    def appends_in_place(self) -> bool:
        """True: only the new bytes are written."""
        return True

    def _path(self, path: str) -> Path:
        self._plain.check(validate_path(path).rpartition("/")[0])
        return self._root / path if path else self._root

    def _name(self, path: str) -> str:
        """Return the absolute path as text. Reads need it so often that making a Path would cost
        more than the rest.
        """
        self._plain.check(validate_path(path).rpartition("/")[0])
        return self._prefix + path

    def _directory(self, path: str) -> str:
        """Return the absolute path of a directory to list, as text."""
        self._plain.check(validate_path(path))
        return self._prefix + path

    @property
    def is_local(self) -> bool:
        """True, as far as this process can see."""
        return True

    @property
    def files_at_once(self) -> int:
        """Always 1, because all files share a disk."""
        return 1

    @property
    def deletes_at_once(self) -> int:
        """Always 1, because each file is a system call."""
        return 1

    def at_once(self, call: Callable[[_One], _Answer], many: Iterable[_One]) -> list[_Answer]:
        """Call for each element in order, in this thread; nothing runs after the first error."""
        return [call(element) for element in many]

    def read(self, path: str) -> bytes:
        """Return all bytes of the file. Raises NotFound."""
        with _translate_errors(path):
            return _content(self._name(path))

    def read_listed(self, path: str) -> bytes:
        """Read a file; small completed files of the timeline are kept while listings show them."""
        directory, _, name = path.rpartition("/")
        if directory != TIMELINE.path:
            return self.read(path)
        content = self._timeline.content(name)
        if content is None:
            content = self.read(path)
            self._timeline.remember(self._path(path), content)
        return content

    def read_tagged(self, path: str) -> Tagged:
        """Return the content with its SHA-256 in hex, after a decided replacement. Raises
        NotFound.
        """
        with _translate_errors(path):
            Swap(self._path(path)).settle()
        content = self.read(path)
        return Tagged(content, _tag(content))

    def info(self, path: str) -> FileInfo | None:
        """Return the size and time of a file or a directory, or None if there is none."""
        try:
            with _translate_errors(path):
                status = os.stat(self._name(path))
        except NotFound:
            return None
        return FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)

    def list_files(self, directory: str) -> Sequence[FileInfo]:
        """Return the files, without temporary files, and without files deleted during the
        listing.
        """
        if directory == TIMELINE.path:
            return self._timeline_files()
        return [
            info
            for entry in self._entries(directory)
            if entry.is_file() and (info := entry_info(directory, entry))
        ]

    def _timeline_files(self) -> Sequence[FileInfo]:
        try:
            with _translate_errors(TIMELINE.path):
                directory = Path(self._directory(TIMELINE.path))
                return self._timeline.list_files(directory, ignoring=_OURS)
        except NotFound:
            return ()

    def list_names(self, directory: str) -> list[str]:
        """Return the names that `list_files` lists, without reading the metadata of each file."""
        try:
            with _translate_errors(directory), os.scandir(self._directory(directory)) as entries:
                files = [entry for entry in without_links(directory, entries) if entry.is_file()]
        except NotFound:
            return []
        return [file.name for file in files if not file.name.startswith(_OURS)]

    def list_directories(self, directory: str) -> list[str]:
        """Return sorted paths without the directories of replacements (`swap.py`)."""
        return [join(directory, entry.name) for entry in self._entries(directory) if entry.is_dir()]

    def list_tree(self, directory: str) -> list[FileInfo]:
        """Return files sorted by path. Files may be added or deleted during the listing."""
        files = [*self.list_files(directory)]
        for child in self.list_directories(directory):
            files.extend(self.list_tree(child))
        return sorted(files, key=lambda info: info.path)

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with _translate_errors(directory), os.scandir(self._directory(directory)) as entries:
                listed = without_links(directory, entries)
        except NotFound:
            return []
        visible = [entry for entry in listed if not entry.name.startswith(_OURS)]
        return sorted(visible, key=attrgetter("name"))

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        """Write and rename a temporary file, which is synced first if it must be durable."""
        with _translate_errors(path):
            target = self._prepare_parent(path)
            is_durable = durability is Durability.DURABLE
            swap = Swap(target)
            if not swap.is_begun():
                os.replace(_write_temporary(target, content, is_durable=is_durable), target)
            # A replacement that began since then may not have seen the renamed file.
            is_swapped = swap.is_begun()
            if is_swapped:
                swap.put(lambda proposal: _write_new(proposal, content, is_durable=is_durable))
        with _translate_errors(path, WriteOutcomeUnknown):
            if is_durable:
                sync_directory(target.parent)
            if is_durable and is_swapped:
                swap.sync()

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """Link a synced temporary file. The name is durable even if the result is False."""
        with _translate_errors(path):
            target = self._prepare_parent(path)
            is_new = _create_empty(target) if not content else _link_new(target, content)
            if not is_new:
                with suppress(FileNotFoundError):  # It is gone again.
                    self._settled.hold(target)  # The caller goes by what is there.
                return False
        with _translate_errors(path, WriteOutcomeUnknown):
            sync_directory(target.parent)
        return True

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        """Create the files, then sync each directory once."""
        changed: dict[Path, str] = {}
        for path in paths:
            with _translate_errors(path):
                target = self._path(path)
                if target.parent not in changed:
                    self._prepare_parent(path)
                is_new = _create_empty(target)
                if is_exclusive and not changed and not is_new:
                    return False
                changed[target.parent] = path
        for directory, path in changed.items():
            with _translate_errors(path, WriteOutcomeUnknown):
                sync_directory(directory)
        return True

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        """Replace by a swap, in which a stopped process blocks no other. Tags are SHA-256 in
        hex.
        """
        with _translate_errors(path):
            target = self._prepare_parent(path)
            swap = Swap(target)
            is_replaced = swap.replace(
                lambda: target.exists() and _tag(_content(target)) == tag,
                lambda proposal: _write_new(proposal, content),
            )
            if not is_replaced:
                return None
        with _translate_errors(path, WriteOutcomeUnknown):
            if durability is Durability.DURABLE:
                sync_directory(target.parent)
                swap.sync()
        return _tag(content)

    def append(self, path: str, content: bytes) -> None:
        """Append the bytes and sync them, and the name of a new file."""
        with _translate_errors(path):
            target = self._prepare_parent(path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
            descriptor = os.open(target, flags, 0o644)
            try:
                _write_all(descriptor, content)
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
            self._settled.hold(target)

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        """Open a file that is visible while it is written, and stays if the block raises. Raises
        InvalidInput.
        """
        with _translate_errors(path):
            target = self._prepare_parent(path)
            is_durable = durability is Durability.DURABLE
            try:
                stream = target.open("xb")
            except FileExistsError as error:
                raise InvalidInput("data file exists already", path=path) from error
            with stream:
                yield stream
                stream.flush()
                if is_durable:
                    os.fsync(stream.fileno())
            if is_durable:
                sync_directory(target.parent)

    def open_data(self, path: str) -> IO[bytes]:
        """Open a file that the caller closes. Raises NotFound."""
        with _translate_errors(path):
            return open_unlinked(self._name(path))

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        """Delete the file and the versions that `swap.py` recorded for it."""
        self._plain.check(validate_path(path).rpartition("/")[0], is_anew=True)
        target = self._path(path)
        with suppress(NotFound), _translate_errors(path):
            target.unlink()
            Swap(target).discard()
            if durability is Durability.DURABLE:
                sync_directory(target.parent)

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete file by file in this order, up to the first failure."""
        for path in paths:
            self.delete(path)

    def delete_tree(self, directory: str) -> None:
        """Delete without a sync: a power loss may restore parts. Raises InvalidInput for the
        root.
        """
        if not directory:
            raise InvalidInput("refusing to delete the whole table", location=self.location)
        self._plain.check(validate_path(directory), is_anew=True)
        with suppress(NotFound), _translate_errors(directory):
            shutil.rmtree(self._path(directory))

    def _prepare_parent(self, path: str) -> Path:
        target = self._path(path)
        self._settled.make_directory(target.parent, self._root)
        return target


@contextmanager
def _translate_errors(path: str, error: type[LakehouseError] = StorageFailed) -> Iterator[None]:
    """Translate the system's errors into the port's `error`, which states the certain effect."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as absent:
        raise NotFound("no such file", path=path) from absent
    except OSError as failed:
        reason = failed.strerror or str(failed)
        raise error("storage failed", path=path, reason=reason) from failed


def _content(path: str | Path) -> bytes:
    """Read with few system calls, which are slow among threads; `Path.read_bytes` makes twice as
    many.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        size = validate_size(os.fstat(descriptor).st_size, path) + 1
        content = os.read(descriptor, size)
        if len(content) == size - 1:
            return content
        parts = [content]  # It grows, or is more than the system reads at once.
        while parts[-1]:
            parts.append(os.read(descriptor, _READ_BYTES))
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _create_empty(target: Path) -> bool:
    """Create an empty file, which is whole as soon as it exists."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return False
    return True


def _link_new(target: Path, content: bytes) -> bool:
    if target.exists():
        return False
    temporary = _write_temporary(target, content)
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def _write_temporary(target: Path, content: bytes, *, is_durable: bool = True) -> Path:
    temporary = target.with_name(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
    _write_new(temporary, content, is_durable=is_durable)
    return temporary


def _write_new(file: Path, content: bytes, *, is_durable: bool = True) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        _write_all(descriptor, content)
        # An empty file has nothing but its name, which the directory's sync keeps.
        if content and is_durable:
            os.fsync(descriptor)
    except OSError:  # Mostly no space is left, and half a file is useless.
        with suppress(OSError):
            file.unlink()
        raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
