"""What other engines miss of a commit is stated again, by an instant that is decided with it.

Sluice shows commits in the order in which they completed. Apache Hudi and hudi-rs go by the time of
request: they take the schema of the commit that was requested last, and merge logs in this order. A
commit that was requested before others and completes behind them is *passed* by them: its schema is
not seen there, and of a key that both wrote the other's row counts where the later one does. Where
the other brought a column that the commit did not know, hudi-rs keeps its value as well. So a
second instant, requested now, carries the schema and these rows once more; it changes nothing for
ours.

It is begun before the commit is decided and decided with it: whoever finishes the one after a
crash finishes the other, and nothing completes between them.
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


class RowsAgain(Protocol):
    """Rows of one write that other engines would not see as we do, to be written once more."""

    @property
    def keys(self) -> int:
        """How many are written again."""

    @property
    def by_group(self) -> Mapping[tuple[str, str], Mapping[str, Set[str]]]:
        """They, by (partition, file id) and the log file that has their rows."""

    def write(self, instant: InstantTime, schema: TableSchema, /) -> list[WriteStat]:
        """Their log files, of rows that say null in columns which the write did not know. Raises
        StorageFailed.
        """


class Overtaken(Protocol):
    """The rows of one write, beside those of commits that completed since it began."""

    def among(self, rivals: Sequence[tuple[InstantTime, CommitMetadata]], /) -> RowsAgain | None:
        """None when nothing is to be written again. Raises MalformedTable, StorageFailed."""


@dataclass(frozen=True, slots=True)
class Restatement:
    """What is stated again of one commit."""

    of: InstantTime
    schema: TableSchema
    writer: str
    rows: RowsAgain | None = None


def restatement(
    table: Table,
    timeline: Timeline,
    at_start: Timeline,
    ours: InstantTime,
    schema: TableSchema,
    writer: str,
    overtaken: Overtaken | None,
) -> Restatement | None:
    """None when every reader sees the commit as it is. Raises MalformedTable."""
    rows = None if overtaken is None else overtaken.among(_since(table, timeline, at_start))
    if rows is None and not misses_schema(table, passed_by(timeline, ours), schema):
        return None
    return Restatement(ours, schema, writer, rows)


def look_ahead(table: Table, at_start: Timeline, overtaken: Overtaken | None) -> None:
    """Compare rows with those of whoever has completed by now, before others wait for the lock."""
    if overtaken is None:
        return
    try:
        overtaken.among(_since(table, table.timeline(), at_start))
    except (MalformedTable, NotFound, StorageFailed) as error:
        _log.info("rows are compared under the lock instead: error=%s", error)


def _since(
    table: Table, timeline: Timeline, at_start: Timeline
) -> list[tuple[InstantTime, CommitMetadata]]:
    """Writes that completed since a write began that started from `at_start`."""
    before = {instant.requested_at for instant in at_start.completed()}
    later = [
        instant for instant in timeline.completed_writes() if instant.requested_at not in before
    ]
    return [(instant.requested_at, read_instant(table, instant)) for instant in later]


def passed_by(timeline: Timeline, ours: InstantTime) -> list[Instant]:
    """Completed writes that were requested after ours, the last requested first."""
    later = [instant for instant in timeline.completed_writes() if instant.requested_at > ours]
    return sorted(later, key=lambda instant: instant.requested_at, reverse=True)


def misses_schema(table: Table, passed: list[Instant], schema: TableSchema) -> bool:
    """Whether who takes the schema of the newest request sees another one than `schema`.

    Apache Hudi leaves services out, hudi-rs does not. Raises MalformedTable.
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


def restates(table: Table, instant: Instant, of: InstantTime) -> bool:
    """Whether a completed write does nothing but state `of` again.

    Damaged metadata does not say so.
    """
    try:
        return read_instant(table, instant).restates == of
    except MalformedTable:
        return False


@dataclass(frozen=True, slots=True)
class Follower:
    """An instant that is begun and waits to be decided with the commit that it states again."""

    inflight: Instant
    content: bytes
    nonce: str
    writer: str
    keys: int

    def completed(self, at: InstantTime) -> Completion:
        """How to complete it at `at`, which is later than the completion of the commit."""
        return Completion(self.inflight.completed(at), self.content, self.nonce, self.writer)


@contextmanager
def begun(
    table: Table, options: WriteOptions, timeline: Timeline, restatement: Restatement | None
) -> Iterator[Follower | None]:
    """Begin the instant that states a commit again, None without a restatement. Under the table
    lock; what is not decided in this block is rolled back as a dead writer's.

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
        yield Follower(inflight, metadata.encode(inflight.action), nonce, restatement.writer, keys)
    finally:
        heartbeat.remove()
