"""The only place that decides whether a conditional write happened: done, not done, or unknown.

An answer may be lost although the write took effect. Each write carries a nonce, so reading back
shows whose content it is.
"""

from __future__ import annotations

from workers.errors import NotFound, StorageFailed, WriteOutcomeUnknown
from workers.storage.base import Storage

_ATTEMPTS_MAX = 3


def put_if_absent_known(storage: Storage, path: str, content: bytes) -> bool:
    """Create the file, and return True if it holds `content` now, which must be unique to this
    caller.

    Raises WriteOutcomeUnknown when neither the write nor the reading back can be made to answer.
    """
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            created = storage.put_if_absent(path, content)
        except (WriteOutcomeUnknown, StorageFailed):
            current_content = _read_or_none(storage, path)
            if current_content is not None:
                return current_content == content
            if attempt == _ATTEMPTS_MAX:
                raise
        else:
            return created or storage.read(path) == content
    raise AssertionError("unreachable")


def _read_or_none(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except NotFound:
        return None
    except StorageFailed as error:
        raise WriteOutcomeUnknown("cannot read back a write", path=path) from error
