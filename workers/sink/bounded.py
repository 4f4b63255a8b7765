"""A bounded read of a topic, as a job names it: which records, from where to where, and how the
broker is reached. Typed fields only; no map of client settings passes through (threat T5).

Settled once, the offsets of a read never change: what is written later is another read's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workers.errors import InvalidInput
from workers.options.sink_keys import (
    BOOTSTRAP_KEY,
    CONNECTION_KEY,
    CSV_KEY,
    FORMAT_KEY,
    START_KEY,
    TOPIC_KEY,
    ValueFormat,
)
from workers.sink.config import SinkConfig, sink_config

OFFSETS = "offsets"
_OPTIONS = {
    "topic": TOPIC_KEY,
    "bootstrap": BOOTSTRAP_KEY,
    "connection": CONNECTION_KEY,
    "format": FORMAT_KEY,
    "csv_columns": CSV_KEY,
    "start": START_KEY,
    "protocol": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password_env": "sasl.password.env",
    "ca": "ssl.ca.location",
}
FIELDS = (*_OPTIONS, "start_at_ms", OFFSETS)
_TIME_MS_MAX = 253_402_300_800_000


@dataclass(frozen=True, slots=True)
class OffsetRanges:
    """The first offset of each partition, and the one behind the last."""

    topic_id: str
    """The broker's: a topic that was deleted and made again has another."""
    of_partition: Mapping[int, tuple[int, int]]

    @property
    def records_max(self) -> int:
        """As many at most; fewer where a topic was compacted or has transactions."""
        return sum(max(0, end - start) for start, end in self.of_partition.values())

    def encode(self) -> str:
        """As text, which `decode` reads."""
        ranges = {str(at): list(span) for at, span in sorted(self.of_partition.items())}
        return json.dumps({"topic_id": self.topic_id, "partitions": ranges})

    @classmethod
    def decode(cls, text: str) -> OffsetRanges:
        """What `encode` wrote. Raises InvalidInput."""
        try:
            body = json.loads(text)
            ranges = {int(at): (start, end) for at, (start, end) in body["partitions"].items()}
            topic_id = body["topic_id"]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput("these are no settled offsets", given=text[:200]) from error
        spans = list(ranges.values())
        if not isinstance(topic_id, str) or not all(map(_is_span, spans)):
            raise InvalidInput("these are no settled offsets", given=text[:200])
        return cls(topic_id, ranges)


@dataclass(frozen=True, slots=True)
class BoundedRead:
    """What `bounded_read` has checked."""

    config: SinkConfig
    """Of which the read uses the topic, the brokers, the format and the first offsets."""
    start_at_ms: int | None
    """From the first record of this time on, in each partition."""
    settled: OffsetRanges | None
    """Those of the attempt that this one comes in the place of."""


def bounded_read(source: Mapping[str, Any]) -> BoundedRead:
    """The read that a job's source names: `topic`, `bootstrap` or
    `connection`, `format` (json, csv with
    `csv_columns`), `start` (earliest, or offsets by partition) or `start_at_ms`; it ends where the
    topic ends when it begins.

    Raises InvalidInput for another field, and for a value that is none.
    """
    if unknown := sorted(set(source) - {"kind", *FIELDS}):
        raise InvalidInput("source has unknown keys", keys=unknown, known=sorted(FIELDS))
    if wrong := sorted(n for n in _OPTIONS if not isinstance(source.get(n, ""), str)):
        raise InvalidInput("source wants a text", keys=wrong)
    given = {option: str(source[name]) for name, option in _OPTIONS.items() if source.get(name)}
    start_at_ms = source.get("start_at_ms")
    if start_at_ms is not None and (
        type(start_at_ms) is not int or not 0 <= start_at_ms < _TIME_MS_MAX
    ):
        raise InvalidInput("source wants a time in milliseconds", key="start_at_ms")
    if (start_at_ms is None) == (START_KEY not in given):
        raise InvalidInput("a read of a topic begins at start or at start_at_ms, one of the two")
    config = sink_config(given)
    if config.start_offsets == "latest":
        raise InvalidInput("a read that ends where the topic ends does not begin there")
    if config.value_format is ValueFormat.AVRO:
        raise InvalidInput("a bounded read takes json and csv values", format=config.value_format)
    offsets = source.get(OFFSETS)
    settled = None if offsets is None else OffsetRanges.decode(str(offsets))
    return BoundedRead(config, start_at_ms, settled)


def _is_span(span: tuple[object, object]) -> bool:
    start, end = span
    return isinstance(start, int) and isinstance(end, int) and 0 <= start <= end
