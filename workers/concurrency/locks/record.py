"""The one record that a lock is, and the port of whoever keeps it.

A provider offers a compare-and-swap on that record and nothing else; what a lease is, how it is
renewed and who may take it over is `lease.py`, once for all of them.
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
    """Exactly the fields of Hudi's storage-based lock.

    The owner text of ours is `sluice/<epoch>/<acquired at, ms>.<token>-<lease, ms>.<writer>/` and
    the instant being completed, or `-`; the writer's name is percent-encoded.
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
        while he decides nothing, and of a foreign owner.
        """
        parts = self._parts
        return parts[3] if parts and parts[3] != "-" else None

    @property
    def acquired_at_ms(self) -> int | None:
        """None of a foreign owner."""
        text = parts[2].partition(".")[0] if (parts := self._parts) else ""
        return int(text) if text.isdecimal() else None

    @property
    def writer(self) -> str | None:
        """The name that the writer was given; None where it has none or is foreign."""
        named = parts[2].split(".", 2)[2:] if (parts := self._parts) else []
        return (unquote(named[0]) or None) if named else None

    @property
    def lease_ms(self) -> int | None:
        """How long a holder may stay without renewing; None for a foreign owner."""
        if (parts := self._parts) is None:
            return None
        token = (*parts[2].split(".", 2), "")[1]
        lease_text = token.partition("-")[2]
        if lease_text.isdecimal():
            return int(lease_text)
        # Former versions did not say so. Both times are of the holder's clock, and renewing adds.
        acquired_at_ms = self.acquired_at_ms
        at_most_ms = self.valid_until_ms - acquired_at_ms if acquired_at_ms is not None else 0
        return at_most_ms if at_most_ms > 0 else None

    def is_free(self, now_ms: int) -> bool:
        """Whether it was given back, or ran out by more than clocks may differ; `now_ms` is epoch
        ms.
        """
        return self.is_expired or now_ms > self.valid_until_ms + DRIFT_MS

    def until(self, valid_until_ms: int) -> LockState:
        """This holding, renewed until then (epoch ms)."""
        return replace(self, valid_until_ms=valid_until_ms)

    def ended(self) -> LockState:
        """This holding, given back."""
        return replace(self, is_expired=True)

    def about(self, what: str) -> LockState:
        """This holding, about to decide `what`."""
        head, _, _ = self.owner.rpartition("/")
        return replace(self, owner=f"{head}/{what}")

    def encode(self) -> bytes:
        """JSON without spaces of `expired`, `validUntil` and `owner`, as Hudi writes it."""
        body = {
            "expired": self.is_expired,
            "validUntil": self.valid_until_ms,
            "owner": self.owner,
        }
        return json.dumps(body, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class StoredLock:
    """What a store holds now."""

    state: LockState
    tag: str
    """Changes with every replacement; hand it to `replace`."""


class RecordBusy(StorageFailed):
    """Somebody is inside a change of the record, and nothing was changed: ask again."""

    code = "lock_record_busy"


class RecordStore(Protocol):
    """One record, changed by compare-and-swap. Of any number of callers at once one is told True.

    Every call raises StorageFailed where nothing happened, RecordBusy where that may soon be else,
    and a change WriteOutcomeUnknown where it cannot be told; what the record says is then found out
    by reading it.
    """

    @property
    def place(self) -> str:
        """Where the record is, for messages; without passwords."""

    @property
    def is_lasting(self) -> bool:
        """False when the record may vanish with a process, and epochs with it."""

    def read(self) -> StoredLock | None:
        """None where there is no record yet. Raises MalformedTable for a damaged one."""

    def create(self, state: LockState) -> bool:
        """True when this call made the record."""

    def replace(self, state: LockState, tag: str) -> bool:
        """True when the record carried `tag` still and is now `state`."""

    def close(self) -> None:
        """Let go of connections; the store opens them again when it is called again."""


def owner_text(
    epoch: int,
    acquired_at_ms: int,
    token: str,
    writer: str,
    completing: InstantTime | None,
    *,
    lease_ms: int,
) -> str:
    """The owner of a new holding, as `LockState` reads it; `token` makes it unlike any other."""
    named = quote(writer, safe="")
    held = f"{acquired_at_ms}.{token}-{lease_ms}.{named}"
    return f"{_PREFIX}/{epoch}/{held}/{completing or '-'}"


def holding_of(owner: str) -> str:
    """The owner text without what is being completed, which changes under one holding."""
    return owner.rpartition("/")[0] or owner


def decode_lock(content: bytes, place: str = "") -> LockState:
    """The state that a lock's file says, as `LockState.encode` writes it.

    Raises MalformedTable naming `place`.
    """
    try:
        body = read_json(content)
        return LockState(bool(body["expired"]), int(body["validUntil"]), str(body["owner"]))
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable(
            "the record of the table lock is damaged; when no writer runs, delete it", path=place
        ) from error
