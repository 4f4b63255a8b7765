"""From where a transaction reads: the standing offsets held against what the topic still has.

Pure. Nothing is ever taken for 0: where nobody says from where to read, or the topic is not the one
that the offsets are of, it is an error for a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from workers.errors import InvalidInput, OffsetExpired, OffsetsMissing, TopicReplaced
from workers.options.sink_keys import OnExpired
from workers.sink.config import SinkConfig
from workers.sink.offsets import OffsetMap, SinkCommit

RESET = (
    "`manage.py sink reset`, or Reset offsets on the sink's page, shows where it would go on, and "
    "sets it there"
)


class TopicRange(Protocol):
    """What the broker says of the topic."""

    @property
    def topic_id(self) -> str:
        """The broker's id: a topic that was deleted and made again has another."""
        ...

    @property
    def cluster_id(self) -> str:
        """Empty where the brokers say none."""
        ...

    @property
    def watermarks(self) -> Mapping[int, tuple[int, int]]:
        """Partition to the first offset that is left, and where its records end."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a transaction reads from; `starts` has every partition of the topic."""

    bases: OffsetMap
    """The standing offsets; partitions that have none are not in it."""
    starts: OffsetMap
    lost: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Partition to the offsets, the last one exclusive, that the topic lost unread."""

    def reads_something(self, topic: TopicRange) -> bool:
        """Whether any partition has records at or above its start."""
        return any(topic.watermarks[one][1] > start for one, start in self.starts.items())


def beginning(
    config: SinkConfig,
    last_commit: SinkCommit,
    topic: TopicRange,
    *,
    agreed: OffsetMap,
    has_rows: bool,
) -> Beginning:
    """`agreed`: first offsets that were found before, so that `latest` stays where it was until the
    first commit. `has_rows`: of the table.

    Raises OffsetsMissing, TopicReplaced, OffsetExpired, InvalidInput.
    """
    if not topic.watermarks:
        raise InvalidInput("the topic has no partitions", topic=config.topic)
    _check_topic(config, last_commit, topic)
    starts: dict[int, int] = {}
    lost: dict[int, tuple[int, int]] = {}
    for partition, (low, high) in sorted(topic.watermarks.items()):
        base = last_commit.offsets.get(partition)
        if base is None:
            wanted = agreed.get(partition)
            if wanted is None:
                known = {**agreed, **last_commit.offsets}
                wanted = _first(config, known, partition, (low, high), has_rows=has_rows)
        else:
            wanted = base
        if wanted > high:
            raise TopicReplaced(
                "the topic ends before the next offset; " + RESET,
                topic=config.topic,
                partition=partition,
                next=wanted,
                end=high,
            )
        if wanted < low:
            _check_expired(config, partition, wanted, low)
            lost[partition] = (wanted, low)
        starts[partition] = max(wanted, low)
    bases = {one: last_commit.offsets[one] for one in starts if one in last_commit.offsets}
    return Beginning(bases, starts, lost)


def _check_topic(config: SinkConfig, last_commit: SinkCommit, topic: TopicRange) -> None:
    if not last_commit.offsets:
        return
    if last_commit.topic != config.topic:
        raise TopicReplaced(
            "this sink's offsets are of another topic; a sink of another id reads this one",
            sink=config.sink_id,
            committed=last_commit.topic,
            topic=config.topic,
        )
    if last_commit.topic_id != topic.topic_id:
        raise TopicReplaced(
            "the topic was deleted and made again; " + RESET,
            topic=config.topic,
            committed=last_commit.topic_id,
            id=topic.topic_id,
        )
    if gone := sorted(last_commit.offsets.keys() - topic.watermarks.keys()):
        raise TopicReplaced(
            "the topic has lost partitions; " + RESET, topic=config.topic, partitions=gone
        )


def _first(
    config: SinkConfig,
    known: OffsetMap,
    partition: int,
    ends: tuple[int, int],
    *,
    has_rows: bool,
) -> int:
    """Where to begin in a partition that this sink never saw; `known` are those that it did."""
    low, high = ends
    if known:
        return low  # It was added to the topic: all of it is new.
    match config.start_offsets:
        case "earliest":
            return low
        case "latest":
            return high
        case str():
            if has_rows:
                raise OffsetsMissing(
                    "the table has rows and no offsets of this sink: set "
                    "hoodie.kafka.start.offsets to earliest, latest or an offset per partition",
                    sink=config.sink_id,
                )
            return low
        case given:
            if partition not in given:
                raise OffsetsMissing(
                    "hoodie.kafka.start.offsets names no offset of a partition",
                    partition=partition,
                    given=dict(given),
                )
            return given[partition]


def _check_expired(config: SinkConfig, partition: int, wanted: int, low: int) -> None:
    if config.on_expired is OnExpired.FAIL:
        raise OffsetExpired(
            "the topic no longer has the next records; set hoodie.kafka.on.expired=earliest to "
            "go on without them",
            topic=config.topic,
            partition=partition,
            next=wanted,
            first=low,
            lost=low - wanted,
        )
