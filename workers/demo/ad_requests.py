"""Ad requests as three streams: impression, click, conversion. Generated, seeded, repeatable.

A request has one id and one region in all three streams; each stream knows only its own columns of
it, and has a clock of its own. Not every request is clicked, few convert. Events come late and out
of order: some wait up to three rounds, and a few are delivered twice. Some are corrected, and some
conversions taken back; either may arrive before what it is about. Every value is a function of
(seed, run, stream, round) alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from workers.errors import InvalidInput

Stream = Literal["impression", "click", "conversion"]
STREAMS: Final[tuple[Stream, ...]] = ("impression", "click", "conversion")
KEY: Final = "request_id"
CLOCKS: Final[dict[Stream, str]] = {
    "impression": "requested_at",
    "click": "clicked_at",
    "conversion": "converted_at",
}
"""What orders the versions of each stream's columns."""
PARTITION: Final = "region"
REGIONS: Final = ("apac", "emea", "north-america")

_CAMPAIGNS = ("spring-sale", "launch", "brand", "retarget", "clearance")
_PLACEMENTS = ("banner-top", "sidebar", "in-feed", "video-pre-roll")
_DEVICES = ("phone", "desktop", "tablet", "tv")
_PRODUCTS = ("shoes", "jacket", "tent", "lamp", "bottle", "map")
_CLICK_RATE = 0.4
_CONVERSION_RATE = 0.15
_DELAY_ROUNDS_MAX = 3
_DELAYS = (0.70, 0.15, 0.10, 0.05)
"""How likely an event comes 0, 1, 2 or 3 rounds late."""
_REPEATED = 0.03
_FOLLOWED = 0.08
"""How many events are corrected, or for conversions taken back, later."""
_FOLLOW_ROUNDS = 2
_FOLLOW_US = 90_000_000
_UTC = pa.timestamp("us", tz="UTC")

_SHARED: list[pa.Field[Any]] = [
    pa.field(KEY, pa.string()),
    pa.field(PARTITION, pa.string()),
]
OWN_FIELDS: dict[Stream, list[pa.Field[Any]]] = {
    "impression": [
        pa.field("requested_at", _UTC),
        pa.field("campaign", pa.string()),
        pa.field("placement", pa.string()),
        pa.field("device", pa.string()),
        pa.field("price", pa.float64()),
    ],
    "click": [
        pa.field("clicked_at", _UTC),
        pa.field("click_x", pa.int32()),
        pa.field("click_y", pa.int32()),
    ],
    "conversion": [
        pa.field("converted_at", _UTC),
        pa.field("product", pa.string()),
        pa.field("revenue", pa.float64()),
    ],
}
TABLE_SCHEMA: Final = pa.schema([*_SHARED, *(one for s in STREAMS for one in OWN_FIELDS[s])])
IS_DELETED: Final = "_hoodie_is_deleted"
_MARK = pa.field(IS_DELETED, pa.bool_())
COLUMN_GROUPS: Final = json.dumps(
    [
        {
            "name": stream,
            "ordering": [clock],
            "columns": [one.name for one in OWN_FIELDS[stream] if one.name != clock],
        }
        for stream, clock in CLOCKS.items()
    ]
)
"""`hoodie.multistream.groups` of the demo's table."""


