"""The storage port over a directory of another table's storage: Hudi keeps a table of its own below
`.hoodie/metadata`, with a timeline and a history where every table has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import IO, TypeVar

from workers.durability import Durability
from workers.storage.base import FileInfo, Storage, TableCache, Tagged, join, validate_path

_One = TypeVar("_One")
_Answer = TypeVar("_Answer")


class StorageBelow:
    """The files below `directory` of `outer`, under paths relative to it. Calls raise what those of
    `outer` raise.
    """

    def __init__(self, outer: Storage, directory: str) -> None:
        self._outer = outer
        self._directory = validate_path(directory)
        self._remembered = outer.cache.of_kind(_Remembered).of(directory)

    @property
    def location(self) -> str:
        """The directory's absolute path or URL, without a trailing slash."""
        return join(self._outer.location, self._directory)

    @property
    def cache(self) -> TableCache:
        """The cache of values that this process has derived from files below the directory."""
        return self._remembered

    @property
    def appends_in_place(self) -> bool:
        """The same as for the outer storage."""
        return self._outer.appends_in_place

    @property
    def is_local(self) -> bool:
        """The same as for the outer storage."""
        return self._outer.is_local

    @property
    def files_at_once(self) -> int:
        """The same as for the outer storage."""
        return self._outer.files_at_once

    @property
    def deletes_at_once(self) -> int:
        """The same as for the outer storage."""
        return self._outer.deletes_at_once

    def at_once(self, call: Callable[[_One], _Answer], many: Iterable[_One]) -> list[_Answer]:
        """Return the results of `call` for each element, in order. Raises the first error."""
        return self._outer.at_once(call, many)

    def read(self, path: str) -> bytes:
        """Return the whole content of a file. Raises NotFound."""
        return self._outer.read(self._path(path))

    def read_listed(self, path: str) -> bytes:
        """Read a listed file of the timeline, possibly from memory. Raises NotFound."""
        return self._outer.read_listed(self._path(path))

    def read_tagged(self, path: str) -> Tagged:
        """Return the whole content of a file and its tag. Raises NotFound."""
        return self._outer.read_tagged(self._path(path))

    def info(self, path: str) -> FileInfo | None:
        """Return size in bytes and time of the file, or None if there is none."""
        info = self._outer.info(self._path(path))
        return info and self._inner(info)

    def list_files(self, directory: str) -> Sequence[FileInfo]:
        """Return files directly inside, sorted by name; an absent directory is an empty one."""
        return [self._inner(file) for file in self._outer.list_files(self._path(directory))]

    def list_names(self, directory: str) -> list[str]:
        """Return the names of the files directly inside, in any order."""
        return self._outer.list_names(self._path(directory))

    def list_directories(self, directory: str) -> list[str]:
        """Return the paths of the directories directly inside, sorted."""
        listed = self._outer.list_directories(self._path(directory))
        return [path.removeprefix(f"{self._directory}/") for path in listed]

    def list_tree(self, directory: str) -> list[FileInfo]:
        """Return the files at any depth below, sorted by path."""
        return [self._inner(file) for file in self._outer.list_tree(self._path(directory))]

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        """Create or replace atomically."""
        self._outer.put(self._path(path), content, durability)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """Create the file if there is none, and return True if this call created it."""
        return self._outer.put_if_absent(self._path(path), content)

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        """Create files of no bytes where there are none."""
        return self._outer.put_empty([*map(self._path, paths)], is_exclusive=is_exclusive)

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        """Replace the file if it still has `tag`, and return the new tag, or None."""
        return self._outer.replace_if_match(self._path(path), content, tag, durability)

    def append(self, path: str, content: bytes) -> None:
        """Add at the end, creating the file."""
        self._outer.append(self._path(path), content)

    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> AbstractContextManager[IO[bytes]]:
        """Open a new data file. Raises InvalidInput when the path exists."""
        return self._outer.create_data(self._path(path), durability)

    def open_data(self, path: str) -> IO[bytes]:
        """Open a seekable input. Raises NotFound."""
        return self._outer.open_data(self._path(path))

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        """Remove the file. An absent file is not an error."""
        self._outer.delete(self._path(path), durability)

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete the files in this order, or all with a few requests."""
        self._outer.delete_many([*map(self._path, paths)])

    def delete_tree(self, directory: str) -> None:
        """Delete the directory and all below it."""
        self._outer.delete_tree(self._path(directory))

    def _path(self, path: str) -> str:
        return join(self._directory, validate_path(path)) if path else self._directory

    def _inner(self, info: FileInfo) -> FileInfo:
        return replace(info, path=info.path.removeprefix(f"{self._directory}/"))


@dataclass(slots=True)
class _Remembered:
    """The caches of the directories of one table that storages are opened below."""

    by_directory: dict[str, TableCache] = field(default_factory=dict)

    def of(self, directory: str) -> TableCache:
        return self.by_directory.setdefault(directory, TableCache())
