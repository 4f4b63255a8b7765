"""The storage port in memory, one that remembers what each death would leave, and one that dies at
a chosen call: what the crash harness runs on.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, TypeVar

from workers.clock import Clock
from workers.durability import Durability
from workers.errors import InvalidInput, NotFound
from workers.storage.base import FileInfo, TableCache, Tagged, validate_path

Files = dict[str, tuple[bytes, int]]
"""Path -> (content, modified ms)."""
Changes = Mapping[str, bytes | None]
"""Path -> its new content; None deletes it."""
Moment = Literal["before", "middle", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "middle", "after")


_One = TypeVar("_One")
_Answer = TypeVar("_Answer")


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

    @property
    def cache(self) -> TableCache:
        """Nothing: files that were put back at the same time may be others of the same names."""
        return TableCache()

    @property
    def appends_in_place(self) -> bool:
        return True

    @property
    def is_local(self) -> bool:
        return True

    @property
    def files_at_once(self) -> int:
        return 1

    @property
    def deletes_at_once(self) -> int:
        return 1

    def at_once(self, call: Callable[[_One], _Answer], many: Iterable[_One]) -> list[_Answer]:
        return [call(one) for one in many]

    def read(self, path: str) -> bytes:
        if validate_path(path) not in self.files:
            raise NotFound("no such file", path=path)
        return self.files[path][0]

    def read_listed(self, path: str) -> bytes:
        return self.read(path)

    def read_tagged(self, path: str) -> Tagged:
        content = self.read(path)
        return Tagged(content, _tag(content))

    def info(self, path: str) -> FileInfo | None:
        file = self.files.get(path)
        return FileInfo(path, len(file[0]), file[1]) if file else None

    def list_files(self, directory: str) -> list[FileInfo]:
        start = len(directory) + 1 if directory else 0
        return [one for one in self.list_tree(directory) if "/" not in one.path[start:]]

    def list_names(self, directory: str) -> list[str]:
        return [one.name for one in self.list_files(directory)]

    def list_directories(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        below = {path[len(prefix) :] for path in self.files if path.startswith(prefix)}
        return sorted({prefix + one.split("/")[0] for one in below if "/" in one})

    def list_tree(self, directory: str) -> list[FileInfo]:
        prefix = f"{directory}/" if directory else ""
        files = sorted(one for one in list(self.files.items()) if one[0].startswith(prefix))
        return [FileInfo(path, len(content), at) for path, (content, at) in files]

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        self._change({validate_path(path): content})

    def put_if_absent(self, path: str, content: bytes) -> bool:
        is_new = validate_path(path) not in self.files
        self._change({path: content} if is_new else {})
        return is_new

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        """One by one: a process may die between two of them."""
        for path in paths:
            if not self.put_if_absent(path, b"") and is_exclusive and path == paths[0]:
                return False
        return True

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        matches = path in self.files and _tag(self.files[path][0]) == tag
        self._change({path: content} if matches else {})
        return _tag(content) if matches else None

    def append(self, path: str, content: bytes) -> None:
        old_content = self.files.get(path, (b"", 0))[0]
        half = content[: len(content) // 2]
        self._change({path: old_content + content}, half={path: old_content + half})

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        if path in self.files:
            raise InvalidInput("data file exists already", path=path)
        stream = io.BytesIO()
        yield stream
        content = stream.getvalue()
        self._change({path: content}, half={path: content[: len(content) // 2]})

    def open_data(self, path: str) -> IO[bytes]:
        return io.BytesIO(self.read(path))

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        self._change({path: None})

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_tree(self, directory: str) -> None:
        doomed = [file.path for file in self.list_tree(directory)]
        half = doomed[: (len(doomed) + 1) // 2]
        self._change(dict.fromkeys(doomed), half=dict.fromkeys(half))

    def dump(self, directory: Path) -> None:
        """Lay the files out for a reader that knows only directories."""
        for path, (content, _) in self.files.items():
            target = directory / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def _change(self, changes: Changes, half: Changes | None = None) -> None:
        """Every call that changes something ends here, once; `half` is None where it is atomic."""
        self._put_all(self.files, changes)

    def _put_all(self, files: Files, changes: Changes) -> None:
        for path, content in changes.items():
            if content is None:
                files.pop(path, None)
            else:
                files[path] = (content, self._clock.now_ms())


class RecordingStorage(MemoryStorage):
    """Keeps what is left when its process dies before, in the middle of or after each changing
    call.

    Reading changes nothing, so dying at a reading call is the same case as dying before the next
    changing one; and after a call is before the next. In the middle means: a data file or an
    appended text is half there, half of a tree is deleted. A call that is atomic has no middle.
    """

    def __init__(self, clock: Clock, files: Files) -> None:
        super().__init__(clock, files)
        self.left: list[tuple[Files, int]] = [(dict(self.files), clock.now_ms())]
        """Files and the time of each death, in order."""

    def _change(self, changes: Changes, half: Changes | None = None) -> None:
        if half is not None:
            self._note()
            self._put_all(self.left[-1][0], half)
        super()._change(changes, half)
        self._note()

    def _note(self) -> None:
        self.left.append((dict(self.files), self._clock.now_ms()))


class FaultyStorage(MemoryStorage):
    """Dies at its n-th changing call, and answers nothing ever after; of a call without a middle
    that is before it.
    """

    def __init__(self, clock: Clock, files: Files, *, die_at: int, moment: Moment) -> None:
        super().__init__(clock, files)
        self._die_at = die_at
        self._moment = moment
        self._calls = 0
        self._is_dead = False

    def read(self, path: str) -> bytes:
        self._check_alive()
        return super().read(path)

    def list_tree(self, directory: str) -> list[FileInfo]:
        self._check_alive()
        return super().list_tree(directory)

    def _change(self, changes: Changes, half: Changes | None = None) -> None:
        self._check_alive()
        self._calls += 1
        if self._calls != self._die_at:
            super()._change(changes)
            return
        done: dict[Moment, Changes] = {"before": {}, "middle": half or {}, "after": changes}
        super()._change(done[self._moment])
        self._is_dead = True
        raise Crash

    def _check_alive(self) -> None:
        if self._is_dead:
            raise Crash


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
