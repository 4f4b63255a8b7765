"""The table's schema as of an instant: that of the newest completed instant that carries one.

Source: requirements 2.1 (which instants can carry a schema, in which order they are walked) and
E-15, E-16.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import MalformedTable, NotFound, UnsupportedTable
from workers.files.base_file import read_avro_schema
from workers.files.log_block import AvroData, ParquetData
from workers.files.log_file import read_log_file
from workers.files.names import parse_base_file, parse_log_file
from workers.files.partition import files_by_partition
from workers.schema.table_schema import TableSchema
from workers.table.commit_lookup import find_archived_file, parse_or_reread
from workers.table.table import Table
from workers.timeline.instant import Instant
from workers.timeline.metadata import CommitMetadata, read_commit_metadata
from workers.timeline.timeline import Timeline

_CLUSTER_OPERATION = "CLUSTER"
_SCHEMA_BY_ID_KEY = "latest_schema"
_CREATED = "0" * 17
"""Before every instant."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """The schema that a commit brought."""

    instant: InstantTime
    schema: TableSchema


def find_schema_at(
    table: Table, timeline: Timeline, *, as_of: InstantTime | None = None
) -> SchemaVersion | None:
    """Return the schema of the newest completed instant up to `as_of` (a completion time) that
    carries one, or None.

    When all that carry one are archived, it comes from the history. Without history it comes from
    the newest base file's footer, the newest log's header, or what the table was created with (case
    E-15). At an old time an archived write may have been the newest although an active one was
    complete: the archiver goes by request time, and keeps only what is newest now.
    """
    for instant in reversed(timeline.list_completed_writes()):
        if as_of is not None and instant.completed_at > as_of:
            continue
        if version := _read_version(instant, read_instant(table, instant)):
            newer = _find_archived_schema(table, instant.completed_at, as_of) if as_of else None
            return newer or version
    if not table.archive_mark():
        return None
    version = _find_archived_schema(table, None, as_of)
    if version is not None or as_of:
        return version
    return _footer_schema(table) or _header_schema(table) or _build_creation_schema(table)


def _read_version(instant: Instant, metadata: CommitMetadata) -> SchemaVersion | None:
    """Return the schema that the instant sets, or None: a table service repeats a schema, it never
    sets one.

    Raises UnsupportedTable for columns that go by ids: old files may have them under other names.
    """
    if metadata.extra_metadata.get(_SCHEMA_BY_ID_KEY):
        raise UnsupportedTable(
            "schema evolution by column ids (hoodie.schema.on.read.enable) is not read",
            instant=instant.requested_at,
        )
    if is_service_commit(metadata) or not metadata.schema_json:
        return None
    return SchemaVersion(instant.requested_at, TableSchema.from_avro_json(metadata.schema_json))


def is_service_commit(metadata: CommitMetadata) -> bool:
    """Check whether a table service wrote the commit. It repeats the schema, and Apache Hudi does
    not read one from it.
    """
    return metadata.operation_type == _CLUSTER_OPERATION or metadata.compacted


def _find_archived_schema(
    table: Table, since: InstantTime | None, until: InstantTime | None
) -> SchemaVersion | None:
    """Return the schema of the newest archived write that completed after `since` and not after
    `until`. Raises HistoryLost when the history lost some that may have one.
    """
    if since is not None and until is not None and since >= until:
        return None
    archived = [
        entry.instant
        for entry in table.list_archived_instants(completed_after=since, completed_until=until)
        if entry.instant.action.writes_data
    ]
    for instant in sorted(archived, key=lambda completed: completed.completed_at, reverse=True):
        if version := _read_version(instant, _load_archived_metadata(table, instant)):
            return version
    return None


def _load_archived_metadata(table: Table, instant: Instant) -> CommitMetadata:
    archived = table.find_archived(instant.requested_at, instant.completed_at)
    [content] = [entry.metadata for entry in archived if entry.instant == instant]
    return read_commit_metadata(content or b"")


def _footer_schema(table: Table) -> SchemaVersion | None:
    bases = [
        (name.instant, file.path)
        for listed in files_by_partition(table.storage).values()
        for file in listed
        if (name := parse_base_file(file.name))
    ]
    if not bases:
        return None
    instant, path = max(bases)
    text = read_avro_schema(table.storage, path)
    return SchemaVersion(instant, TableSchema.from_avro_json(text)) if text else None


def _header_schema(table: Table) -> SchemaVersion | None:
    logs = [
        (name.instant, file.path)
        for listed in files_by_partition(table.storage).values()
        for file in listed
        if (name := parse_log_file(file.name))
    ]
    for instant, path in sorted(logs, reverse=True):
        for block in reversed(read_log_file(table.storage, path)):
            if isinstance(block, ParquetData | AvroData):
                return SchemaVersion(instant, TableSchema.from_avro_json(block.avro_schema))
    return None


def _build_creation_schema(table: Table) -> SchemaVersion | None:
    declared = table.config.create_schema_json
    return SchemaVersion(_CREATED, TableSchema.from_avro_json(declared)) if declared else None


def load_schema(table: Table, timeline: Timeline | None = None) -> TableSchema | None:
    """Return the latest schema, else the one that the table was created with, else None."""
    version = find_schema_at(table, timeline or table.timeline())
    if version is not None:
        return version.schema
    declared = table.config.create_schema_json
    return TableSchema.from_avro_json(declared) if declared else None


def read_instant(table: Table, instant: Instant) -> CommitMetadata:
    """Read the metadata of a completed commit, also of one that was archived since it was listed.
    Raises MalformedTable naming the instant: an older schema is never used instead (E-16).
    """
    try:
        content = table.storage.read_listed(table.layout.path(instant))
    except NotFound as error:
        table.check_layout()
        archived = find_archived_file(table, instant)
        if archived is None:
            raise _unreadable(instant) from error
        content = archived
    try:
        return parse_or_reread(content, table, instant)
    except MalformedTable as error:
        table.check_layout()
        raise _unreadable(instant) from error


def find_instant(table: Table, instant: Instant) -> CommitMetadata | None:
    """Read the metadata as `read_instant` does; None for a commit that was rolled back since it was
    listed.
    """
    try:
        return read_instant(table, instant)
    except MalformedTable as error:
        if isinstance(error.__cause__, NotFound):
            return None
        raise


def _unreadable(instant: Instant) -> MalformedTable:
    return MalformedTable("commit metadata cannot be read", instant=instant.requested_at)


def load_declared_schema(table: Table, as_of: InstantTime | None = None) -> pa.Schema | None:
    """Return the columns, required ones as such, now or at the completion time `as_of`. None before
    the first write that brings one. Raises MalformedTable, UnsupportedTable.
    """
    timeline = table.timeline()
    if as_of is None:
        current = load_schema(table, timeline)
        return current.declared if current else None
    version = find_schema_at(table, timeline, as_of=as_of)
    return version.schema.declared if version else None
