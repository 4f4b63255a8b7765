"""Republish commits for readers that order by request time.

Sluice orders commits by completion time. Apache Hudi and hudi-rs order them by request time: they
take the schema of the latest request and merge log files in request order. For them, a commit that
was requested before another one but completed after it is out of order. They miss its schema, and
for shared keys they keep the wrong row. If the other commit added a column that this one did not
know, hudi-rs keeps its value as well.

A second instant with a new request time therefore carries the schema and the affected rows again.
Sluice's own readers see no difference. Both instants are decided together: recovery completes both,
and no other instant completes in between.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from workers.clock import InstantTime, next_instant
from workers.concurrency.heartbeat import HeartbeatContent, HeartbeatKeeper
from workers.errors import MalformedTable, NotFound, StorageFailed
from workers.options.write_options import WriteOptions
from workers.schema.equality import equal
from workers.schema.table_schema import TableSchema
from workers.table.schema_history import is_service_commit, read_instant
from workers.table.table import Table
from workers.timeline import transitions
from workers.timeline.instant import Instant
from workers.timeline.metadata import (
    RESTATED_KEYS_KEY,
    RESTATES_KEY,
    ROWS_KEY,
    SCHEMA_KEY,
    WRITER_KEY,
    CommitMetadata,
    WriteStat,
    commit_metadata,
)
from workers.timeline.timeline import Timeline
from workers.timeline.transitions import Completion

_OPERATION = "upsert"
_log = logging.getLogger(__name__)


class RowsToRepublish(Protocol):
    """Rows of one write that other engines would read differently, to be published again."""

    @property
    def keys(self) -> int:
        """The number of keys that are published again."""

    @property
    def by_group(self) -> Mapping[tuple[str, str], Mapping[str, Set[str]]]:
        """The keys, by (partition, file id) and by the log file that has their rows."""

    def write(self, instant: InstantTime, schema: TableSchema, /) -> list[WriteStat]:
        """Write the log files of the rows, with null in columns that the write did not know. Raises
        StorageFailed.
        """


class OutOfOrderWrite(Protocol):
    """The rows of one write, compared with those of commits that completed since it began."""

    def find_rows(
        self, rivals: Sequence[tuple[InstantTime, CommitMetadata]], /
    ) -> RowsToRepublish | None:
        """Find the rows to publish again; None if there are none. Raises MalformedTable,
        StorageFailed.
        """


@dataclass(frozen=True, slots=True)
class RepublishPlan:
    """The parts of a commit to publish again."""

    of: InstantTime
    schema: TableSchema
    writer: str
    rows: RowsToRepublish | None = None


def plan_republish(
    table: Table,
    timeline: Timeline,
    at_start: Timeline,
    ours: InstantTime,
    schema: TableSchema,
    writer: str,
    overtaken: OutOfOrderWrite | None,
) -> RepublishPlan | None:
    """Find what to publish again of a commit; None if every reader sees it as it is. Raises
    MalformedTable.
    """
    rows = (
        None
        if overtaken is None
        else overtaken.find_rows(_load_later_commits(table, timeline, at_start))
    )
    if rows is None and not is_schema_hidden(table, find_later_requests(timeline, ours), schema):
        return None
    return RepublishPlan(ours, schema, writer, rows)


def compare_ahead(table: Table, at_start: Timeline, overtaken: OutOfOrderWrite | None) -> None:
    """Compare rows with those of commits that have completed by now, before other writers wait for
    the lock.
    """
    if overtaken is None:
        return
    try:
        overtaken.find_rows(_load_later_commits(table, table.timeline(), at_start))
    except (MalformedTable, NotFound, StorageFailed) as error:
        _log.info("rows are compared under the lock instead: error=%s", error)


def _load_later_commits(
    table: Table, timeline: Timeline, at_start: Timeline
) -> list[tuple[InstantTime, CommitMetadata]]:
    """Return the writes that completed after `at_start`, with their metadata."""
    before = {instant.requested_at for instant in at_start.iterate_completed()}
    later = [
        instant
        for instant in timeline.list_completed_writes()
        if instant.requested_at not in before
    ]
    return [(instant.requested_at, read_instant(table, instant)) for instant in later]


def find_later_requests(timeline: Timeline, ours: InstantTime) -> list[Instant]:
    """Return the completed writes that were requested after ours, the latest request first."""
    later = [instant for instant in timeline.list_completed_writes() if instant.requested_at > ours]
    return sorted(later, key=lambda instant: instant.requested_at, reverse=True)


def is_schema_hidden(table: Table, passed: list[Instant], schema: TableSchema) -> bool:
    """Check if a reader that takes the schema of the latest request gets another one than `schema`.

    Apache Hudi ignores table services, hudi-rs does not. Raises MalformedTable.
    """
    newest_seen = False
    for instant in passed:
        metadata = read_instant(table, instant)
        is_service = is_service_commit(metadata)
        if not metadata.schema_json or (is_service and newest_seen):
            continue
        if not equal(TableSchema.from_avro_json(metadata.schema_json), schema):
            return True
        if not is_service:
            return False
        newest_seen = True
    return False


def is_republication(table: Table, instant: Instant, of: InstantTime) -> bool:
    """Check if a completed write only republishes `of`. Returns False for damaged metadata."""
    try:
        return read_instant(table, instant).restates == of
    except MalformedTable:
        return False


@dataclass(frozen=True, slots=True)
class RepublishInstant:
    """A begun instant that is decided together with the commit that it republishes."""

    inflight: Instant
    content: bytes
    nonce: str
    writer: str
    keys: int

    def to_completion(self, at: InstantTime) -> Completion:
        """Return its completion at `at`, which is later than the completion of the commit."""
        return Completion(self.inflight.complete(at), self.content, self.nonce, self.writer)


@contextmanager
def begin_republish(
    table: Table, options: WriteOptions, timeline: Timeline, restatement: RepublishPlan | None
) -> Iterator[RepublishInstant | None]:
    """Begin the instant that republishes a commit, and yield it; yield None if there is nothing to
    republish. Requires the table lock. An instant that is not decided in this block is rolled back
    like that of a dead writer.

    Raises LeaseLost, StorageFailed.
    """
    if restatement is None:
        yield None
        return
    requested_at = next_instant(table.ports.clock, timeline.last_time)
    content = HeartbeatContent(options, restatement.writer, _OPERATION, None)
    heartbeat = HeartbeatKeeper(table.storage, table.ports, requested_at, content)
    heartbeat.start()  # Another engine takes an instant without one for a dead writer's.
    try:
        inflight = transitions.begin(table.storage, requested_at, table.data_action)
        rows = restatement.rows
        keys = rows.keys if rows else 0
        metadata = commit_metadata(
            rows.write(requested_at, restatement.schema) if rows else [],
            extra={
                SCHEMA_KEY: restatement.schema.avro_json,
                WRITER_KEY: restatement.writer,
                ROWS_KEY: "0",
                RESTATES_KEY: restatement.of,
                RESTATED_KEYS_KEY: str(keys),
            },
            operation_type=_OPERATION.upper(),
        )
        nonce = table.ports.ids.token()
        yield RepublishInstant(
            inflight, metadata.encode(inflight.action), nonce, restatement.writer, keys
        )
    finally:
        heartbeat.remove()
