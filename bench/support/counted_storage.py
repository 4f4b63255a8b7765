"""A table's directory that counts what is asked of it, by the name of the call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from workers.storage.base import FileInfo, Tagged
from workers.storage.local import LocalStorage


class CountedStorage(LocalStorage):
    """Questions only; what `list_tree` and `read_listed` ask within counts, and is real."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.calls: Counter[str] = Counter()

    def read(self, path: str) -> bytes:
        self.calls["read"] += 1
        return super().read(path)

    def read_tagged(self, path: str) -> Tagged:
        self.calls["read_tagged"] += 1
        return super().read_tagged(path)

    def open_data(self, path: str) -> IO[bytes]:
        self.calls["open_data"] += 1
        return super().open_data(path)

    def info(self, path: str) -> FileInfo | None:
        self.calls["info"] += 1
        return super().info(path)

    def list_files(self, directory: str) -> Sequence[FileInfo]:
        self.calls["list_files"] += 1
        return super().list_files(directory)

    def list_names(self, directory: str) -> list[str]:
        self.calls["list_names"] += 1
        return super().list_names(directory)

    def list_directories(self, directory: str) -> list[str]:
        self.calls["list_directories"] += 1
        return super().list_directories(directory)
