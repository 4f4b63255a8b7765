"""A file whose existence is a lock, as in Apache Hudi: it is made whole, and by one process only.

A process that removes it says which file it means, and first renames the file to a name of its own:
only one process can. Then it looks at what it took, and puts another file back. So a process that
wakes too late takes nothing away, and one that stops here stops nobody.
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
    """A lock file at one look; content and inode together say which one it is."""

    content: bytes
    """Hudi's is empty, or says what thread of it took the lock."""
    modified_ms: int
    inode: int


class LockFile:
    """Every call raises StorageFailed when the directory is out of reach."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, content: bytes) -> bool:
        """False when it exists. Nobody ever sees a part of `content`."""
        return self._reported(lambda: self._linked(content))

    def _linked(self, content: bytes) -> bool:
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

    def look(self) -> SeenFile | None:
        """The file that is there now; None where there is none."""
        return self._reported(lambda: _looked_at(self.path))

    def keep(self, content: bytes) -> bool:
        """Make it young again; False when it holds something else by now."""
        return self._reported(lambda: _touched(self.path, content))

    def remove(self, expected: SeenFile) -> bool:
        """False when another one is there, or none. Hudi's checksum beside it goes too."""
        return self._reported(lambda: self._removed(expected))

    def _removed(self, expected: SeenFile) -> bool:
        if not _is_same(_looked_at(self.path), expected):
            return False
        taken = self.path.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
        try:
            self.path.rename(taken)
        except FileNotFoundError:
            return False
        try:
            is_it = _is_same(_looked_at(taken), expected)
            if is_it:
                self.path.with_name(f".{self.path.name}.crc").unlink(missing_ok=True)
            else:
                with suppress(FileExistsError):  # Its owner finds out that it lost it.
                    os.link(taken, self.path)
        finally:
            taken.unlink()
        return is_it

    def _reported(self, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except OSError as error:
            raise StorageFailed(
                "the lock file is out of reach; see that its directory may be written",
                path=self.path,
                reason=error.strerror or str(error),
            ) from error


def _looked_at(path: Path) -> SeenFile | None:
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


def _touched(path: Path, content: bytes) -> bool:
    try:
        with path.open("rb") as stream:
            if stream.read() != content:
                return False
            os.utime(stream.fileno())  # The file that was read, whatever the path names by now.
            return True
    except FileNotFoundError:
        return False
