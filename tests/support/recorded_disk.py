"""Records what a program asks the disk for below one directory: names, contents, and what it syncs.

The calls are made as well, so the program runs on. What each of them leaves when the power goes is
for `power_loss.py` to say. Only calls of this process by way of `os` and `open` are seen, which is
all that the engine makes to write (`tests/test_tidy.py` holds it to its storage port).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.memory_storage import Crash
from tests.support.power_loss import Contents, Names, Step, Synced

_PATCHED = ("open", "fsync", "fdatasync", "link", "rename", "replace", "unlink", "remove")
_DIRECTORIES = ("mkdir", "rmdir")
_WRITING = frozenset("wxa+")


@dataclass
class RecordedDisk:
    """Of one directory; `steps` are what was asked for since `recorded` began, in order."""

    root: Path
    steps: list[Step] = field(default_factory=list)
    dies_at: int | None = None
    """When so many steps are recorded the process is dead: every further call raises Crash."""
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)
    """By device and inode; a number is given once, an inode may come again."""
    _readers: dict[int, int] = field(default_factory=dict)
    """Node to a descriptor of ours, for files that are written since."""
    _sizes: dict[int, int] = field(default_factory=dict)
    _count: int = 0
    began_at: int = field(init=False)
    """So many steps lay out what stood there at the beginning."""

    def __post_init__(self) -> None:
        self.steps.append(Names(self._node_of_new(self.root), {}))
        self._take_in(self.root)
        self.began_at = len(self.steps)

    def _take_in(self, directory: Path) -> None:
        """What stands at the beginning is on the disk for good."""
        for path in sorted(directory.iterdir()):
            node = self._node_of_new(path)
            self._note_name(path, node)
            if path.is_dir():
                self.steps.append(Names(node, {}))
                self._take_in(path)
            else:
                self.steps.append(Contents(node, path.read_bytes()))
                self.steps.append(Synced(node))
        self.steps.append(Synced(self._node(directory)))

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Calls inside the block are recorded. Not for blocks within blocks."""
        before = {name: getattr(os, name) for name in (*_PATCHED, *_DIRECTORIES)}
        before_open = io.open
        for name, call in before.items():
            setattr(os, name, getattr(self, f"_{name}")(call))
        setattr(io, "open", self._opened_stream(before_open))  # noqa: B010  (mypy: it is a function)
        try:
            yield
        finally:
            setattr(io, "open", before_open)  # noqa: B010
            for name, call in before.items():
                setattr(os, name, call)
            self._look_at_contents()
            for descriptor in self._readers.values():
                os.close(descriptor)
            self._readers.clear()

    def _open(self, call: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if not flags & (os.O_WRONLY | os.O_RDWR) or not self._is_ours(path):
                return call(path, flags, mode, dir_fd=dir_fd)
            self._check_alive()
            is_new = not Path(path).exists()
            descriptor = call(path, flags, mode, dir_fd=dir_fd)
            self._note_opened(Path(path), call, is_new=is_new)
            return descriptor

        return opened

    def _opened_stream(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
            if isinstance(file, int) or not _WRITING & set(mode) or not self._is_ours(file):
                return call(file, mode, *given, **named)
            self._check_alive()
            is_new = not Path(file).exists()
            stream = call(file, mode, *given, **named)
            self._note_opened(Path(file), os.open, is_new=is_new)
            return stream

        return opened

    def _note_opened(self, path: Path, call: Callable[..., int], *, is_new: bool) -> None:
        self._look_at_contents()
        node = self._node_of_new(path) if is_new else self._node(path)
        if is_new:
            self._note_name(path, node)
        if node not in self._readers:
            self._readers[node] = call(path, os.O_RDONLY)
            self._sizes.setdefault(node, 0 if is_new else path.stat().st_size)

    def _fsync(self, call: Callable[[int], None]) -> Callable[[int], None]:
        def synced(descriptor: int) -> None:
            status = os.fstat(descriptor)
            node = self._nodes.get((status.st_dev, status.st_ino))
            if node is not None:
                self._check_alive()
                self._look_at_contents()
                self.steps.append(Synced(node))
            call(descriptor)

        return synced

    _fdatasync = _fsync

    def _link(self, call: Callable[..., None]) -> Callable[..., None]:
        def linked(source: Any, target: Any, **named: Any) -> None:
            self._begin_change(target)
            call(source, target, **named)
            if self._is_ours(target):
                self._note_name(Path(target), self._node(Path(target)))

        return linked

    def _rename(self, call: Callable[..., None]) -> Callable[..., None]:
        def renamed(source: Any, target: Any, **named: Any) -> None:
            self._begin_change(target)
            call(source, target, **named)
            if self._is_ours(target):
                self._note_renamed(Path(source), Path(target))

        return renamed

    _replace = _rename

    def _note_renamed(self, source: Path, target: Path) -> None:
        if os.path.lexists(source):  # Both are names of one file: the system does nothing then.
            return
        node = self._node(target)
        if source.parent == target.parent:
            both = {source.name: None, target.name: node}
            self.steps.append(Names(self._node(target.parent), both))
        else:  # Two directories, each of which may keep its half alone.
            self._note_name(target, node)
            self._note_name(source, None)

    def _unlink(self, call: Callable[..., None]) -> Callable[..., None]:
        def unlinked(path: Any, *, dir_fd: int | None = None) -> None:
            directory = self._directory_of(path, dir_fd)
            if directory is not None:
                self._check_alive()
                self._look_at_contents()
            call(path, dir_fd=dir_fd)
            if directory is not None:
                self.steps.append(Names(directory, {Path(path).name: None}))

        return unlinked

    _remove = _rmdir = _unlink

    def _mkdir(self, call: Callable[..., None]) -> Callable[..., None]:
        def made(path: Any, *given: Any, **named: Any) -> None:
            self._begin_change(path)
            call(path, *given, **named)
            if self._is_ours(path):
                node = self._node_of_new(Path(path))
                self.steps.append(Names(node, {}))
                self._note_name(Path(path), node)

        return made

    def _directory_of(self, path: Any, dir_fd: int | None) -> int | None:
        if dir_fd is None:
            return self._node(Path(path).parent) if self._is_ours(path) else None
        status = os.fstat(dir_fd)
        return self._nodes.get((status.st_dev, status.st_ino))

    def _begin_change(self, path: Any) -> None:
        if self._is_ours(path):
            self._check_alive()
            self._look_at_contents()

    def _check_alive(self) -> None:
        if self.dies_at is not None and len(self.steps) >= self.dies_at:
            raise Crash

    def _look_at_contents(self) -> None:
        """Of files that are being written: whatever was written since the last step."""
        for node, descriptor in self._readers.items():
            size = os.fstat(descriptor).st_size
            if size != self._sizes[node]:
                self._sizes[node] = size
                self.steps.append(Contents(node, os.pread(descriptor, size, 0)))

    def _note_name(self, path: Path, node: int | None) -> None:
        self.steps.append(Names(self._node(path.parent), {path.name: node}))

    def _node(self, path: Path) -> int:
        status = path.stat()
        return self._nodes[status.st_dev, status.st_ino]

    def _node_of_new(self, path: Path) -> int:
        status = path.stat()
        node = self._count
        self._nodes[status.st_dev, status.st_ino] = node
        self._count += 1
        return node

    def _is_ours(self, path: Any) -> bool:
        return isinstance(path, (str, os.PathLike)) and Path(path).is_relative_to(self.root)
