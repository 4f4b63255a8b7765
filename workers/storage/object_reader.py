"""An object as a seekable file, read in ranges: a small one with a single request.

The end is fetched first, because a Parquet file is opened from its end; that answer also contains
the size. All ranges are of one version: an object that was replaced since is an error, not a
mixture.
"""

from __future__ import annotations

import io
import os
from typing import Any, Protocol

from workers.storage.object_requests import FetchedRange

TAIL_BYTES = 1 << 20
_WINDOW_BYTES = 4 << 20
"""The least that one request reads: it costs as much as some megabytes."""


class FetchRange(Protocol):
    """Fetches the bytes from `span[0]` up to `span[1]` of the version `tag`."""

    def __call__(self, span: tuple[int, int], tag: str) -> FetchedRange:
        """Fetch a range. Raises what reading storage raises, also if the object has another
        version.
        """
        ...


class ObjectReader(io.RawIOBase):
    """For one thread at a time. `fetch` raises what reading storage raises."""

    def __init__(self, tail: FetchedRange, fetch: FetchRange) -> None:
        super().__init__()
        self._info = tail.object_info
        self._tail = tail
        self._window = tail
        self._fetch = fetch
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in bytes from the object's start."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set and return the new position; a position behind the end is allowed. No request is
        made.

        Raises ValueError before the start.
        """
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._info.size}[whence]
        if start + offset < 0:
            raise ValueError("negative seek position")
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return `size` bytes, or all that are left; fewer only at the end."""
        left = max(0, self._info.size - self._at)
        end_at = left if size is None or size < 0 else min(size, left)
        content = self._span(self._at, self._at + end_at) if end_at else b""
        self._at += len(content)
        return content

    def readall(self) -> bytes:
        """Return the bytes from the position to the end."""
        return self.read()

    def readinto(self, target: Any) -> int:
        """Fill the buffer `target`, and return the number of bytes read, fewer only at the end."""
        view = memoryview(target).cast("B")
        content = self.read(len(view))
        view[: len(content)] = content
        return len(content)

    def _span(self, start: int, end: int) -> bytes:
        for held in (self._window, self._tail):
            if held.start <= start and end <= held.start + len(held.content):
                return held.content[start - held.start : end - held.start]
        if start < self._tail.start < end:  # Only what is not there yet.
            return self._span(start, self._tail.start) + self._span(self._tail.start, end)
        end_at = max(end, min(start + _WINDOW_BYTES, self._tail.start))
        self._window = self._fetch((start, end_at), self._info.tag)
        return self._window.content[: end - start]
