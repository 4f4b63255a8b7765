"""Contents of the completed files of a timeline in a bucket, remembered by their ETags.

Like `timeline_files` for directories, it remembers only what the last listing found. A file with
the same name and the same ETag has the same content.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CONTENT_BYTES_MAX: Final = 64 << 10
_CONTENTS_BYTES_MAX: Final = 8 << 20
"""The limit for one table: all contents are forgotten when it is reached."""


class ListedObjects:
    """The results of listings of one table. Thread-safe: concurrent threads may read a file
    twice.
    """

    def __init__(self) -> None:
        self._tags: Mapping[str, str] = {}
        self._contents: dict[str, tuple[str, bytes]] = {}
        """By path: tag and content."""

    def record_tags(self, tags: Mapping[str, str]) -> None:
        """Record a listing: the tag of each file, by its path."""
        self._tags = tags
        self._contents = {
            path: held for path, held in list(self._contents.items()) if tags.get(path) == held[0]
        }

    def content(self, path: str) -> bytes | None:
        """Return the remembered content, or None if the last listing lacks the file or it was not
        read.
        """
        tag, content = self._contents.get(path, ("", b""))
        return content if tag and self._tags.get(path) == tag else None

    def keep(self, path: str, tag: str, content: bytes) -> None:
        """Remember the content of a file that was just read, if it is completed and was listed."""
        is_completed = "_" in path.rpartition("/")[2]
        if not is_completed or not content or self._tags.get(path) != tag:
            return
        if len(content) > _CONTENT_BYTES_MAX:
            return
        held = sum(len(content_bytes) for _, content_bytes in list(self._contents.values()))
        if held + len(content) > _CONTENTS_BYTES_MAX:
            self._contents.clear()
        self._contents[path] = (tag, content)
