"""The record of a lock, and the port of its store.

A provider implements a compare-and-swap of that record and nothing else. The rules of leases,
renewal and takeover are in `lease.py`, once for all providers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import quote, unquote

from workers.clock import InstantTime
from workers.errors import MalformedTable, StorageFailed
from workers.json_text import read_json

DRIFT_MS = 500
"""By how much the clocks of two machines may differ."""
_PREFIX = "sluice"
_PARTS = 4


@dataclass(frozen=True, slots=True)
class LockState:
    """The fields of Hudi's storage-based lock.

    Our owner text is `sluice/<epoch>/<acquired at, ms>.<token>-<lease, ms>.<writer>/` and the
    instant being completed, or `-`; the writer's name is percent-encoded.
    """

    is_expired: bool
    valid_until_ms: int
    owner: str

    @property
    def _parts(self) -> list[str] | None:
        parts = self.owner.split("/")
        is_ours = len(parts) == _PARTS and parts[0] == _PREFIX and parts[1].isdecimal()
        return parts if is_ours else None

    @property
    def epoch(self) -> int:
        """The holding's number; for a foreign owner its end of validity, which is greater than any
        epoch counted so far.
        """
        return int(parts[1]) if (parts := self._parts) else self.valid_until_ms

    @property
    def completing(self) -> InstantTime | None:
        """The instant that the holder is about to decide, `<target>+<rollback>` for an undo; None
        if it decides nothing, and for a foreign owner.
        """
        parts = self._parts
        return parts[3] if parts and parts[3] != "-" else None

    @property
    def acquired_at_ms(self) -> int | None:
        """The time of acquisition; None for a foreign owner."""
        text = parts[2].partition(".")[0] if (parts := self._parts) else ""
        return int(text) if text.isdecimal() else None

    @property
    def writer(self) -> str | None:
        """The name that the writer was given; None where it has none or is foreign."""
        named = parts[2].split(".", 2)[2:] if (parts := self._parts) else []
        return (unquote(named[0]) or None) if named else None

    @property
    def lease_ms(self) -> int | None:
        """The time that a holder may stay without renewing; None for a foreign owner."""
        if (parts := self._parts) is None:
            return None
        token = (*parts[2].split(".", 2), "")[1]
        lease_text = token.partition("-")[2]
        if lease_text.isdecimal():
            return int(lease_text)
        # Former versions do not record it. Both times are of the holder's clock, and renewing adds.
        acquired_at_ms = self.acquired_at_ms
        at_most_ms = self.valid_until_ms - acquired_at_ms if acquired_at_ms is not None else 0
        return at_most_ms if at_most_ms > 0 else None

    def is_free(self, now_ms: int) -> bool:
        """Check if it was released, or expired by more than clocks may differ; `now_ms` is epoch
        ms.
        """
        return self.is_expired or now_ms > self.valid_until_ms + DRIFT_MS

    def until(self, valid_until_ms: int) -> LockState:
        """Return this holding, renewed until then (epoch ms)."""
        return replace(self, valid_until_ms=valid_until_ms)

    def to_ended(self) -> LockState:
        """Return this holding as released."""
        return replace(self, is_expired=True)

    def about(self, what: str) -> LockState:
        """Return this holding, about to decide `what`."""
        head, _, _ = self.owner.rpartition("/")
        return replace(self, owner=f"{head}/{what}")

    def encode(self) -> bytes:
        """Return JSON without spaces of `expired`, `validUntil` and `owner`, as Hudi writes it."""
        body = {
            "expired": self.is_expired,
            "validUntil": self.valid_until_ms,
            "owner": self.owner,
        }
        return json.dumps(body, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class StoredLock:
    """A lock record as it is stored."""

    state: LockState
    tag: str
    """Changes with every replacement; hand it to `replace`."""


class RecordBusy(StorageFailed):
    """Another process is changing the record, and nothing was changed: retry."""

    code = "lock_record_busy"


class RecordStore(Protocol):
    """A store of one record, changed by compare-and-swap. Exactly one of several concurrent callers
    gets True.

    Every call raises StorageFailed if nothing was changed, RecordBusy if a retry may succeed soon.
    A change raises WriteOutcomeUnknown if its result is unknown; the caller then reads the record.
    """

    @property
    def place(self) -> str:
        """The location of the record for messages, without passwords."""

    @property
    def is_lasting(self) -> bool:
        """False when the record may vanish with a process, and epochs with it."""

    def read(self) -> StoredLock | None:
        """Return the record; None if there is none yet. Raises MalformedTable for a damaged one."""

    def create(self, state: LockState) -> bool:
        """Create the record; True if this call created it."""

    def replace(self, state: LockState, tag: str) -> bool:
        """Replace the record if it still has `tag`; True if it is now `state`."""

    def close(self) -> None:
        """Close connections; the next call opens them again."""


def owner_text(
    epoch: int,
    acquired_at_ms: int,
    token: str,
    writer: str,
    completing: InstantTime | None,
    *,
    lease_ms: int,
) -> str:
    """Return the owner of a new holding, as `LockState` parses it; `token` makes it unique."""
    named = quote(writer, safe="")
    held = f"{acquired_at_ms}.{token}-{lease_ms}.{named}"
    return f"{_PREFIX}/{epoch}/{held}/{completing or '-'}"


def holder_token(owner: str) -> str:
    """Return the owner text without the instant being completed, which changes under one
    holding.
    """
    return owner.rpartition("/")[0] or owner


def decode_lock(content: bytes, place: str = "") -> LockState:
    """Parse the content of a lock's file, as `LockState.encode` writes it.

    Raises MalformedTable naming `place`.
    """
    try:
        body = read_json(content)
        return LockState(bool(body["expired"]), int(body["validUntil"]), str(body["owner"]))
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable(
            "the record of the table lock is damaged; when no writer runs, delete it", path=place
        ) from error
