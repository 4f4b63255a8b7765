"""Start offsets of a transaction: the committed offsets, compared with the offsets of the topic.

Pure. A missing offset is never replaced by 0. If no option gives the start, or the offsets belong
to another topic, an error asks the user to decide.
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
    f"`{format_command('sink reset')}`, or Reset offsets on the sink's page, shows where the "
    "sink would continue, and sets the offsets"
)


class TopicRange(Protocol):
    """Identity and offsets of a topic, as the broker reports them."""

    @property
    def topic_id(self) -> str:
        """The broker's id: a topic that was deleted and created again has another."""
        ...

    @property
    def cluster_id(self) -> str:
        """Empty if the brokers do not report one."""
        ...

    @property
    def watermarks(self) -> Mapping[int, tuple[int, int]]:
        """Partition to its first remaining offset and its end offset."""


@dataclass(frozen=True, slots=True)
class StartOffsets:
    """First offsets of a transaction; `starts` has every partition of the topic."""

    bases: OffsetMap
    """The committed offsets, without partitions that have none."""
    starts: OffsetMap
    lost: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Partition to the range of offsets (end exclusive) that the topic lost before the sink read
    them. The range begins at the committed offset, or at 0 if the whole topic is to be read.
    """

    def drop_bases(self) -> StartOffsets:
        """Return the starts of partitions without a committed offset. A restore may remove a
        committed offset. Then the partition does not continue at that offset.
        """
        starts = {
            partition: at for partition, at in self.starts.items() if partition not in self.bases
        }
        return StartOffsets(
            {},
            starts,
            {partition: self.lost[partition] for partition in starts if partition in self.lost},
        )

    def has_records(self, topic: TopicRange) -> bool:
        """Check whether any partition has records at or above its start."""
        return any(
            topic.watermarks[partition][1] > start for partition, start in self.starts.items()
        )


def get_configured_offsets(config: SinkConfig, topic: TopicRange) -> OffsetMap:
    """Return the first offset of each partition for `latest` or configured offsets.

    Raises OffsetsMissing for a partition without a configured offset.
    """
    offsets = config.start_offsets
    if isinstance(offsets, str):
        return {partition: high for partition, (_, high) in topic.watermarks.items()}
    for partition in topic.watermarks:
        if partition not in offsets:
            raise OffsetsMissing(
                "hoodie.kafka.start.offsets names no offset of a partition",
                partition=partition,
                given=dict(offsets),
            )
    return {partition: offsets[partition] for partition in topic.watermarks}


def choose_start_offsets(
    config: SinkConfig,
    last_commit: SinkCommit,
    topic: TopicRange,
    *,
    agreed: StartOffsets | None,
    has_rows: bool,
) -> StartOffsets:
    """Choose the start offsets of a transaction.

    Args:
        agreed: start offsets of an earlier transaction, or the initial offsets, which are valid
            until the first commit. None if there are none.
        has_rows: whether the table has rows.

    Raises OffsetsMissing, TopicReplaced, OffsetExpired, InvalidInput.
    """
    if not topic.watermarks:
        raise InvalidInput("the topic has no partitions", topic=config.topic)
    _check_topic(config, last_commit, topic)
    if not last_commit.offsets and agreed is None:
        _check_start(config, has_rows=has_rows)
    agreed = agreed or StartOffsets({}, {})
    starts: dict[int, int] = {}
    lost: dict[int, tuple[int, int]] = {}
    for partition, (low, high) in sorted(topic.watermarks.items()):
        next_offset = last_commit.offsets.get(partition, agreed.starts.get(partition))
        if next_offset is None:
            next_offset = first_lost = 0  # The sink has read nothing of it.
        elif partition in last_commit.offsets:
            first_lost = next_offset
        else:
            first_lost, _ = agreed.lost.get(partition, (next_offset, next_offset))
        if next_offset > high:
            raise TopicReplaced(
                "the topic ends before the next offset; " + RESET,
                topic=config.topic,
                partition=partition,
                next=next_offset,
                end=high,
            )
        if next_offset < low and (partition in last_commit.offsets or partition in agreed.starts):
            _check_expired(config, partition, next_offset, low)
        starts[partition] = max(next_offset, low)
        if first_lost < starts[partition]:
            lost[partition] = (first_lost, starts[partition])
    bases = {
        partition: last_commit.offsets[partition]
        for partition in starts
        if partition in last_commit.offsets
    }
    return StartOffsets(bases, starts, lost)


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
            "the topic was deleted and created again; " + RESET,
            topic=config.topic,
            committed=last_commit.topic_id,
            id=topic.topic_id,
        )
    if missing := sorted(last_commit.offsets.keys() - topic.watermarks.keys()):
        raise TopicReplaced(
            "the topic has lost partitions; " + RESET, topic=config.topic, partitions=missing
        )


def _check_start(config: SinkConfig, *, has_rows: bool) -> None:
    """Check that an option gives the start if the table has rows. Raises OffsetsMissing."""
    if not config.start_offsets and has_rows:
        raise OffsetsMissing(
            "the table has rows and no offsets of this sink: set hoodie.kafka.start.offsets to "
            "earliest, latest or an offset per partition",
            sink=config.sink_id,
        )


def _check_expired(config: SinkConfig, partition: int, next_offset: int, low: int) -> None:
    if config.on_expired is OnExpired.FAIL:
        raise OffsetExpired(
            "the topic no longer has the next records; set hoodie.kafka.on.expired=earliest to "
            "continue without them",
            topic=config.topic,
            partition=partition,
            next=next_offset,
            first=low,
            lost=low - next_offset,
        )
