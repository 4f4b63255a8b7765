"""A bounded read of a topic, as specified by a job: topic, offsets, format and broker.

Typed fields only: no map of client settings is passed to the client (threat T5). Resolved offsets
of a read never change. Records that are written later belong to another read.
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
    """Range of offsets of each partition, end exclusive."""

    topic_id: str
    """The broker's id: a topic that was deleted and created again has another."""
    of_partition: Mapping[int, tuple[int, int]]

    @property
    def records_max(self) -> int:
        """Upper bound of the records; fewer if the topic is compacted or has transactions."""
        return sum(max(0, end - start) for start, end in self.of_partition.values())

    def encode(self) -> str:
        """Encode the ranges as text for `decode`."""
        ranges = {str(at): list(span) for at, span in sorted(self.of_partition.items())}
        return json.dumps({"topic_id": self.topic_id, "partitions": ranges})

    @classmethod
    def decode(cls, text: str) -> OffsetRanges:
        """Decode the text of `encode`. Raises InvalidInput."""
        try:
            body = json.loads(text)
            ranges = {int(at): (start, end) for at, (start, end) in body["partitions"].items()}
            topic_id = body["topic_id"]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput("invalid offsets of a bounded read", given=text[:200]) from error
        spans = list(ranges.values())
        if not isinstance(topic_id, str) or not all(map(_is_span, spans)):
            raise InvalidInput("invalid offsets of a bounded read", given=text[:200])
        return cls(topic_id, ranges)


@dataclass(frozen=True, slots=True)
class BoundedRead:
    """A bounded read whose options were checked by `parse_bounded_read`."""

    config: SinkConfig
    """Topic, brokers, format and first offsets. The read ignores the other options."""
    start_at_ms: int | None
    """Time in milliseconds since 1970 of the first record of each partition."""
    resolved: OffsetRanges | None
    """Resolved offsets of the earlier attempt that this one replaces."""


def parse_bounded_read(source: Mapping[str, Any]) -> BoundedRead:
    """Parse the source of a job. The read ends at the topic's end offsets when it starts.

    Args:
        source: `topic`; `bootstrap` or `connection`; `format` (json, or csv with `csv_columns`);
            `start` (earliest, or offsets by partition) or `start_at_ms`.

    Raises InvalidInput for an unknown field or an invalid value.
    """
    if unknown := sorted(set(source) - {"kind", *FIELDS}):
        raise InvalidInput("source has unknown keys", keys=unknown, known=sorted(FIELDS))
    if wrong := sorted(n for n in _OPTIONS if not isinstance(source.get(n, ""), str)):
        raise InvalidInput("source wants a text", keys=wrong)
    options = {option: str(source[name]) for name, option in _OPTIONS.items() if source.get(name)}
    start_at_ms = source.get("start_at_ms")
    if start_at_ms is not None and (
        type(start_at_ms) is not int or not 0 <= start_at_ms < _TIME_MS_MAX
    ):
        raise InvalidInput("source wants a time in milliseconds", key="start_at_ms")
    if (start_at_ms is None) == (START_KEY not in options):
        raise InvalidInput("a read of a topic begins at start or at start_at_ms, one of the two")
    config = sink_config(options)
    if config.start_offsets == "latest":
        raise InvalidInput("a read that ends where the topic ends does not begin there")
    if config.value_format is ValueFormat.AVRO:
        raise InvalidInput("a bounded read takes json and csv values", format=config.value_format)
    offsets = source.get(OFFSETS)
    resolved = None if offsets is None else OffsetRanges.decode(str(offsets))
    return BoundedRead(config, start_at_ms, resolved)


def _is_span(span: tuple[object, object]) -> bool:
    start, end = span
    return isinstance(start, int) and isinstance(end, int) and 0 <= start <= end
