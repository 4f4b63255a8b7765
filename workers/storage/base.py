"""The storage port: every effect on a table's files goes through it, so a simulator can crash each
call.

Paths are relative to the table, use `/`, and never contain `..` or an empty part; the root itself
is `""`. Every implementation guarantees that what a call wrote is durable when it returns, unless
the caller asks for less; `put` and `put_if_absent` are all or nothing for readers; a conditional
write has exactly one winner; deleting an absent file succeeds. Where it cannot determine whether a
write happened it raises WriteOutcomeUnknown.

An answer may be lost although the write took effect. If each write carries a nonce, reading back
shows whose content it is: `put_if_absent_known`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, ClassVar, Final, Protocol, TypeVar, cast, runtime_checkable
from weakref import WeakValueDictionary

from workers.durability import Durability
from workers.errors import InvalidInput, NotFound, StorageFailed, WriteOutcomeUnknown
from workers.table_layout import HOODIE

HOODIE_BYTES_MAX: Final = 256 << 20
"""The limit for a file below `.hoodie` that is read in one call."""
FILE_BYTES_MAX: Final = 4 << 30
"""The limit for any other file that is read in one call, such as a log file."""

_One = TypeVar("_One")
_Answer = TypeVar("_Answer")
_Kind = TypeVar("_Kind")
_ATTEMPTS_MAX = 3


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as a listing shows it. Sizes are bytes, times milliseconds since the epoch."""

    path: str
    """Relative to the table."""
    size: int
    modified_ms: int

    @property
    def name(self) -> str:
        """The last part of `path`."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Tagged:
    """A file's content, and the version that it was read in."""

    content: bytes
    tag: str
    """Changes with every replacement; hand it to `replace_if_match`."""


@runtime_checkable
class Storage(Protocol):
    """One table's files. The module's docstring lists the guarantees; every call may raise
    StorageFailed, and a path that could leave the table raises InvalidInput.
    """

    @property
    def location(self) -> str:
        """The table's absolute path or URL, without a trailing slash."""

    @property
    def cache(self) -> TableCache:
        """The cache of values that this process has derived from files of the table."""

    @property
    def appends_in_place(self) -> bool:
        """True if the cost of appending is independent of the file's size."""

    @property
    def is_local(self) -> bool:
        """True if files are on this machine: then reading the metadata of a file costs no request,
        and writing takes the time of a core, not of requests.
        """

    @property
    def files_at_once(self) -> int:
        """The best number of data files to write at the same time; each may take memory."""

    @property
    def deletes_at_once(self) -> int:
        """The number of files that a single request deletes."""

    def at_once(self, call: Callable[[_One], _Answer], many: Iterable[_One]) -> list[_Answer]:
        """Return the results of `call` for each element, in order. Several calls run at the same
        time where answers are slow. Raises the first error; other calls may have run by then.
        """

    def read(self, path: str) -> bytes:
        """Return the whole content of a file. Raises NotFound."""

    def read_listed(self, path: str) -> bytes:
        """Read a listed file of the timeline; the content may come from memory, as of the last
        listing.

        Raises NotFound.
        """

    def read_tagged(self, path: str) -> Tagged:
        """Return the whole content of a file, and the tag on which it can be replaced. Raises
        NotFound.
        """

    def info(self, path: str) -> FileInfo | None:
        """Return size and time of the file, or None if there is none."""

    def list_files(self, directory: str) -> Sequence[FileInfo]:
        """Return files directly inside, sorted by name; an absent directory is an empty one."""

    def list_names(self, directory: str) -> list[str]:
        """Return the names of the files that `list_files` lists, in any order, without their
        metadata.
        """

    def list_directories(self, directory: str) -> list[str]:
        """Return the paths of the directories directly inside, sorted; an absent directory is an
        empty one.
        """

    def list_tree(self, directory: str) -> list[FileInfo]:
        """Return the files at any depth below, sorted by path."""

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        """Create or replace atomically."""

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """Create the file if there is none, and return True if this call created it: exactly one of
        several concurrent callers gets True.
        """

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        """Create files of no bytes where there are none; they are durable when it returns, even if
        another process created them. A crash may leave some of them.

        With `is_exclusive` the first is created before the others, and nothing is done where it
        exists already: exactly one of several concurrent callers gets True.
        """

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        """Replace the file if it still has `tag`, and return the new tag, or None if it was
        changed.
        """

    def append(self, path: str, content: bytes) -> None:
        """Add at the end, creating the file; a crash may leave a prefix of `content`."""

    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> AbstractContextManager[IO[bytes]]:
        """Open a new data file, written sequentially, durable when the block ends without error.

        Raises InvalidInput when the path exists: data files are written once.
        """

    def open_data(self, path: str) -> IO[bytes]:
        """Open a seekable input. Raises NotFound."""

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        """Remove the file. An absent file is not an error."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete the files in this order, or all with a few requests; a crash may leave any of
        them.
        """

    def delete_tree(self, directory: str) -> None:
        """Delete the directory and all below it; a crash may leave any of it, and an absent
        directory is not an error.

        Raises InvalidInput for the root, `""`.
        """


