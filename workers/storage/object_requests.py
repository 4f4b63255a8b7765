"""Single requests to a bucket, as obstore makes them: no retry, no judgement of errors.

What they raise is among `object_errors.ANSWERS`. A simulator takes the place of `S3Requests`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import IO, TYPE_CHECKING, Any, Protocol

import obstore
from obstore.exceptions import GenericError
from obstore.store import S3Store

from workers.locations import BucketPlace
from workers.storage.base import validate_size
from workers.storage.s3_settings import BucketKeys, S3Settings

if TYPE_CHECKING:
    from obstore.store import S3Credential

_CONNECT_TIMEOUT_S = 5
_NONCE = "sluice-nonce"
_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as the store shows it: bytes, milliseconds since the epoch, and its ETag."""

    path: str
    size: int
    modified_ms: int
    tag: str


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """A part of an object, and what the object is."""

    content: bytes
    start: int
    object_info: ObjectInfo
    nonce: str = ""
    """The nonce of the conditional write that made it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files and directories directly in a directory; paths are relative to the prefix,
    directories end without `/`.
    """

    files: list[ObjectInfo]
    directories: list[str]


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A part of an object, and the version that it must have."""

    span: tuple[int, int] | None = None
    suffix: int = 0
    tag: str = ""
    is_head: bool = False
    """Only what it is, nothing of its content."""


class Requests(Protocol):
    """One request each, below one prefix of one bucket."""

    def get(self, path: str, part: RangeRequest) -> FetchedRange:
        """Return the `part`, of the version that it names. A head has no content."""

    def list_directory(self, directory: str) -> Listing:
        """List one level, or nothing if there is no such directory."""

    def list_tree(self, directory: str) -> list[ObjectInfo]:
        """Return objects at any depth below, in the store's order."""

    def put(self, path: str, content: bytes, *, tag: str | None, nonce: str) -> str:
        """Write the object, and return the new tag. With a nonce only if there is none, or with a
        `tag` if the object still has it.
        """

    def put_parts(self, path: str, stream: IO[bytes]) -> None:
        """Send the stream from its position in parts, without a condition; the object is visible
        when all parts are there.
        """

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects. Absent objects are not an error. Any of them may be deleted when it
        raises.
        """


class S3Requests:
    """Requests made by obstore; all of this process with the same place and settings share its
    connections.
    """

    def __init__(self, place: BucketPlace, settings: S3Settings) -> None:
        self._place = place
        self._settings = settings

    @property
    def _store(self) -> S3Store:
        # A child that was forked must not use its parent's connections and threads.
        return _store(self._place, self._settings, os.getpid())

    def get(self, path: str, part: RangeRequest) -> FetchedRange:
        """Return an object, or the requested part of it, by one request. Raises GenericError, as
        obstore does, for an answer that is incomplete or does not describe an object.
        """
        options: dict[str, Any] = {"if_match": part.tag} if part.tag else {}
        if part.is_head:
            options["head"] = True
        elif part.span or part.suffix:
            options["range"] = part.span or {"suffix": part.suffix}
        answer = obstore.get(self._store, path, options=options)  # type: ignore[arg-type]
        if not answer.meta["e_tag"]:
            raise GenericError("the answer does not describe an object")
        nonce = answer.attributes.get(_NONCE, "")
        if part.is_head:
            return FetchedRange(b"", 0, _info(path, answer.meta), nonce)
        start, end = answer.range
        validate_size(end - start, path)
        content = bytes(answer.bytes())
        if len(content) != end - start:
            raise GenericError("the answer is cut off")
        return FetchedRange(content, start, _info(path, answer.meta), nonce)

    def list_directory(self, directory: str) -> Listing:
        """List one level with a request for each thousand names."""
        answer = obstore.list_with_delimiter(self._store, directory or None)
        files = [_info(meta["path"], meta) for meta in answer["objects"]]
        return Listing(files, list(answer["common_prefixes"]))

    def list_tree(self, directory: str) -> list[ObjectInfo]:
        """List objects with a request for each thousand of them."""
        answer = obstore.list(self._store, directory or None, chunk_size=1000)
        return [_info(meta["path"], meta) for meta in answer.collect()]

    def has_objects(self) -> bool:
        """Return True if there is any object; one request."""
        return next(iter(obstore.list(self._store, chunk_size=1)), None) is not None

    def put(self, path: str, content: bytes, *, tag: str | None, nonce: str) -> str:
        """Write by one request. The nonce goes into the object's metadata, where `get` reads it
        back.
        """
        mode: Any = "overwrite" if not nonce else "create" if tag is None else {"e_tag": tag}
        attributes = {_NONCE: nonce} if nonce else None
        answer = obstore.put(
            self._store, path, content, mode=mode, attributes=attributes, use_multipart=False
        )
        return answer["e_tag"] or ""

    def put_parts(self, path: str, stream: IO[bytes]) -> None:
        """Send parts of 8 MiB, four at the same time."""
        obstore.put(
            self._store,
            path,
            stream,
            use_multipart=True,
            chunk_size=_PART_BYTES,
            max_concurrency=_PARTS_AT_ONCE,
        )

    def delete(self, paths: Sequence[str]) -> None:
        """Delete with a request for each thousand paths."""
        obstore.delete(self._store, list(paths))


def _info(path: str, meta: Any) -> ObjectInfo:
    return ObjectInfo(
        path, meta["size"], int(meta["last_modified"].timestamp() * 1000), meta["e_tag"] or ""
    )


def _credentials(keys: BucketKeys) -> S3Credential:
    return {
        "access_key_id": keys.access_key_id,
        "secret_access_key": keys.secret_access_key,
        "token": keys.session_token or None,
        "expires_at": None,
    }


@lru_cache(maxsize=64)
def _store(place: BucketPlace, settings: S3Settings, _pid: int) -> S3Store:
    """Return the pool of connections that all of this process share for a table."""
    config: dict[str, Any] = dict(settings.options)
    if settings.endpoint:
        config["aws_endpoint_url_s3"] = settings.endpoint
    keys = settings.keys
    return S3Store(
        place.bucket,
        prefix=place.prefix or None,
        config=config,  # type: ignore[arg-type]
        credential_provider=None if keys is None else partial(_credentials, keys),
        client_options={
            "allow_http": settings.allows_http,
            "connect_timeout": f"{_CONNECT_TIMEOUT_S}s",
            "timeout": f"{settings.timeout_ms}ms",
        },
        retry_config={"max_retries": 0},
    )
