"""What one process knows of the completed files of a timeline in a bucket, by their ETags.

As `timeline_files` for directories: only what the last listing found is known, and what has the
same name and the same ETag holds the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_CONTENT_BYTES_MAX: Final = 64 << 10
_CONTENTS_BYTES_MAX: Final = 8 << 20
"""Of one table; when it is reached all contents are forgotten."""


class ListedObjects:
    """What listings of one table have shown. Thread-safe: what threads learn at once they may learn
    twice.
    """

    def __init__(self) -> None:
        self._tags: Mapping[str, str] = {}
        self._contents: dict[str, tuple[str, bytes]] = {}
        """By path: tag and content."""

    def listed(self, tags: Mapping[str, str]) -> None:
        """Tag of each file, by its path."""
        self._tags = tags
        self._contents = {
            path: held for path, held in list(self._contents.items()) if tags.get(path) == held[0]
        }

    def content(self, path: str) -> bytes | None:
        """None where it was not listed last, or not read."""
        tag, content = self._contents.get(path, ("", b""))
        return content if tag and self._tags.get(path) == tag else None

    def keep(self, path: str, tag: str, content: bytes) -> None:
        """Remember what was just read there, if it is what was listed, and a completed file."""
        is_completed = "_" in path.rpartition("/")[2]
        if not is_completed or not content or self._tags.get(path) != tag:
            return
        if len(content) > _CONTENT_BYTES_MAX:
            return
        held = sum(len(one) for _, one in list(self._contents.values()))
        if held + len(content) > _CONTENTS_BYTES_MAX:
            self._contents.clear()
        self._contents[path] = (tag, content)