def validate_path(path: str) -> str:
    """Return `path`. Raises InvalidInput if it could leave the table (threat T1)."""
    if path.startswith("/") or "\x00" in path or "\\" in path:
        raise InvalidInput("path is not relative to the table", path=path)
    parts = path.split("/")
    if path and ("" in parts or "." in parts or ".." in parts):
        raise InvalidInput("path has an empty or a dotted part", path=path)
    return path


def validate_size(size: int, path: str | PurePath) -> int:
    """Return `size`, the bytes of a file that is read in one call. Raises StorageFailed if it is
    too large (threat T20).
    """
    most = HOODIE_BYTES_MAX if f"/{HOODIE}/" in f"/{path}" else FILE_BYTES_MAX
    if size > most:
        raise StorageFailed("file is too large to be read at once", path=path, bytes_max=most)
    return size


def get_size(storage: Storage, path: str) -> int:
    """Return the file's size in bytes, or 0 if there is none."""
    info = storage.info(path)
    return info.size if info else 0


def join(directory: str, name: str) -> str:
    """Return the path of `name` inside `directory`, which is `""` for the table's root."""
    return f"{directory}/{name}" if directory else name


class TableCache:
    """The cache of one table's files. Thread-safe: concurrent threads may derive a value twice."""

    _shared: ClassVar[WeakValueDictionary[Hashable, TableCache]] = WeakValueDictionary()

    def __init__(self) -> None:
        self._kinds: dict[type, object] = {}

    @classmethod
    def of(cls, place: Hashable) -> TableCache:
        """Return the cache that all of this process share who have the table at `place` open.

        Two that open it first at the same moment may get one each.
        """
        return cls._shared.setdefault(place, cls())

    def of_kind(self, kind: type[_Kind]) -> _Kind:
        """Return the table's only `kind`, which is created without arguments on first use."""
        return cast(_Kind, self._kinds.get(kind) or self._kinds.setdefault(kind, kind()))


def put_if_absent_known(storage: Storage, path: str, content: bytes) -> bool:
    """Create the file, and return True if it holds `content` now, which must be unique to this
    caller.

    Raises WriteOutcomeUnknown when neither the write nor the reading back can be made to answer.
    """
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            created = storage.put_if_absent(path, content)
        except (WriteOutcomeUnknown, StorageFailed):
            current_content = _read_or_none(storage, path)
            if current_content is not None:
                return current_content == content
            if attempt == _ATTEMPTS_MAX:
                raise
        else:
            return created or storage.read(path) == content
    raise AssertionError("unreachable")


def _read_or_none(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except NotFound:
        return None
    except StorageFailed as error:
        raise WriteOutcomeUnknown("cannot read back a write", path=path) from error
