"""The effect of a failed request to an object store: it did not happen, its condition failed, or it
is unknown.

obstore has one class for most failures, so the status and S3's code are read from the text. That
text names the URL but no credentials; only its status and code go into our errors.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

ANSWERS: Final = (BaseError, FileNotFoundError)
"""All that a call of obstore raises over a well-formed path."""
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,60})</Code>|\(code: ([A-Za-z0-9]{1,60})\)")
_CLOCK = "RequestTimeTooSkewed"
_BUCKET_MISSING = "NoSuchBucket"
_WHOLE = "Received non-partial response"
"""Some stores send an empty object whole when they are asked for its end."""


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
