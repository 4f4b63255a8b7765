"""A table's directory, with a note of what its calls promise for the case that the power goes.

What is owed is written down here once more, by path, beside what `LocalStorage` does about it:
docs/invariants.md, "What is promised about power loss".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.support.power_loss import LostFiles
from tests.support.recorded_disk import RecordedDisk
from workers.durability import Durability
from workers.storage.local import LocalStorage

BEATS = (".hoodie/.heartbeat/", ".hoodie/.locks/waiting/")
"""They speak of the living: any content will do."""
LIVENESS = (*BEATS, ".hoodie/.locks/")
"""Any of what was there ever will do, as long as it is whole."""
COME_BACK = (*LIVENESS, ".hoodie/.sluice/metadata/")
"""What was deleted of these may be there again."""
SCRATCH = ".hoodie/.temp/"
"""Data files below it are nothing that anybody was promised."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What may be found under a path."""

    contents: tuple[bytes | None, ...]
    """Any of these; None: no file."""
    is_torn: bool = False
    """Or the beginning of the last of them that is no shorter than the first."""
    is_anything: bool = False

    def or_else(self, content: bytes | None) -> Promise:
        """Of a file that somebody begins to change."""
        is_anything = self.is_anything or self.is_torn
        return Promise((*self.contents, content), is_anything=is_anything)

    def holds(self, content: bytes | None) -> bool:
        if self.is_anything or content in self.contents:
            return True
        longest = self.contents[-1]
        if not self.is_torn or content is None or longest is None:
            return False
        return longest.startswith(content) and len(content) >= len(self.contents[0] or b"")


@dataclass(frozen=True, slots=True)
class Promised:
    """From this step of the disk on."""

    at_step: int
    path: str
    promise: Promise


class PromisedStorage(LocalStorage):
    """Notes in `promised` what a path owes, before each call that changes it and after it."""

    def __init__(self, disk: RecordedDisk, promised: list[Promised]) -> None:
        super().__init__(disk.root)
        self._disk = disk
        self._promised = promised

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        self._owe(path, self._promise_of(path).or_else(content))
        super().put(path, content, durability)
        if not path.startswith(LIVENESS):
            self._owe(path, Promise((content,)))

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self._owe(path, self._promise_of(path).or_else(content))
        is_new = super().put_if_absent(path, content)
        if not path.startswith(LIVENESS):  # Who did not make it is told of what stands there.
            self._owe(path, Promise((self._content(path),)))
        return is_new

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        before = {path: self._promise_of(path) for path in paths}
        for path in paths:
            self._owe(path, before[path].or_else(b""))
        is_made = super().put_empty(paths, is_exclusive=is_exclusive)
        if is_made:
            for path in paths:
                there = [content for content in before[path].contents if content is not None]
                self._owe(path, Promise((*there, b""), is_anything=before[path].is_anything))
        return is_made

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        self._owe(path, self._promise_of(path).or_else(content))
        fresh = super().replace_if_match(path, content, tag, durability)
        if fresh is not None and not path.startswith(LIVENESS):
            self._owe(path, Promise((content,)))
        return fresh

    def append(self, path: str, content: bytes) -> None:
        old_content = self._content(path)
        whole = (old_content or b"") + content
        self._owe(path, Promise((old_content, whole), is_torn=True))
        super().append(path, content)
        self._owe(path, Promise((whole,)))

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        self._owe(path, Promise((), is_anything=True))
        with super().create_data(path, durability) as stream:
            yield stream
        if not path.startswith(SCRATCH):
            self._owe(path, Promise((self._content(path),)))

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        is_there = self._content(path) is not None
        self._owe(path, self._promise_of(path).or_else(None))
        super().delete(path, durability)
        if is_there and not path.startswith(COME_BACK):  # Of what is absent nothing is owed.
            self._owe(path, Promise((None,)))

    def delete_tree(self, directory: str) -> None:
        """Nobody is promised that it stays away."""
        for file in self.list_tree(directory):
            self._owe(file.path, self._promise_of(file.path).or_else(None))
        super().delete_tree(directory)

    def _promise_of(self, path: str) -> Promise:
        """What was promised of it, else what is there."""
        for promised in reversed(self._promised):
            if promised.path == path:
                return promised.promise
        return Promise((self._content(path),))

    def _content(self, path: str) -> bytes | None:
        file = Path(self.location, path)
        return file.read_bytes() if file.is_file() else None

    def _owe(self, path: str, promise: Promise) -> None:
        if not path.startswith(BEATS):
            self._promised.append(Promised(len(self._disk.steps), path, promise))


def broken_promises(promised: Sequence[Promised], at_step: int, left: LostFiles) -> list[str]:
    """Paths of which the disk that lost its power after so many steps holds what it may not."""
    owed: dict[str, Promise] = {}
    for latest in promised:
        if latest.at_step > at_step:
            break
        owed[latest.path] = latest.promise
    return [path for path, promise in owed.items() if not promise.holds(left.get(path))]
