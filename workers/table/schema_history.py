"""The table's schema as of an instant: that of the newest completed instant that carries one.

Source: requirements 2.1 (which instants can carry a schema, in which order they are walked) and
E-15, E-16.
"""

from __future__ import annotations

from dataclasses import dataclass

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound
from workers.files.base_file import read_avro_schema
from workers.files.names import parse_base_file
from workers.files.partition import list_partitions
from workers.schema.table_schema import TableSchema
from workers.table.table import Table
from workers.timeline.archive import archived_instants, read_manifest
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
    """None when no completed instant up to `as_of` (a completion time) carries a schema.

    When all that carry one are archived it comes from the history, or from the newest base file's
    footer (case E-15).
    """
    for instant in reversed(timeline.completed_writes()):
        if as_of is not None and (instant.completed_at or "") > as_of:
            continue
        if found := _carried(instant, read_instant(table, instant)):
            return found
    if not read_manifest(table.storage).files:
        return None
    return _archived_schema(table, as_of) or (_footer_schema(table) if as_of is None else None)


def _carried(instant: Instant, metadata: CommitMetadata) -> SchemaVersion | None:
    """A table service repeats a schema, it never sets one."""
    if metadata.operation_type == _CLUSTER_OPERATION or metadata.compacted:
        return None
    if not metadata.schema_json:
        return None
    return SchemaVersion(instant.requested_at, TableSchema.from_avro_json(metadata.schema_json))


def _archived_schema(table: Table, as_of: InstantTime | None) -> SchemaVersion | None:
    archived = archived_instants(table.storage, completed_until=as_of, with_content=True)
    for one in sorted(archived, key=lambda one: one.instant.completed_at or "", reverse=True):
        if not one.instant.action.writes_data or not one.metadata:
            continue
        if found := _carried(one.instant, read_commit_metadata(one.metadata)):
            return found
    return None


def _footer_schema(table: Table) -> SchemaVersion | None:
    bases = [
        (name.instant, file.path)
        for partition in list_partitions(table.storage)
        for file in table.storage.list_files(partition)
        if (name := parse_base_file(file.name))
    ]
    if not bases:
        return None
    instant, path = max(bases)
    text = read_avro_schema(table.storage, path)
    return SchemaVersion(instant, TableSchema.from_avro_json(text)) if text else None


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
