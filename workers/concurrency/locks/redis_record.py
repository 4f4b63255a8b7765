"""The lock's record as a key of Redis, changed atomically by a script in Redis.

Redis may lose data: a server that restarts without its log, or evicts keys, loses the record, and
two processes may then hold the lock. Epochs begin at the clock so that they grow even then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from workers.concurrency.locks.record import LockState, StoredLock, decode_lock
from workers.errors import StorageFailed, WriteOutcomeUnknown
from workers.installation import check_imports
from workers.options.lock_options import LockUrl

if TYPE_CHECKING:
    import redis

_Answer = TypeVar("_Answer")
_WAIT_MAX_S = 5
_PREFIX = "sluice:table-lock:"
_REPLACE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
  return 1
end
return 0
"""


class RedisRecord:
    """A `RecordStore` in one key of the Redis at `url`. The first call opens the client."""

    is_lasting = False

    def __init__(self, url: LockUrl, key: str) -> None:
        self._url = url
        self._key = f"{_PREFIX}{key}"
        self._client: redis.Redis | None = None

    @property
    def place(self) -> str:
        """The address and key of the record, without the password."""
        return f"{self._url.redacted} {self._key}"

    def read(self) -> StoredLock | None:
        """Return the record; None if there is none."""
        content = self._call(lambda client: cast("bytes | None", client.get(self._key)))
        if content is None:
            return None
        return StoredLock(decode_lock(content, self.place), content.decode())

    def create(self, state: LockState) -> bool:
        """Create the record; True if this call created it."""
        content = state.encode()
        return bool(
            self._call(lambda client: client.set(self._key, content, nx=True), is_change=True)
        )

    def replace(self, state: LockState, tag: str) -> bool:
        """Replace the record if it still has `tag`."""
        content = state.encode().decode()
        return bool(
            self._call(
                lambda client: client.eval(_REPLACE, 1, self._key, tag, content), is_change=True
            )
        )

    def close(self) -> None:
        """Close the client; the next call opens it again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _call(self, call: Callable[[redis.Redis], _Answer], *, is_change: bool = False) -> _Answer:
        with check_imports():
            from redis import exceptions

        try:
            return call(self._connect())
        except (exceptions.ConnectionError, exceptions.TimeoutError) as error:
            if is_change:
                raise WriteOutcomeUnknown(
                    "the Redis of the table lock was lost while it was being changed",
                    **self._describe_error(error),
                ) from error
            raise StorageFailed(
                "the Redis of the table lock is out of reach; see that it runs, and that address "
                "and password are right",
                **self._describe_error(error),
            ) from error
        except exceptions.RedisError as error:
            raise StorageFailed(
                "the Redis of the table lock refused", **self._describe_error(error)
            ) from error

    def _connect(self) -> redis.Redis:
        if self._client is None:
            import redis

            self._client = redis.Redis.from_url(
                self._url.full,
                socket_timeout=_WAIT_MAX_S,
                socket_connect_timeout=_WAIT_MAX_S,
                client_name="sluice-lock",
            )
        return self._client

    def _describe_error(self, error: Exception) -> dict[str, object]:
        return {"redis": self._url.redacted, "reason": self._url.redact(str(error))}
