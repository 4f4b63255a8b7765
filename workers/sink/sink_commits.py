"""Commits of a sink: their metadata keys, the files that participants reported, and the position of
the sink, which is the newest completed commit of the table that contains its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workers.clock import InstantTime
from workers.errors import InvalidInput, MalformedTable
from workers.files.names import parse_name_instant
from workers.sink.config import SinkConfig
from workers.sink.messages import Report
from workers.sink.offsets import Attempt, OffsetMap, SinkCommit, format_offsets, parse_offsets
from workers.sink.start_offsets import StartOffsets
from workers.table.newest_commit import NewestCommit
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline.metadata import read_commit_metadata
from workers.timeline.timeline import Timeline
from workers.write.status import DeadLetterFile, WriteStatus

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


def build_place_keys(config: SinkConfig, attempt: Attempt, offsets: OffsetMap) -> dict[str, str]:
    """Return the keys for the sink's identity and position. `offsets` is the full map."""
    return {
        OFFSETS_KEY: format_offsets(offsets),
        ID_KEY: config.sink_id,
        EPOCH_KEY: str(attempt.epoch),
        TOPIC_KEY: attempt.topic,
        TOPIC_ID_KEY: attempt.topic_id,
        CLUSTER_ID_KEY: attempt.cluster_id,
        START_KEY: format_offsets(attempt.starts),
    }


def build_count_keys(began: StartOffsets, reports: Sequence[Report]) -> dict[str, str]:
    """Return the keys that count records, dead letters, tombstones and gaps."""
    lost = sum(end - first for first, end in began.lost.values())
    counts = {
        GAPS_KEY: str(lost + sum(report.gaps for report in reports)),
        LETTERS_KEY: str(sum(report.bad_records for report in reports)),
        LEFT_OUT_KEY: str(sum(report.left_out for report in reports)),
    }
    if newest := [report.max_timestamp_ms for report in reports if report.max_timestamp_ms]:
        counts[VALID_THROUGH_KEY] = str(min(newest))
    if tombstones := sum(report.tombstones for report in reports):
        counts[TOMBSTONES_KEY] = str(tombstones)
        counts[UNMET_KEY] = str(sum(report.tombstones_unmet for report in reports))
        counts[NOT_LOOKED_FOR_KEY] = str(
            sum(report.tombstones_not_looked_for for report in reports)
        )
    if began.lost:
        counts[LOST_KEY] = ",".join(
            f"{partition}={first}-{end}" for partition, (first, end) in sorted(began.lost.items())
        )
    return counts


def parse_reported_files(
    instant: InstantTime, reports: Sequence[Report]
) -> tuple[list[WriteStatus], list[DeadLetterFile]]:
    """Parse the files that participants reported: written files and dead letters.

    Raises MalformedTable, and InvalidInput for files of another transaction.
    """
    statuses = [WriteStatus.from_json(text) for report in reports for text in report.statuses]
    letters = [DeadLetterFile.from_json(text) for report in reports for text in report.letters]
    for status in statuses:
        if parse_name_instant(status.stat.file_name) != instant:
            raise InvalidInput(
                "a report names a file of another instant", path=status.stat.path, instant=instant
            )
    return statuses, letters
