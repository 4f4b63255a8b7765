"""Position of a sink: the newest completed commit of the table that contains its keys."""

from __future__ import annotations

from collections.abc import Mapping

from workers.clock import InstantTime
from workers.errors import MalformedTable
from workers.sink.offsets import SinkCommit, parse_offsets
from workers.table.newest_commit import NewestCommit
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline.metadata import read_commit_metadata
from workers.timeline.timeline import Timeline

OFFSETS_KEY = "kafka.commit.offsets"
"""Hudi's key and format: the next offset to read of every partition ever seen."""
ID_KEY = "hoodie.sink.id"
EPOCH_KEY = "hoodie.sink.epoch"
TOPIC_KEY = "hoodie.sink.topic"
TOPIC_ID_KEY = "hoodie.sink.topic.id"
CLUSTER_ID_KEY = "hoodie.sink.cluster.id"
"""Id of the brokers' cluster, if they report one. Older commits do not have it."""
START_KEY = "hoodie.sink.start.offsets"
"""First offset of each partition in this commit."""
VALID_THROUGH_KEY = "hoodie.sink.valid.through.ts"
"""Milliseconds since 1970. All records up to this time are in the table, for each partition that
had records.
"""
GAPS_KEY = "hoodie.sink.gaps"
"""Offsets for which the broker had no record."""
LETTERS_KEY = "hoodie.sink.dlq.count"
LEFT_OUT_KEY = "hoodie.sink.left.out"
TOMBSTONES_KEY = "hoodie.sink.tombstones"
UNMET_KEY = "hoodie.sink.tombstones.unmet"
"""Tombstones whose key has no row."""
NOT_LOOKED_FOR_KEY = "hoodie.sink.tombstones.not.looked.for"
"""Tombstones that were not checked for a row, because the check would have cost too much."""
LOST_KEY = "hoodie.sink.lost.offsets"
"""`partition=from-to`, to exclusive: records that the topic lost before they were read."""


class SinkCommits:
    """Reader of one sink's position, for one coordinator."""

    def __init__(self, table: Table, sink_id: str) -> None:
        self._newest = NewestCommit(
            table, lambda extra, instant: parse_sink_commit(extra, sink_id, instant)
        )

    def load_newest(self, timeline: Timeline) -> SinkCommit:
        """Return the newest commit, or an empty one if the sink never committed. `timeline` must
        contain every decided commit. Raises MalformedTable.
        """
        return self._newest.of(timeline) or SinkCommit()


def parse_sink_commit(
    extra: Mapping[str, str], sink_id: str, instant: InstantTime
) -> SinkCommit | None:
    """Parse the sink's keys in the extra metadata of a commit. Return None for a commit of another
    writer. Raises MalformedTable.
    """
    if extra.get(ID_KEY) != sink_id:
        return None
    try:
        return SinkCommit(
            offsets=parse_offsets(extra[OFFSETS_KEY]),
            epoch=int(extra[EPOCH_KEY]),
            instant=instant,
            topic=extra[TOPIC_KEY],
            topic_id=extra[TOPIC_ID_KEY],
        )
    except (KeyError, ValueError) as error:
        raise MalformedTable(
            "a commit of the sink lacks what says where it stands", instant=instant, sink=sink_id
        ) from error


def read_committed_offsets(table: Table, instant: InstantTime) -> dict[int, int]:
    """Return the offsets in a completed commit of a sink. Raises MalformedTable if it has none."""
    commit = table.timeline().find(instant)
    if commit is not None and commit.is_completed:
        return _get_offsets(read_instant(table, commit).extra_metadata, instant)
    for archived in table.find_archived(instant, None):
        if archived.metadata is not None:
            return _get_offsets(read_commit_metadata(archived.metadata).extra_metadata, instant)
    raise MalformedTable("a decided commit is nowhere on the timeline", instant=instant)


def _get_offsets(extra: Mapping[str, str], instant: InstantTime) -> dict[int, int]:
    """Return the offsets. A missing key is an error: with an empty map the sink would read every
    record again.
    """
    if OFFSETS_KEY not in extra:
        raise MalformedTable("a commit of the sink lacks its offsets", instant=instant)
    return parse_offsets(extra[OFFSETS_KEY])
