"""Requests to a bucket, each tried a few times, and what their answers mean.

Retries are made here and not in obstore, because a conditional write that is sent twice may be
rejected by its own first success. Every conditional write therefore carries a nonce in the object's
metadata: a client that is rejected, or gets no answer, reads which nonce the object has.

obstore has one class for most failures, so the status and S3's code are read from the text. That
text names the URL but no credentials; only its status and code go into our errors.
"""

from __future__ import annotations

import random
import re
import time
import uuid
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import IO, Final, TypeVar

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from workers.errors import LakehouseError, NotFound, StorageFailed, WriteOutcomeUnknown
from workers.storage.object_requests import (
    FetchedRange,
    Listing,
    ObjectInfo,
    RangeRequest,
    Requests,
)

ANSWERS: Final = (BaseError, FileNotFoundError)
"""All that a call of obstore raises over a well-formed path."""
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>|\(code: ([A-Za-z0-9]{1,60})\)")
_CLOCK = "RequestTimeTooSkewed"
_BUCKET_MISSING = "NoSuchBucket"
_WHOLE = "Received non-partial response"
"""Some stores send an empty object whole when they are asked for its end."""
ATTEMPTS_MAX = 5
_PAUSE_S = 0.05
_PAUSE_S_MAX = 2.0
_Answer = TypeVar("_Answer")


class Verdict(Enum):
    """The known effect of a failed request."""

    ABSENT = auto()
    """There is no such object."""
    REFUSED = auto()
    """The condition did not hold."""
    FAILED = auto()
    """Nothing happened, and asking again does not help."""
    NOT_NOW = auto()
    """Nothing happened; asking again may help."""
    UNKNOWN = auto()
    """It may have happened."""


def verdict(error: BaseException) -> Verdict:
    """Return the effect of the request that failed with an error of `ANSWERS`. An unrecognised
    error counts as UNKNOWN, so that nothing is promised.
    """
    status, code = _status(error), _code(error)
    if code == _BUCKET_MISSING or _WHOLE in str(error):
        return Verdict.FAILED
    if isinstance(error, FileNotFoundError):
        return Verdict.ABSENT
    if status == 409:  # Another conditional write of the same object is under way.
        return Verdict.NOT_NOW
    if isinstance(error, (AlreadyExistsError, PreconditionError)):
        return Verdict.REFUSED
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return Verdict.FAILED
    if status is not None and status < 500 and status not in (408, 429):
        return Verdict.FAILED
    return Verdict.UNKNOWN


def reason(error: BaseException) -> str:
    """Format the error in a few words, without the address."""
    status, code = _status(error), _code(error)
    if code == _CLOCK:
        return f"{status} {code}: the clock of this machine differs from the store's; set it"
    if code or status:
        return " ".join(str(part) for part in (status, code) if part)
    first = str(error).partition("\n")[0]
    return first.rpartition(" - ")[2][:200] or type(error).__name__


def _status(error: BaseException) -> int | None:
    status_match = _STATUS.search(str(error))
    return int(status_match[1]) if status_match else None


def _code(error: BaseException) -> str:
    code_match = _CODE.search(str(error))
    return (code_match[1] or code_match[2]) if code_match else ""


def pause(attempt: int) -> None:
    """Sleep for a random time, so that clients that failed together do not retry together."""
    share = random.uniform(0.5, 1.0)  # noqa: S311  (a pause, not a secret)
    time.sleep(share * min(_PAUSE_S_MAX, _PAUSE_S * 4**attempt))


