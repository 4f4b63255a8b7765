"""Content of a sink's commit: its metadata keys, and the files that participants reported."""

from __future__ import annotations

from collections.abc import Sequence

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.files.names import parse_name_instant
from workers.sink.config import SinkConfig
from workers.sink.messages import Report
from workers.sink.offsets import Attempt, OffsetMap, format_offsets
from workers.sink.sink_commits import (
    CLUSTER_ID_KEY,
    EPOCH_KEY,
    GAPS_KEY,
    ID_KEY,
    LEFT_OUT_KEY,
    LETTERS_KEY,
    LOST_KEY,
    NOT_LOOKED_FOR_KEY,
    OFFSETS_KEY,
    START_KEY,
    TOMBSTONES_KEY,
    TOPIC_ID_KEY,
    TOPIC_KEY,
    UNMET_KEY,
    VALID_THROUGH_KEY,
)
from workers.sink.start_offsets import StartOffsets
from workers.write.status import DeadLetterFile, WriteStatus


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
