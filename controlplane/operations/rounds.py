"""How many rounds of its source a write has on the timeline. What its driver told of them is an
estimate until then.
"""

from __future__ import annotations

from controlplane.operations.models import Operation
from controlplane.operations.source_kinds import source_kind
from workers.table.schema_history import read_instant
from workers.table.table import Table
from workers.timeline.extra_metadata import POSITION_KEY, Position
from workers.timeline.metadata import STREAM_KEY, CommitMetadata
from workers.timeline.timeline import Timeline

_COMMITS_LOOKED_AT = 200


def lacks_rounds(operation: Operation, table: Table, timeline: Timeline) -> bool:
    """A write of many rounds is done with the last one only."""
    rounds_wanted = _rounds_wanted(operation)
    return rounds_wanted > 1 and _rounds_done(operation, table, timeline) < rounds_wanted


def has_all_rounds(operation: Operation, table: Table, timeline: Timeline) -> bool:
    """A source that numbers its rounds may have been written to its end by another driver."""
    if not _is_numbered(operation):
        return False
    return _rounds_done(operation, table, timeline) >= _rounds_wanted(operation)


def _is_numbered(operation: Operation) -> bool:
    """Whether its source has rounds with numbers, so that another driver may write them too."""
    source = operation.parameters.get("job", {}).get("source", {})
    return source_kind(source).has_numbered_rounds


def _rounds_wanted(operation: Operation) -> int:
    """One for whatever is written at once. A job may leave the number to its source, and then it is
    as its driver told.
    """
    if not _is_numbered(operation):
        return 1
    rounds = operation.parameters["job"]["source"].get("rounds")
    return rounds if isinstance(rounds, int) else max(1, operation.progress_total)


def _rounds_done(operation: Operation, table: Table, timeline: Timeline) -> int:
    """Whoever of its stream and run wrote them: a driver goes on where another one was."""
    job = operation.parameters.get("job", {})
    for instant in reversed(timeline.list_completed_writes()[-_COMMITS_LOOKED_AT:]):
        commit = read_instant(table, instant)
        position = Position.decode(commit.extra_metadata.get(POSITION_KEY, ""))
        if position is not None and _is_of(commit, position, job):
            return position.round + 1
    return 0


def _is_of(commit: CommitMetadata, position: Position, job: dict[str, object]) -> bool:
    source = job.get("source")
    run = source.get("run", 0) if isinstance(source, dict) else 0
    return commit.extra_metadata.get(STREAM_KEY) == job.get("stream") and position.run == run
