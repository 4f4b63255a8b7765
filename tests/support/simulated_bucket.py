"""A bucket in memory that fails as S3 does, at one chosen request (reliability.md, L7).

It stands below the retries: what is tested is all of ours. Its errors have obstore's classes and
words.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, TypeVar

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    GenericError,
    PermissionDeniedError,
    PreconditionError,
)

from tests.support.crash_ports import StillClock
from workers.locations import BucketPlace
from workers.storage.object_client import ObjectClient
from workers.storage.object_requests import FetchedRange, Listing, ObjectInfo, RangeRequest
from workers.storage.object_store import ObjectStorage

_Answer = TypeVar("_Answer")


def _error_text(status: int, code: str) -> str:
    return f"Server returned non-2xx status code: {status} X: <Error><Code>{code}</Code></Error>"


BEFORE: dict[str, Callable[[], BaseError]] = {
    "503": lambda: GenericError(_error_text(503, "SlowDown")),
    "500": lambda: GenericError(_error_text(500, "InternalError")),
    "timeout-before": lambda: GenericError("HTTP error: error sending request"),
    "reset-mid-body": lambda: GenericError("HTTP error: request or response body error"),
    "409": lambda: AlreadyExistsError(_error_text(409, "ConditionalRequestConflict")),
    "expired": lambda: PermissionDeniedError(_error_text(403, "ExpiredToken")),
    "skewed": lambda: PermissionDeniedError(_error_text(403, "RequestTimeTooSkewed")),
}
AFTER: dict[str, Callable[[], BaseError]] = {
    "timeout-after": lambda: GenericError("HTTP error: error sending request"),
    "truncated": lambda: GenericError("the answer is cut off"),
    "1-byte-a-second": lambda: GenericError("HTTP error: operation timed out"),
    "412-after-success": lambda: PreconditionError(_error_text(412, "PreconditionFailed")),
}
KINDS = (*BEFORE, *AFTER, "duplicated", "200-with-error", "stale-list", "stale-get")
READS, LISTS = ("get", "head"), ("list_directory", "list_tree")


@dataclass
class Stored:
    content: bytes
    tag: str
    nonce: str
    modified_ms: int


@dataclass
class SimulatedBucket:
    """`Requests` in memory. The `at`-th request (from 1) meets `kind`."""

    clock: StillClock
    stored: dict[str, Stored] = field(default_factory=dict)
    kind: str = ""
    at: int = 0
    operations: list[str] = field(default_factory=list)
    """What was asked, in order."""
    before: dict[str, Stored] = field(default_factory=dict)
    """As it was before the last change."""

    def storage(self) -> ObjectStorage:
        place = BucketPlace("simulated", uuid.uuid4().hex)
        client = ObjectClient(self, lambda attempt: self.clock.sleep(0.1))
        return ObjectStorage(place, client, at_once_max=1)

    def get(self, path: str, wanted: RangeRequest) -> FetchedRange:
        return self._asked("head" if wanted.is_head else "get", lambda: self._get(path, wanted))

    def list_directory(self, directory: str) -> Listing:
        return self._asked("list_directory", lambda: self._listed(directory), Listing([], []))

    def list_tree(self, directory: str) -> list[ObjectInfo]:
        return self._asked("list_tree", lambda: self._below(directory), [])

    def put(self, path: str, content: bytes, *, tag: str | None, nonce: str) -> str:
        name = "put" if not nonce else "put_if_absent" if tag is None else "replace_if_match"
        return self._asked(name, lambda: self._put(path, content, tag, nonce))

    def put_parts(self, path: str, stream: IO[bytes]) -> None:
        content = stream.read()
        self._asked("put_parts", lambda: self._put(path, content, None, ""))

    def delete(self, paths: Sequence[str]) -> None:
        self._asked("delete", lambda: self._delete(paths))

    def _asked(
        self, name: str, act: Callable[[], _Answer], empty: _Answer | None = None
    ) -> _Answer:
        self.operations.append(name)
        if len(self.operations) != self.at:
            return act()
        is_conditional = name in ("put_if_absent", "replace_if_match")
        if self.kind in BEFORE and (self.kind != "409" or is_conditional):
            failed = BEFORE[self.kind]()
            raise failed
        if self.kind in AFTER and (self.kind != "412-after-success" or is_conditional):
            act()
            failed = AFTER[self.kind]()
            raise failed
        match self.kind:
            case "duplicated":
                act()
            case "200-with-error" if empty is not None:
                return empty
            case "200-with-error":
                raise GenericError("the answer is no object")
            case "stale-list" if name in LISTS:
                return self._of_before(act)
            case "stale-get" if name in READS:
                return self._of_before(act)
        return act()

    def _of_before(self, act: Callable[[], _Answer]) -> _Answer:
        now, self.stored = self.stored, self.before
        try:
            return act()
        finally:
            self.stored = now

    def _get(self, path: str, wanted: RangeRequest) -> FetchedRange:
        stored = self.stored.get(path)
        if stored is None:
            raise FileNotFoundError(path)
        if wanted.tag and wanted.tag != stored.tag:
            raise PreconditionError("another version")
        start, end = wanted.span or (0, len(stored.content))
        if wanted.suffix:
            start = max(0, end - wanted.suffix)
        content = b"" if wanted.is_head else stored.content[start:end]
        return FetchedRange(content, start, self._info(path), stored.nonce)

    def _info(self, path: str) -> ObjectInfo:
        stored = self.stored[path]
        return ObjectInfo(path, len(stored.content), stored.modified_ms, stored.tag)

    def _below(self, directory: str) -> list[ObjectInfo]:
        start = f"{directory}/" if directory else ""
        return [self._info(path) for path in sorted(self.stored) if path.startswith(start)]

    def _listed(self, directory: str) -> Listing:
        start = len(directory) + 1 if directory else 0
        infos = self._below(directory)
        deeper = {one.path[start:].partition("/")[0] for one in infos if "/" in one.path[start:]}
        prefix = f"{directory}/" if directory else ""
        files = [one for one in infos if "/" not in one.path[start:]]
        return Listing(files, sorted(prefix + name for name in deeper))

    def _put(self, path: str, content: bytes, tag: str | None, nonce: str) -> str:
        current = self.stored.get(path)
        if nonce and tag is None and current is not None:
            raise AlreadyExistsError("Object already exists at that location")
        if nonce and tag is not None and (current is None or current.tag != tag):
            raise PreconditionError("another version")
        self.before = dict(self.stored)
        made = hashlib.sha256(content + nonce.encode()).hexdigest()
        self.stored[path] = Stored(content, made, nonce, self.clock.now_ms())
        return made

    def _delete(self, paths: Sequence[str]) -> None:
        self.before = dict(self.stored)
        for path in paths:
            self.stored.pop(path, None)
