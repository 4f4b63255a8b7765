"""From where a transaction reads: the standing offsets held against what the topic still has.

Pure. Nothing is ever taken for 0: where nobody says from where to read, or the topic is not the one
that the offsets are of, it is an error for a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from workers.errors import InvalidInput, OffsetExpired, OffsetsMissing, TopicReplaced
from workers.installation import format_command
from workers.options.sink_keys import OnExpired
from workers.sink.config import SinkConfig
from workers.sink.offsets import OffsetMap, SinkCommit

RESET = (
    f"`{format_command('sink reset')}`, or Reset offsets on the sink's page, shows where it would "
    "go on, and sets it there"
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
    """Partition to the offsets, the last one exclusive, that the topic lost before the sink read
    them: since the standing offset, or since the topic was made where all of it is to be read.
    """

    def without_bases(self) -> Beginning:
        """Return what holds of partitions without a standing offset. A restore may take a standing
        offset away; then the partition does not go on where that offset was.
        """
        starts = {one: at for one, at in self.starts.items() if one not in self.bases}
        return Beginning({}, starts, {one: self.lost[one] for one in starts if one in self.lost})

    def reads_something(self, topic: TopicRange) -> bool:
        """Whether any partition has records at or above its start."""
        return any(topic.watermarks[one][1] > start for one, start in self.starts.items())


def chosen_offsets(config: SinkConfig, topic: TopicRange) -> OffsetMap:
    """Return where `latest`, or offsets that were given, begin in each partition of the topic.

    Raises OffsetsMissing for a partition that no offset was given of.
    """
    given = config.start_offsets
    if isinstance(given, str):
        return {one: high for one, (_, high) in topic.watermarks.items()}
    for partition in topic.watermarks:
        if partition not in given:
            raise OffsetsMissing(
                "hoodie.kafka.start.offsets names no offset of a partition",
                partition=partition,
                given=dict(given),
            )
    return {one: given[one] for one in topic.watermarks}


def beginning(
    config: SinkConfig,
    last_commit: SinkCommit,
    topic: TopicRange,
    *,
    agreed: Beginning | None,
    has_rows: bool,
) -> Beginning:
    """`agreed`: the beginning of an earlier transaction, or what the first look chose, so that both
    hold until the first commit; None while nothing is. `has_rows`: of the table.

    Raises OffsetsMissing, TopicReplaced, OffsetExpired, InvalidInput.
    """
    if not topic.watermarks:
        raise InvalidInput("the topic has no partitions", topic=config.topic)
    _check_topic(config, last_commit, topic)
    if not last_commit.offsets and agreed is None:
        _check_start(config, has_rows=has_rows)
    agreed = agreed or Beginning({}, {})
    starts: dict[int, int] = {}
    lost: dict[int, tuple[int, int]] = {}
    for partition, (low, high) in sorted(topic.watermarks.items()):
        wanted = last_commit.offsets.get(partition, agreed.starts.get(partition))
        if wanted is None:
            wanted = first_lost = 0  # All of it is new to the sink.
        elif partition in last_commit.offsets:
            first_lost = wanted
        else:
            first_lost, _ = agreed.lost.get(partition, (wanted, wanted))
        if wanted > high:
            raise TopicReplaced(
                "the topic ends before the next offset; " + RESET,
                topic=config.topic,
                partition=partition,
                next=wanted,
                end=high,
            )
        if wanted < low and (partition in last_commit.offsets or partition in agreed.starts):
            _check_expired(config, partition, wanted, low)
        starts[partition] = max(wanted, low)
        if first_lost < starts[partition]:
            lost[partition] = (first_lost, starts[partition])
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


def _check_start(config: SinkConfig, *, has_rows: bool) -> None:
    """Raises OffsetsMissing where no option says from where to read beside rows that stand."""
    if not config.start_offsets and has_rows:
        raise OffsetsMissing(
            "the table has rows and no offsets of this sink: set hoodie.kafka.start.offsets to "
            "earliest, latest or an offset per partition",
            sink=config.sink_id,
        )


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
