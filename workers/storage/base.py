"""The storage port: every effect on a table's files goes through it, so a simulator can crash each
call.

Paths are relative to the table, use `/`, and never contain `..` or an empty part; the root itself
is `""`. What an implementation owes: what a call wrote is durable when it returns, unless the
caller asks for less; `put` and `put_if_absent` are all or nothing for readers; a conditional write
has exactly one winner; deleting what is absent succeeds. Where it cannot tell whether a write
happened it raises WriteOutcomeUnknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO, Final, Protocol, TypeVar, runtime_checkable

from workers.durability import Durability
from workers.errors import InvalidInput, StorageFailed
from workers.storage.remembered import Remembered
from workers.table_layout import HOODIE

HOODIE_BYTES_MAX: Final = 256 << 20
"""Of a file below `.hoodie` that is read at once."""
FILE_BYTES_MAX: Final = 4 << 30
"""Of another one, such as a log file."""

_One = TypeVar("_One")
_Answer = TypeVar("_Answer")


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
    """One table's files. The module says what is owed; every call may raise StorageFailed, and a
    path that could leave the table raises InvalidInput.
    """

    @property
    def location(self) -> str:
        """The table's absolute path or URL, without a trailing slash."""

    @property
    def remembered(self) -> Remembered:
        """What this process has worked out from files of the table."""

    @property
    def appends_in_place(self) -> bool:
        """Whether the cost of appending is independent of the file's size."""

    @property
    def is_local(self) -> bool:
        """Whether files lie on this machine: to look at one costs no request, and to write one
        takes the time of a core and not of answers.
        """

    @property
    def files_at_once(self) -> int:
        """How many data files are best written at the same time; each may take memory."""

    @property
    def deletes_at_once(self) -> int:
        """How many files one request deletes."""

    def at_once(self, call: Callable[[_One], _Answer], many: Iterable[_One]) -> list[_Answer]:
        """What `call` gives for each, in order; several run at the same time where answers are
        slow. The first error is raised; other calls may have run by then.
        """

    def read(self, path: str) -> bytes:
        """The whole content of a file. Raises NotFound."""

    def read_listed(self, path: str) -> bytes:
        """As `read`, for a listed file of the timeline: the answer may come from memory, as of the
        last listing.

        Raises NotFound.
        """

    def read_tagged(self, path: str) -> Tagged:
        """The whole content of a file, and the tag on which it can be replaced. Raises NotFound."""

    def info(self, path: str) -> FileInfo | None:
        """Size and time of the file; None where there is none."""

    def list_files(self, directory: str) -> Sequence[FileInfo]:
        """Files directly inside, sorted by name; an absent directory is an empty one."""

    def list_names(self, directory: str) -> list[str]:
        """Names of the files that `list_files` lists, in any order; no file is looked at."""

    def list_directories(self, directory: str) -> list[str]:
        """Paths of the directories directly inside, sorted; an absent directory is an empty one."""

    def list_tree(self, directory: str) -> list[FileInfo]:
        """Files at any depth below, sorted by path."""

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        """Create or replace atomically."""

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """True when this call created it; of any number of concurrent callers exactly one is told
        True.
        """

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        """Create files of no bytes where there are none; durable when it returns, whoever made
        them. A crash may leave some of them.

        With `is_exclusive` the first is made before the others, and nothing is done where it is
        there already: of concurrent callers one is told True.
        """

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        """Replace what still carries `tag`: the new tag, or None when somebody else changed it."""

    def append(self, path: str, content: bytes) -> None:
        """Add at the end, creating the file; a crash may leave a prefix of `content`."""

    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> AbstractContextManager[IO[bytes]]:
        """A new data file, written sequentially, durable when the block ends without error.

        Raises InvalidInput when the path exists: data files are written once.
        """

    def open_data(self, path: str) -> IO[bytes]:
        """Seekable input. Raises NotFound."""

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        """Remove the file. An absent one is no error."""

    def delete_many(self, paths: Sequence[str]) -> None:
        """In this order, or all with a few requests; a crash may leave any of them."""

    def delete_tree(self, directory: str) -> None:
        """The directory and all below it; a crash may leave any of it, an absent one is no error.

        Raises InvalidInput for the root, `""`.
        """


def checked_path(path: str) -> str:
    """`path` itself. Raises InvalidInput when it could leave the table (threat T1)."""
    if path.startswith("/") or "\x00" in path or "\\" in path:
        raise InvalidInput("path is not relative to the table", path=path)
    parts = path.split("/")
    if path and ("" in parts or "." in parts or ".." in parts):
        raise InvalidInput("path has an empty or a dotted part", path=path)
    return path


def checked_size(size: int, path: str | PurePath) -> int:
    """`size` itself, of a file that is read at once. Raises StorageFailed (threat T20)."""
    most = HOODIE_BYTES_MAX if f"/{HOODIE}/" in f"/{path}" else FILE_BYTES_MAX
    if size > most:
        raise StorageFailed("file is too large to be read at once", path=path, bytes_max=most)
    return size


def size_of(storage: Storage, path: str) -> int:
    """The file's size in bytes; 0 where there is none."""
    info = storage.info(path)
    return info.size if info else 0


def join(directory: str, name: str) -> str:
    """The path of `name` inside `directory`, which is `""` for the table's root."""
    return f"{directory}/{name}" if directory else name
