"""The storage port in memory, and one that dies at a chosen call: what the crash harness runs
on.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from workers.clock import Clock
from workers.errors import InvalidInput, NotFound
from workers.storage.base import FileInfo, Tagged, checked_path

Files = dict[str, tuple[bytes, int]]
"""Path -> (content, modified ms)."""
Moment = Literal["before", "middle", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "middle", "after")


class Crash(BaseException):
    """The process dies here. Not an Exception: nothing in the engine may catch it."""


class MemoryStorage:
    """Same promises as a directory, without a disk; `files` may be copied and put back."""

    def __init__(self, clock: Clock, files: Files | None = None) -> None:
        self._clock = clock
        self.files: Files = dict(files or {})

    @property
    def location(self) -> str:
        return "/memory/table"

    def read(self, path: str) -> bytes:
        if checked_path(path) not in self.files:
            raise NotFound("no such file", path=path)
        return self.files[path][0]

    def read_tagged(self, path: str) -> Tagged:
        content = self.read(path)
        return Tagged(content, _tag(content))

    def info(self, path: str) -> FileInfo | None:
        found = self.files.get(path)
        return FileInfo(path, len(found[0]), found[1]) if found else None

    def list_files(self, directory: str) -> list[FileInfo]:
        return [
            one for one in self.list_tree(directory) if one.path.rpartition("/")[0] == directory
        ]

    def list_directories(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        below = {path[len(prefix) :] for path in self.files if path.startswith(prefix)}
        return sorted({prefix + one.split("/")[0] for one in below if "/" in one})

    def list_tree(self, directory: str) -> list[FileInfo]:
        prefix = f"{directory}/" if directory else ""
        return [
            FileInfo(path, len(content), modified_ms)
            for path, (content, modified_ms) in sorted(self.files.items())
            if path.startswith(prefix)
        ]

    def put(self, path: str, content: bytes) -> None:
        self.files[checked_path(path)] = (content, self._clock.now_ms())

    def put_if_absent(self, path: str, content: bytes) -> bool:
        if path in self.files:
            return False
        self.put(path, content)
        return True

    def replace_if_match(self, path: str, content: bytes, tag: str) -> str | None:
        if path not in self.files or _tag(self.files[path][0]) != tag:
            return None
        self.put(path, content)
        return _tag(content)

    def append(self, path: str, content: bytes) -> None:
        self.put(path, self.files.get(path, (b"", 0))[0] + content)

    @contextmanager
    def create_data(self, path: str) -> Iterator[IO[bytes]]:
        if path in self.files:
            raise InvalidInput("data file exists already", path=path)
        stream = io.BytesIO()
        yield stream
        self.put(path, stream.getvalue())

    def open_data(self, path: str) -> IO[bytes]:
        return io.BytesIO(self.read(path))

    def delete(self, path: str) -> None:
        self.files.pop(path, None)

    def delete_tree(self, directory: str) -> None:
        for file in self.list_tree(directory):
            self.delete(file.path)

    def dump(self, directory: Path) -> None:
        """Lay the files out for a reader that knows only directories."""
        for path, (content, _) in self.files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


class FaultyStorage(MemoryStorage):
    """Dies before, in the middle of or after its n-th changing call, and answers nothing ever
    after.

    Reading changes nothing, so dying at a reading call is the same case as dying before the next
    changing one. In the middle means: a data file or an appended text is half there, half of a tree
    is deleted. A call that is atomic has no middle; `had_middle` says whether this one had.
    """

    def __init__(self, clock: Clock, files: Files, *, die_at: int, moment: Moment) -> None:
        super().__init__(clock, files)
        self._die_at = die_at
        self._moment = moment
        self.calls = 0
        self.is_dead = False
        self.had_middle = True

    def _turn(self) -> bool:
        """True when this is the call to die at."""
        if self.is_dead:
            raise Crash
        self.calls += 1
        return self.calls == self._die_at

    def _die(self) -> None:
        self.is_dead = True
        raise Crash

    def _before(self, *, has_middle: bool = False) -> bool:
        is_last = self._turn()
        if is_last and self._moment == "before":
            self._die()
        if is_last and self._moment == "middle" and not has_middle:
            self.had_middle = False
            self._die()
        return is_last

    def read(self, path: str) -> bytes:
        if self.is_dead:
            raise Crash
        return super().read(path)

    def list_tree(self, directory: str) -> list[FileInfo]:
        if self.is_dead:
            raise Crash
        return super().list_tree(directory)

    def put(self, path: str, content: bytes) -> None:
        is_last = self._before()
        super().put(path, content)
        if is_last:
            self._die()

    def put_if_absent(self, path: str, content: bytes) -> bool:
        is_last = self._before()
        created = path not in self.files
        if created:
            self.files[checked_path(path)] = (content, self._clock.now_ms())
        if is_last:
            self._die()
        return created

    def replace_if_match(self, path: str, content: bytes, tag: str) -> str | None:
        is_last = self._before()
        matches = path in self.files and _tag(self.files[path][0]) == tag
        if matches:
            self.files[path] = (content, self._clock.now_ms())
        if is_last:
            self._die()
        return _tag(content) if matches else None

    def append(self, path: str, content: bytes) -> None:
        is_last = self._before(has_middle=True)
        half = content[: len(content) // 2] if is_last and self._moment == "middle" else content
        standing = self.files.get(path, (b"", 0))[0]
        self.files[path] = (standing + half, self._clock.now_ms())
        if is_last:
            self._die()

    @contextmanager
    def create_data(self, path: str) -> Iterator[IO[bytes]]:
        is_last = self._before(has_middle=True)
        stream = io.BytesIO()
        yield stream
        content = stream.getvalue()
        if is_last and self._moment == "middle":
            content = content[: len(content) // 2]
        self.files[path] = (content, self._clock.now_ms())
        if is_last:
            self._die()

    def delete(self, path: str) -> None:
        is_last = self._before()
        self.files.pop(path, None)
        if is_last:
            self._die()

    def delete_tree(self, directory: str) -> None:
        is_last = self._before(has_middle=True)
        doomed = [file.path for file in super().list_tree(directory)]
        if is_last and self._moment == "middle":
            doomed = doomed[: (len(doomed) + 1) // 2]
        for path in doomed:
            self.files.pop(path, None)
        if is_last:
            self._die()


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
