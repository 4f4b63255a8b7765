"""A table's directory with somebody at every call: to pause there, to die there, or to lose the
answer.

Where stop points are too coarse. The storage itself stays real.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from workers.clock import Clock
from workers.durability import Durability
from workers.storage.base import FileInfo
from workers.storage.local import LocalStorage
from workers.table_layout import HEARTBEATS

Watch = Callable[[str, str], None]
"""Called with the name of the call and the path."""
_WAIT_MAX_S = 60.0


class Died(BaseException):
    """The process is gone: no `except Exception` of ours may tidy up after it."""


def nobody(call: str, path: str) -> None:
    """Watches nothing."""


class WatchedStorage(LocalStorage):
    def __init__(self, root: Path, *, before: Watch = nobody, after: Watch = nobody) -> None:
        super().__init__(root)
        self._before = before
        self._after = after

    def watch(self, *, before: Watch) -> None:
        """From here on."""
        self._before = before

    def list_files(self, directory: str) -> Sequence[FileInfo]:
        self._before("list_files", directory)
        return super().list_files(directory)

    def list_names(self, directory: str) -> list[str]:
        self._before("list_names", directory)
        return super().list_names(directory)

    def read(self, path: str) -> bytes:
        self._before("read", path)
        return super().read(path)

    def open_data(self, path: str) -> IO[bytes]:
        self._before("open_data", path)
        return super().open_data(path)

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        self._before("put", path)
        super().put(path, content, durability)
        self._after("put", path)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        self._before("put_if_absent", path)
        created = super().put_if_absent(path, content)
        self._after("put_if_absent", path)
        return created

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        """One by one, so that somebody may die between two of them."""
        for path in paths:
            if not self.put_if_absent(path, b"") and is_exclusive and path == paths[0]:
                return False
        return True

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        self._before("replace_if_match", path)
        replaced = super().replace_if_match(path, content, tag, durability)
        self._after("replace_if_match", path)
        return replaced

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        self._before("create_data", path)
        with super().create_data(path, durability) as stream:
            yield stream
        self._after("create_data", path)

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        self._before("delete", path)
        super().delete(path, durability)
        self._after("delete", path)

    def delete_tree(self, directory: str) -> None:
        self._before("delete_tree", directory)
        super().delete_tree(directory)
        self._after("delete_tree", directory)


class ClockedStorage(WatchedStorage):
    """Heartbeat files get their modification time from a clock, as if it were the storage's."""

    def __init__(
        self, root: Path, clock: Clock, *, before: Watch = nobody, after: Watch = nobody
    ) -> None:
        super().__init__(root, before=before, after=after)
        self._root = root
        self._clock = clock

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        super().put(path, content, durability)
        if path.startswith(HEARTBEATS.path):
            beat_ns = self._clock.now_ms() * 1_000_000
            os.utime(self._root / path, ns=(beat_ns, beat_ns))


@dataclass
class At:
    """Does `effect` at the first call of this name whose path contains `part`."""

    call: str
    part: str
    effect: Callable[[], None]
    hits: int = 0
    times: int = 1

    def __call__(self, call: str, path: str) -> None:
        if call == self.call and self.part in path and self.hits < self.times:
            self.hits += 1
            self.effect()


def fails(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


@dataclass
class Sleep:
    """Falls asleep there until woken; `is_asleep` tells the test."""

    is_asleep: threading.Event = field(default_factory=threading.Event)
    _wake: threading.Event = field(default_factory=threading.Event)

    def __call__(self) -> None:
        self.is_asleep.set()
        assert self._wake.wait(_WAIT_MAX_S), "nobody woke the sleeper"

    def await_asleep(self) -> None:
        assert self.is_asleep.wait(_WAIT_MAX_S), "nobody came by"

    def wake(self) -> None:
        self._wake.set()


class ForgetfulStorage(WatchedStorage):
    """As in a process that has not read the timeline before."""

    def read_listed(self, path: str) -> bytes:
        return self.read(path)