@dataclass(frozen=True, slots=True)
class AdRequests:
    """One run of the generator; the same parameters give the same events anywhere."""

    seed: int
    run: int
    """When the first request of this run was made: seconds since 1970. Also the run's name."""
    rounds: int = 40
    requests_per_round: int = 40
    pace_ms: int = 5_000
    """One round of requests was made in this time."""

    def events(self, stream: Stream, number: int) -> pa.Table:
        """What `stream` delivers in this round, in the order of delivery.

        Raises InvalidInput for a round outside the run.
        """
        if not 0 <= number < self.rounds:
            raise InvalidInput("the run has no such round", round=number, rounds=self.rounds)
        first = max(0, number - _DELAY_ROUNDS_MAX)
        parts = [self._delivered(stream, made, number) for made in range(first, number + 1)]
        parts += [self._followed(stream, made) for made in self._made_for(number)]
        events = pa.concat_tables(parts)
        order = self._chance(stream, number, "order").permutation(events.num_rows)
        return events.take(order)

    def _delivered(self, stream: Stream, made: int, number: int) -> pa.Table:
        """Events of requests made in round `made` that arrive in round `number`."""
        happened = self._happened(stream, made)
        chance = self._chance(stream, made, "delay")
        delays = chance.choice(len(_DELAYS), self.requests_per_round, p=_DELAYS)
        repeats = chance.random(self.requests_per_round) < _REPEATED
        late = number - made
        arrives = delays == late
        if number == self.rounds - 1:
            arrives = delays >= late  # Nothing is left behind when the run ends.
        else:
            arrives |= repeats & (delays + 1 == late)
        chosen = np.flatnonzero(happened & arrives)
        return self._all_events(stream, made).take(chosen)

    def _made_for(self, number: int) -> range:
        """Rounds whose corrections arrive in this one; the last round has all that are left."""
        last = self.rounds if number == self.rounds - 1 else number - _FOLLOW_ROUNDS + 1
        return range(max(0, number - _FOLLOW_ROUNDS), last)

    def _followed(self, stream: Stream, made: int) -> pa.Table:
        """Later versions of events of round `made`: every other conversion of them is taken
        back.
        """
        chance = self._chance(stream, made, "follow")
        chosen = self._happened(stream, made) & (chance.random(self.requests_per_round) < _FOLLOWED)
        at = np.flatnonzero(chosen)
        events = self._all_events(stream, made, version=1).take(at)
        if stream != "conversion":
            return events
        is_deleted = pa.array(at % 2 == 0)
        return events.set_column(events.num_columns - 1, _MARK, is_deleted)

    def _happened(self, stream: Stream, made: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        requests = np.ones(self.requests_per_round, dtype=np.bool_)
        if stream == "impression":
            return requests
        clicked = self._chance("click", made, "happens").random(len(requests)) < _CLICK_RATE
        if stream == "click":
            return clicked
        # Some conversions have no click: seen on one device, bought on another.
        converted = self._chance(stream, made, "happens").random(len(requests))
        return np.where(clicked, converted < 3 * _CONVERSION_RATE, converted < _CONVERSION_RATE / 3)

    def _all_events(self, stream: Stream, made: int, version: int = 0) -> pa.Table:
        """One event of the stream per request of the round, whether it happened or not; version 1
        is its correction, a while later by the stream's clock.
        """
        count = self.requests_per_round
        numbers = np.arange(made * count, (made + 1) * count)
        moments = self._moments(numbers)
        shared = [
            pa.array([f"{self.run}-{number:06d}" for number in numbers.tolist()]),
            pa.array([REGIONS[number % len(REGIONS)] for number in numbers.tolist()]),
        ]
        what = "corrected" if version else "values"
        own = _OWN[stream](self._chance(stream, made, what), moments + version * _FOLLOW_US)
        fields = [*_SHARED, *OWN_FIELDS[stream]]
        if stream == "conversion":
            fields.append(_MARK)
            own.append(pa.repeat(pa.scalar(False), count))
        return pa.table([*shared, *own], schema=pa.schema(fields))

    def _moments(self, numbers: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """Microseconds since 1970, strictly increasing with the request's number."""
        step_us = self.pace_ms * 1_000 // self.requests_per_round
        return self.run * 1_000_000 + numbers * step_us

    def _chance(self, stream: Stream, number: int, what: str) -> np.random.Generator:
        words = ("order", "delay", "happens", "values", "follow", "corrected")
        return np.random.default_rng(
            [self.seed, self.run, STREAMS.index(stream), number, words.index(what)]
        )


def _impressions(chance: np.random.Generator, moments: Any) -> list[pa.Array[Any]]:
    count = len(moments)
    return [
        pa.array(moments, pa.int64()).cast(_UTC),
        pa.array(chance.choice(_CAMPAIGNS, count)),
        pa.array(chance.choice(_PLACEMENTS, count)),
        pa.array(chance.choice(_DEVICES, count)),
        pa.array(np.round(chance.gamma(2.0, 1.5, count), 4)),
    ]


def _clicks(chance: np.random.Generator, moments: Any) -> list[pa.Array[Any]]:
    count = len(moments)
    waits_us = (np.minimum(chance.exponential(4.0, count), 60) * 1_000_000).astype(np.int64)
    return [
        pa.array(moments + waits_us, pa.int64()).cast(_UTC),
        pa.array(chance.integers(0, 970, count), pa.int32()),
        pa.array(chance.integers(0, 250, count), pa.int32()),
    ]


def _conversions(chance: np.random.Generator, moments: Any) -> list[pa.Array[Any]]:
    count = len(moments)
    waits_us = (np.minimum(chance.exponential(15.0, count), 60) * 1_000_000).astype(np.int64)
    return [
        pa.array(moments + waits_us, pa.int64()).cast(_UTC),
        pa.array(chance.choice(_PRODUCTS, count)),
        pa.array(np.round(chance.gamma(3.0, 20.0, count), 2)),
    ]


_OWN: dict[Stream, Callable[[np.random.Generator, Any], list[pa.Array[Any]]]] = {
    "impression": _impressions,
    "click": _clicks,
    "conversion": _conversions,
}
