"""A table below a prefix of an S3 bucket: the port's promises by conditional writes.

put-if-absent is `If-None-Match: *`, replace-if-match is `If-Match` with the object's ETag. An
object is seen whole or not at all, so nothing needs a temporary name, and directories are only
parts of names. What waits for many answers asks for several at once.

Like `timeline_files` for directories, it remembers only what the last listing found. A file with
the same name and the same ETag has the same content.

An object is read in ranges, a small one with a single request. The end is fetched first, because a
Parquet file is opened from its end; that answer also contains the size. All ranges are of one
version: an object that was replaced since is an error, not a mixture.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, Final, Protocol, TypeVar, cast

from workers.durability import Durability
from workers.errors import InvalidInput, NotFound, WriteOutcomeUnknown
from workers.locations import BucketPlace
from workers.storage.base import FileInfo, TableCache, Tagged, validate_path
from workers.storage.object_client import ObjectClient
from workers.storage.object_requests import FetchedRange, ObjectInfo, RangeRequest, S3Requests
from workers.storage.s3_settings import S3Settings
from workers.table_layout import TIMELINE

TAIL_BYTES = 1 << 20
_WINDOW_BYTES = 4 << 20
"""The least that one request reads: it costs as much as some megabytes."""
_CONTENT_BYTES_MAX: Final = 64 << 10
_CONTENTS_BYTES_MAX: Final = 8 << 20
"""The limit for one table: all contents are forgotten when it is reached."""
REQUESTS_AT_ONCE = 16
_FILES_AT_ONCE = 4
_DELETES_AT_ONCE = 1_000
_PUT_BYTES_MAX = 16 << 20
"""Larger ones go in parts, without a condition: names of data files are never used twice."""
_APPENDS_MAX = 20
_One = TypeVar("_One")
_Answer = TypeVar("_Answer")


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


class ObjectStorage:
    """The storage port over the objects below a prefix. Thread-safe. A call asks for `at_once_max`
    answers at the same time at most.
    """

    def __init__(
        self, place: BucketPlace, client: ObjectClient, *, at_once_max: int = REQUESTS_AT_ONCE
    ) -> None:
        self._place = place
        self._client = client
        self._at_once_max = at_once_max
        self._remembered = TableCache.of(place)
        self._timeline = self._remembered.of_kind(ListedObjects)

    @property
    def location(self) -> str:
        """`s3://bucket/prefix`."""
        return self._place.location

    @property
    def cache(self) -> TableCache:
        """Shared by all storages of this process for the same prefix of the same bucket."""
        return self._remembered

    @property
    def appends_in_place(self) -> bool:
        """False: an object is replaced as a whole."""
        return False

    @property
    def is_local(self) -> bool:
        """Always False: every access is a request."""
        return False

    @property
    def files_at_once(self) -> int:
        """Four, or fewer where fewer requests are allowed at once."""
        return min(_FILES_AT_ONCE, self._at_once_max)

    @property
    def deletes_at_once(self) -> int:
        """The number of keys that S3 accepts in one request."""
        return _DELETES_AT_ONCE

    def at_once(self, call: Callable[[_One], _Answer], many: Iterable[_One]) -> list[_Answer]:
        """Call on separate threads, unless there is only one call. Raises the first error in order,
        when all calls have ended.
        """
        listed = list(many)
        if min(len(listed), self._at_once_max) < 2:
            return [call(element) for element in listed]
        with ThreadPoolExecutor(min(self._at_once_max, len(listed))) as pool:
            return list(pool.map(call, listed))

    def read(self, path: str) -> bytes:
        """Return all bytes of the object. Raises NotFound, StorageFailed."""
        return self._client.get(_key(path)).content

    def read_listed(self, path: str) -> bytes:
        """Read an object; small completed files of the timeline are remembered while listings show
        their ETag.
        """
        content = self._timeline.content(path)
        if content is None:
            fetched = self._client.get(_key(path))
            self._timeline.keep(path, fetched.object_info.tag, fetched.content)
            content = fetched.content
        return content

    def read_tagged(self, path: str) -> Tagged:
        """Return the content with the object's ETag. Raises NotFound, StorageFailed."""
        fetched = self._client.get(_key(path))
        return Tagged(fetched.content, fetched.object_info.tag)

    def info(self, path: str) -> FileInfo | None:
        """Return size and time of the object, or None if there is none. Directories have none.

        Raises StorageFailed.
        """
        object_info = self._client.head(_key(path))
        return _file(object_info) if object_info else None

    def list_files(self, directory: str) -> list[FileInfo]:
        """Return the files sorted by path. Raises StorageFailed."""
        objects = self._client.list_directory(validate_path(directory)).files
        if directory == TIMELINE.path:
            self._timeline.record_tags({found.path: found.tag for found in objects})
        return sorted(map(_file, objects), key=lambda file: file.path)

    def list_names(self, directory: str) -> list[str]:
        """Return the names, at the cost of `list_files`: the store returns sizes with the names."""
        return [file.name for file in self.list_files(directory)]

    def list_directories(self, directory: str) -> list[str]:
        """Return the prefixes that objects share up to a `/`, sorted. Raises StorageFailed."""
        return sorted(self._client.list_directory(validate_path(directory)).directories)

    def list_tree(self, directory: str) -> list[FileInfo]:
        """Return files sorted by path, without the empty objects by which other tools mark a
        folder.

        Raises StorageFailed.
        """
        objects = self._client.list_tree(validate_path(directory))
        folders = {found.path.rpartition("/")[0] for found in objects}
        # Other tools make an empty object for a folder.
        files = [found for found in objects if found.size or found.path not in folders]
        return sorted(map(_file, files), key=lambda file: file.path)

    def put(self, path: str, content: bytes, durability: Durability = Durability.DURABLE) -> None:
        """Write the whole object with one request. Raises StorageFailed, WriteOutcomeUnknown."""
        self._client.put(_key(path), content)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        """Create by `If-None-Match: *`, with a nonce for the case that the answer is lost.

        Raises StorageFailed, WriteOutcomeUnknown.
        """
        return self._client.put_conditionally(_key(path), content) is not None

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        """Create an object for each path, several at once, but the first before the others with
        `is_exclusive`.

        Raises StorageFailed, WriteOutcomeUnknown.
        """
        if is_exclusive and not self.put_if_absent(paths[0], b""):
            return False
        self.at_once(partial(self.put_if_absent, content=b""), paths[is_exclusive:])
        return True

    def replace_if_match(
        self, path: str, content: bytes, tag: str, durability: Durability = Durability.DURABLE
    ) -> str | None:
        """Replace by `If-Match`; tags are ETags. Raises StorageFailed, WriteOutcomeUnknown."""
        return self._client.put_conditionally(_key(path), content, tag=tag)

    def append(self, path: str, content: bytes) -> None:
        """Read and write the whole object."""
        for _ in range(_APPENDS_MAX):
            try:
                current = self.read_tagged(path)
            except NotFound:
                if self.put_if_absent(path, content):
                    return
                continue
            if self.replace_if_match(path, current.content + content, current.tag) is not None:
                return
        raise WriteOutcomeUnknown("others append all the time", path=path)

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.DURABLE
    ) -> Iterator[IO[bytes]]:
        """Open a buffer that is sent when the block ends; until then it is in memory, or in a
        temporary file of this machine if it is large.
        """
        key = _key(path)
        with tempfile.SpooledTemporaryFile(max_size=_PUT_BYTES_MAX) as stream:
            yield cast(IO[bytes], stream)
            if self._send(key, cast(IO[bytes], stream)):
                return
        raise InvalidInput("data file exists already", path=path)

    def _send(self, key: str, stream: IO[bytes]) -> bool:
        """Send the stream, or return False if the object exists."""
        if stream.seek(0, 2) <= _PUT_BYTES_MAX:
            stream.seek(0)
            return self._client.put_conditionally(key, stream.read()) is not None
        if self._client.head(key) is not None:
            return False
        self._client.put_parts(key, stream)
        return True

    def open_data(self, path: str) -> IO[bytes]:
        """Open a reader of ranges of the current version; the end is fetched immediately.

        Raises NotFound, StorageFailed.
        """
        key = _key(path)

        def fetch(span: tuple[int, int], tag: str) -> FetchedRange:
            return self._client.get(key, RangeRequest(span=span, tag=tag))

        return cast(IO[bytes], ObjectReader(self._client.get_end(key, TAIL_BYTES), fetch))

    def delete(self, path: str, durability: Durability = Durability.DURABLE) -> None:
        """Delete the object, if there is one. Raises StorageFailed, WriteOutcomeUnknown."""
        self._client.delete([_key(path)])

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete a thousand objects per request. Raises StorageFailed, WriteOutcomeUnknown."""
        self._client.delete([_key(path) for path in paths])

    def delete_tree(self, directory: str) -> None:
        """Delete the objects that a listing shows now; objects that are created since then stay.

        Raises InvalidInput for the root, StorageFailed, WriteOutcomeUnknown.
        """
        if not directory:
            raise InvalidInput("refusing to delete the whole table", location=self.location)
        objects = self._client.list_tree(validate_path(directory))
        self._client.delete([found.path for found in objects])


def bucket_storage(place: BucketPlace, settings: S3Settings) -> ObjectStorage:
    """Return the storage of this place. No request is made yet."""
    return ObjectStorage(place, ObjectClient(S3Requests(place, settings)))


def _key(path: str) -> str:
    """Raises InvalidInput."""
    if not path or any(character < " " or character == "\x7f" for character in path):
        raise InvalidInput("path cannot be the name of an object", path=path)
    return validate_path(path)


def _file(object_info: ObjectInfo) -> FileInfo:
    return FileInfo(object_info.path, object_info.size, object_info.modified_ms)
