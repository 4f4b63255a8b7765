"""Orders of a shop as a topic brings them: new ones, changes of them, some taken back, and now and
then a record that nobody can read. Every event is a function of (seed, run, number) alone.

A change is about an order of the last few hundred, and is told by the whole order anew, as change
streams do. One in thirty events takes an order away by a tombstone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

KEY: Final = "order_id"
ORDERING: Final = "updated_at"
PARTITION_BY: Final = "country"
_COLUMNS: Final[dict[str, pa.DataType]] = {
    KEY: pa.string(),
    PARTITION_BY: pa.string(),
    "status": pa.string(),
    "amount": pa.float64(),
    "items": pa.int32(),
    ORDERING: pa.timestamp("us", tz="UTC"),
}
SCHEMA: Final = pa.schema(_COLUMNS)
COUNTRIES: Final = ("no", "de", "pe")
_STATUSES: Final = ("placed", "paid", "packed", "shipped", "delivered")
_NEW: Final = 0.55
_TAKEN_BACK: Final = 1 / 30
_POISON_EVERY: Final = 150
_BACK_MAX: Final = 400
"""How many events ago an order that changes was placed."""


@dataclass(frozen=True, slots=True)
class Event:
    """A record of the orders' topic: the order's key and its new state, as JSON but for poison."""

    key: bytes
    value: bytes | None
    """None takes the order away."""


@dataclass(frozen=True, slots=True)
class Orders:
    """A repeatable stream of orders: events follow from `seed`, `run`, number and time."""

    seed: int
    run: int
    """Orders of two runs have different ids."""

    def event(self, number: int, at_ms: int) -> Event:
        """The `number`-th event, produced at this time."""
        chance = np.random.default_rng((self.seed, self.run, number))
        if number % _POISON_EVERY == _POISON_EVERY - 1:
            return self._poison(number, at_ms)
        drawn = float(chance.random())
        if drawn < _NEW or number == 0:
            return self._order(number, 0, at_ms)
        placed = max(0, number - int(chance.integers(1, _BACK_MAX)))
        if drawn > 1 - _TAKEN_BACK:
            return Event(self._key(placed), None)
        return self._order(placed, int(chance.integers(1, len(_STATUSES))), at_ms)

    def _order(self, placed: int, step: int, at_ms: int) -> Event:
        chance = np.random.default_rng((self.seed, self.run, placed, 1))
        order = {
            **self._identity(placed),
            "status": _STATUSES[step],
            "amount": round(float(chance.gamma(2.0, 30.0)), 2),
            "items": int(chance.integers(1, 6)),
            ORDERING: at_ms * 1000,
        }
        return Event(self._key(placed), json.dumps(order).encode())

    def _poison(self, number: int, at_ms: int) -> Event:
        """What broken producers send: half a message, a word for a number, an order without id."""
        whole = self._order(number, 0, at_ms).value or b""
        order: dict[str, Any] = json.loads(whole)
        values = (
            whole[: len(whole) // 2],
            json.dumps({**order, "amount": "a lot"}).encode(),
            json.dumps({**order, KEY: None}).encode(),
        )
        return Event(self._key(number), values[number // _POISON_EVERY % len(values)])

    def _key(self, placed: int) -> bytes:
        return json.dumps(self._identity(placed)).encode()

    def _identity(self, placed: int) -> dict[str, str]:
        return {
            KEY: f"{self.run}-{placed:06d}",
            PARTITION_BY: COUNTRIES[placed % len(COUNTRIES)],
        }
