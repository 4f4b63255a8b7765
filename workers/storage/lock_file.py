"""A file whose existence is a lock, as in Apache Hudi: it is created whole, and by one process
only.

A process that removes it names the file that it expects, and first renames the file to a name of
its own: only one process can. Then it checks the renamed file, and restores it if it is not the
expected one. So a process that resumes too late removes no lock of another, and a process that
stops here blocks no other.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from workers.errors import StorageFailed

_Result = TypeVar("_Result")
_TEMPORARY = ".sluice-tmp-"


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A lock file at one time; content and inode together identify it."""

    content: bytes
    """Hudi leaves it empty, or writes the thread that took the lock."""
    modified_ms: int
    inode: int


class LockFile:
    """Every call raises StorageFailed when the directory is out of reach."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, content: bytes) -> bool:
        """Create the file, or return False if it exists. No reader ever sees a part of
        `content`.
        """
        return self._translate_errors(lambda: self._link_new(content))

    def _link_new(self, content: bytes) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
        temporary.write_bytes(content)
        try:
            os.link(temporary, self.path)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        return True

    def read(self) -> SeenFile | None:
        """Return the file as it is now, or None if there is none."""
        return self._translate_errors(lambda: _read_file(self.path))

    def renew(self, content: bytes) -> bool:
        """Renew its modification time, or return False if its content is not `content`."""
        return self._translate_errors(lambda: _touch_if_same(self.path, content))

    def remove(self, expected: SeenFile) -> bool:
        """Remove the file and Hudi's checksum next to it, or return False if it is absent or
        another.
        """
        return self._translate_errors(lambda: self._remove_if_same(expected))

    def _remove_if_same(self, expected: SeenFile) -> bool:
        if not _is_same(_read_file(self.path), expected):
            return False
        temporary = self.path.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
        try:
            self.path.rename(temporary)
        except FileNotFoundError:
            return False
        try:
            is_it = _is_same(_read_file(temporary), expected)
            if is_it:
                self.path.with_name(f".{self.path.name}.crc").unlink(missing_ok=True)
            else:
                with suppress(FileExistsError):  # Its owner finds out that it lost it.
                    os.link(temporary, self.path)
        finally:
            temporary.unlink()
        return is_it

    def _translate_errors(self, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except OSError as error:
            raise StorageFailed(
                "the lock file is out of reach; see that its directory may be written",
                path=self.path,
                reason=error.strerror or str(error),
            ) from error


def _read_file(path: Path) -> SeenFile | None:
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            return SeenFile(stream.read(), status.st_mtime_ns // 1_000_000, status.st_ino)
    except FileNotFoundError:
        return None


def _is_same(current: SeenFile | None, expected: SeenFile) -> bool:
    return current is not None and (current.content, current.inode) == (
        expected.content,
        expected.inode,
    )


def _touch_if_same(path: Path, content: bytes) -> bool:
    try:
        with path.open("rb") as stream:
            if stream.read() != content:
                return False
            os.utime(stream.fileno())  # The file that was read, whatever the path names by now.
            return True
    except FileNotFoundError:
        return False
