"""Offsets of a sink: their text in commit metadata, and the check of a commit against them.

Pure. An offset is always the next one to read: a partition at 12 has its records 0 to 11 in the
table. The check is a compare-and-set: a commit is valid only on the offsets that its transaction
began from. That alone keeps any number of coordinators from writing a record twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from workers.clock import InstantTime
from workers.errors import MalformedTable

OffsetMap = Mapping[int, int]
"""Partition to the next offset to read."""

_PAIR = re.compile(r"(0|[1-9][0-9]{0,9})=(0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class SinkCommit:
    """Position in the newest completed commit of this sink; empty if there is none."""

    offsets: OffsetMap = field(default_factory=dict)
    """Next offset of every partition that the sink ever committed."""
    epoch: int = 0
    instant: InstantTime = ""
    topic: str = ""
    topic_id: str = ""
    """The broker's id: a topic that was deleted and created again has another."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Offsets that a transaction is about to commit."""

    epoch: int
    topic: str
    topic_id: str
    bases: OffsetMap
    """Committed offsets that it began from, without partitions that had none."""
    starts: OffsetMap
    """First offsets read: the base, or a higher one if the topic had lost records by then."""
    ends: OffsetMap
    """Where the next transaction continues."""
    cluster_id: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        assert self.starts.keys() == self.ends.keys() >= self.bases.keys(), self
        assert all(self.bases[partition] <= self.starts[partition] for partition in self.bases), (
            self
        )
        assert all(self.starts[partition] <= self.ends[partition] for partition in self.starts), (
            self
        )


class StaleCause(StrEnum):
    """The value that no longer matches, which decides what the coordinator does."""

    EPOCH = "epoch"
    """Another coordinator has taken over: stop."""
    TOPIC = "topic"
    """The topic is not the one of the committed offsets: a user must decide."""
    OFFSETS = "offsets"
    """The offsets are not those that the transaction began from: begin again."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The cause and reason why an attempt must not be committed."""

    cause: StaleCause
    reason: str


def check_commit(last_commit: SinkCommit, attempt: Attempt) -> Stale | None:
    """Check `attempt` against `last_commit`, under the table lock. Return why it is stale, or None
    if it may be committed.
    """
    if attempt.epoch < last_commit.epoch:
        return Stale(
            StaleCause.EPOCH, f"epoch {attempt.epoch} is older than epoch {last_commit.epoch}"
        )
    if last_commit.offsets and (attempt.topic, attempt.topic_id) != (
        last_commit.topic,
        last_commit.topic_id,
    ):
        return Stale(
            StaleCause.TOPIC,
            f"topic {attempt.topic} with id {attempt.topic_id} is not topic {last_commit.topic} "
            f"with id {last_commit.topic_id}",
        )
    moved = [
        partition
        for partition in sorted(attempt.starts)
        if _has_moved(partition, last_commit, attempt)
    ]
    if moved:
        began = ", ".join(_format_offset(partition, attempt.bases) for partition in moved)
        stands = ", ".join(_format_offset(partition, last_commit.offsets) for partition in moved)
        return Stale(StaleCause.OFFSETS, f"began from {began}, but now stands {stands}")
    return None


def merge_offsets(last_commit: SinkCommit, attempt: Attempt) -> dict[int, int]:
    """Return the full map to commit. Partitions that the attempt did not read keep their offset."""
    assert check_commit(last_commit, attempt) is None, (last_commit, attempt)
    return dict(sorted({**last_commit.offsets, **attempt.ends}.items()))


def format_offsets(offsets: OffsetMap) -> str:
    """Format offsets as Hudi's text `0=12,1=5`, sorted by partition."""
    return ",".join(f"{partition}={offset}" for partition, offset in sorted(offsets.items()))


def parse_offsets(text: str) -> dict[int, int]:
    """Parse the text that Hudi's sink stores in a commit into offsets by partition. Raises
    MalformedTable for anything else.
    """
    offsets: dict[int, int] = {}
    for pair in text.split(",") if text else []:
        matched = _PAIR.fullmatch(pair)
        if matched is None or int(matched[1]) in offsets:
            raise MalformedTable("offsets of a sink are damaged", text=text[:200], at=pair[:40])
        offsets[int(matched[1])] = int(matched[2])
    return offsets


def _has_moved(partition: int, last_commit: SinkCommit, attempt: Attempt) -> bool:
    return last_commit.offsets.get(partition) != attempt.bases.get(partition)


def _format_offset(partition: int, offsets: OffsetMap) -> str:
    return f"{partition}={offsets[partition]}" if partition in offsets else f"{partition}=nothing"