class ObjectClient:
    """Thread-safe. Paths are relative to the prefix, and checked by the caller."""

    def __init__(self, requests: Requests, pause: Callable[[int], None] = pause) -> None:
        """`pause` is called between attempts with their number."""
        self._requests = requests
        self._pause = pause

    def get(self, path: str, part: RangeRequest = RangeRequest()) -> FetchedRange:  # noqa: B008  (frozen)
        """Return an object, or the requested `part` of it. Raises NotFound, StorageFailed."""
        return self._safely(path, lambda: self._requests.get(path, part))

    def get_end(self, path: str, size: int) -> FetchedRange:
        """Return the last `size` bytes, or all. Raises as `get`."""
        try:
            return self.get(path, RangeRequest(suffix=size))
        except StorageFailed as error:
            object_info = self.head(path)
            if object_info is None or object_info.size:
                raise error
            return FetchedRange(b"", 0, object_info)  # S3 refuses a range of nothing.

    def head(self, path: str) -> ObjectInfo | None:
        """Return the metadata of an object, or None if there is none. Raises StorageFailed."""
        try:
            return self.get(path, RangeRequest(is_head=True)).object_info
        except NotFound:
            return None

    def list_directory(self, directory: str) -> Listing:
        """List one level. Raises StorageFailed."""
        return self._twice_if_empty(
            directory,
            lambda: self._requests.list_directory(directory),
            lambda listing: listing.files or listing.directories,
        )

    def list_tree(self, directory: str) -> list[ObjectInfo]:
        """List objects at any depth. Raises StorageFailed."""
        return self._twice_if_empty(
            directory, lambda: self._requests.list_tree(directory), lambda objects: objects
        )

    def _twice_if_empty(
        self, directory: str, request: Callable[[], _Answer], has_any: Callable[[_Answer], object]
    ) -> _Answer:
        """List a second time if the first is empty: an error with the status of a success reads
        like an empty listing.
        """
        first = self._safely(directory, request)
        return first if has_any(first) else self._safely(directory, request)

    def put(self, path: str, content: bytes) -> None:
        """Write an object, in the place of any other. Raises StorageFailed, WriteOutcomeUnknown."""
        self._repeatedly(path, lambda: self._requests.put(path, content, tag=None, nonce=""))

    def put_parts(self, path: str, stream: IO[bytes]) -> None:
        """Write a large object, visible when all of it is there. Raises as `put`."""

        def send() -> None:
            stream.seek(0)
            self._requests.put_parts(path, stream)

        self._repeatedly(path, send)

    def delete(self, paths: Sequence[str]) -> None:
        """Delete any number of objects, a thousand to a request. Raises as `put`."""
        if paths:
            self._repeatedly(paths[0], lambda: self._requests.delete(paths))

    def put_conditionally(self, path: str, content: bytes, *, tag: str | None = None) -> str | None:
        """Create the object, or replace the version `tag`, and return the new tag, or None if the
        condition does not hold.

        Raises StorageFailed, WriteOutcomeUnknown.
        """
        nonce = uuid.uuid4().hex
        last: BaseException | None = None
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._pause(attempt)
            try:
                return self._requests.put(path, content, tag=tag, nonce=nonce)
            except ANSWERS as error:
                last = error
                answer_verdict = verdict(error)
            if answer_verdict is Verdict.FAILED:
                raise _build_failure(path, last)
            if answer_verdict is Verdict.NOT_NOW:
                continue
            if answer_verdict is Verdict.ABSENT:  # Nothing carries the tag.
                return None
            tag_and_nonce = self._tag_and_nonce(path)
            if tag_and_nonce is not None and tag_and_nonce[1] == nonce:
                return tag_and_nonce[0]
            if answer_verdict is Verdict.REFUSED or (
                tag_and_nonce is not None and tag_and_nonce[0] != tag
            ):
                return None
        assert last is not None
        raise _build_unknown(path, last)

    def _tag_and_nonce(self, path: str) -> tuple[str, str] | None:
        """Return tag and nonce of the current object. Raises WriteOutcomeUnknown."""

        try:
            fetched = self.get(path, RangeRequest(is_head=True))
            return fetched.object_info.tag, fetched.nonce
        except NotFound:
            return None
        except StorageFailed as error:
            raise WriteOutcomeUnknown(
                "cannot read back a write", path=path, reason=error.values.get("reason")
            ) from error

    def _safely(self, path: str, ask: Callable[[], _Answer]) -> _Answer:
        """Repeat a call that changes nothing after any error."""
        return self._try_call(path, ask, _build_failure)

    def _repeatedly(self, path: str, change: Callable[[], object]) -> None:
        """Repeat a call that has the same effect when it is done twice."""
        self._try_call(path, change, _build_unknown)

    def _try_call(
        self,
        path: str,
        call: Callable[[], _Answer],
        gave_up: Callable[[str, BaseException], LakehouseError],
    ) -> _Answer:
        last: BaseException | None = None
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._pause(attempt)
            try:
                return call()
            except ANSWERS as error:
                last = error
                answer_verdict = verdict(error)
            if answer_verdict is Verdict.ABSENT:
                raise NotFound("no such file", path=path) from last
            if answer_verdict in (Verdict.FAILED, Verdict.REFUSED):
                raise _build_failure(path, last) from last
        assert last is not None
        raise gave_up(path, last) from last


def _build_failure(path: str, error: BaseException) -> StorageFailed:
    return StorageFailed("storage failed", path=path, reason=reason(error))


def _build_unknown(path: str, error: BaseException) -> WriteOutcomeUnknown:
    return WriteOutcomeUnknown("storage gave no clear answer", path=path, reason=reason(error))
