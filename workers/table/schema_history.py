"""The table's schema as of an instant: that of the newest completed instant that carries one.

Source: requirements 2.1 (which instants can carry a schema, in which order they are walked) and
E-15, E-16.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.schema.table_schema import TableSchema
from workers.table.table import Table
from workers.timeline.instant import Instant
from workers.timeline.metadata import CommitMetadata, read_commit_metadata
from workers.timeline.timeline import Timeline

_CLUSTER_OPERATION = "CLUSTER"


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    instant: InstantTime
    schema: TableSchema


def schema_at(
    table: Table, timeline: Timeline, *, as_of: InstantTime | None = None
) -> SchemaVersion | None:
    """None when no completed instant up to `as_of` (a completion time) carries a schema."""
    for instant in reversed(timeline.completed_writes()):
        if as_of is not None and (instant.completed_at or "") > as_of:
            continue
        metadata = read_instant(table, instant)
        if metadata.operation_type == _CLUSTER_OPERATION or metadata.compacted:
            continue  # A table service repeats a schema, it never sets one.
        if metadata.schema_json:
            return SchemaVersion(
                instant.requested_at, TableSchema.from_avro_json(metadata.schema_json)
            )
    return None


def current_schema(table: Table, timeline: Timeline | None = None) -> TableSchema | None:
    """The latest schema, else the one that the table was created with, else None."""
    version = schema_at(table, timeline or table.timeline())
    if version is not None:
        return version.schema
    declared = table.config.create_schema_json
    return TableSchema.from_avro_json(declared) if declared else None


def read_instant(table: Table, instant: Instant) -> CommitMetadata:
    """Raises MalformedTable naming the instant: an older schema is never used instead (E-16)."""
    try:
        return read_commit_metadata(table.storage.read(table.layout.path(instant)))
    except (MalformedTable, NotFound) as error:
        raise MalformedTable(
            "commit metadata cannot be read", instant=instant.requested_at
        ) from error
