"""A new table: its definition is checked, its properties are laid down, and its schema committed.

`create` lays down the properties and one empty completed commit that carries the schema. Without
that first instant a foreign reader takes the files of a still pending first writer for committed
ones, because they would be older than everything on the timeline (format page 2.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workers.clock import InstantTime, format_instant, next_instant
from workers.errors import InvalidInput, TableExists, TableNotFound
from workers.files.properties import create_properties, load_properties
from workers.options.aggregates import SLACK_KEY, SLACK_OF_N
from workers.options.column_groups import group_rule, groups_json, spell_out_join
from workers.options.group_keys import GROUPS_KEY, JOIN_KEY, SHORTHAND_KEY
from workers.options.index_kind import INDEX_KEY, IndexKind
from workers.options.option_values import parse_list
from workers.options.readability import HISTORY_KEY
from workers.options.table_keys import (
    CONFIGURED_GENERATOR_KEY,
    HASH_FIELD_KEY,
    PRECOMBINE_KEY,
    MergeMode,
    TableType,
)
from workers.options.table_options import config_from_properties, table_options
from workers.options.writer_modes import MODE_KEY, ConcurrencyMode
from workers.ports import Ports
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.definition import TableDefinition, check_definition, check_times
from workers.table.key_generators import choose_generator
from workers.table.table import Table
from workers.table.writability import (
    WRITTEN_VERSION,
    find_write_refusal,
)
from workers.timeline import transitions
from workers.timeline.metadata import SCHEMA_KEY, commit_metadata

CREATION_OPERATION = "ALTER_SCHEMA"
GROUP_MERGE_STRATEGY = "5b0f6d52-8c55-4d0c-9a57-6e1f0f6c2a41"
"""Ours, fixed: readers that do not have it refuse to merge the logs of a table with groups."""


def parse_table_type(text: str) -> TableType:
    """Return the table type of this name, in any case. Raises InvalidInput."""
    try:
        return TableType(str(text).upper())
    except ValueError as error:
        raise InvalidInput(
            "unknown table type", given=text, known=[kind.value for kind in TableType]
        ) from error


def create(
    storage: Storage, definition: TableDefinition, options: Mapping[str, str], ports: Ports
) -> Table:
    """Create a new, empty table. Raises TableExists, and InvalidInput before anything is
    written.
    """
    values = table_options(options)
    generator = choose_generator(definition.record_key, definition.partition_by, values)
    definition = replace(
        definition,
        partition_by=generator.partition_by,
        ordering=_ordering_fields(definition, values.pop(PRECOMBINE_KEY)),
    )
    check_definition(definition, values)
    check_times(definition, generator)
    properties = _new_properties(definition, values) | generator.properties
    properties[HISTORY_KEY] = format_instant(ports.clock.now_ms())
    if _exists(storage) or not create_properties(storage, properties):
        raise TableExists("a table lives here already", location=storage.location)
    config = config_from_properties(properties)
    table = Table(
        storage, config, ports, find_write_refusal(properties, config), properties=properties
    )
    if definition.schema is not None:
        _commit_schema(table, definition.schema)
    return table


def _ordering_fields(definition: TableDefinition, precombine: str) -> tuple[str, ...]:
    """Return the ordering fields of the definition, or else those of the precombine option.

    Raises InvalidInput when both are given and differ.
    """
    fields = parse_list(precombine)
    if fields and definition.ordering and fields != definition.ordering:
        raise InvalidInput(
            "the precombine field contradicts the ordering; give one of the two",
            key=PRECOMBINE_KEY,
            value=precombine,
            ordering=definition.ordering,
        )
    return definition.ordering or fields


def _exists(storage: Storage) -> bool:
    try:
        load_properties(storage)
    except TableNotFound:
        return False
    return True


def _new_properties(definition: TableDefinition, values: Mapping[str, str]) -> dict[str, str]:
    groups = group_rule(values, apart=(), ordering=())
    merge_mode = values["hoodie.record.merge.mode"] or (
        MergeMode.EVENT_TIME_ORDERING if definition.ordering else MergeMode.COMMIT_TIME_ORDERING
    )
    if groups is not None:
        is_portable = groups.is_portable
        merge_mode = MergeMode.COMMIT_TIME_ORDERING if is_portable else MergeMode.CUSTOM
        values = {**values, GROUPS_KEY: groups_json(groups.declared), SHORTHAND_KEY: ""}
        values[JOIN_KEY] = spell_out_join(values[JOIN_KEY], groups.required)
        values[SLACK_KEY] = values[SLACK_KEY] or SLACK_OF_N
        if not is_portable:
            values["hoodie.record.merge.strategy.id"] = GROUP_MERGE_STRATEGY
        if definition.table_type is TableType.MERGE_ON_READ and not values[MODE_KEY]:
            values[MODE_KEY] = ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
    if merge_mode not in set(MergeMode):
        raise InvalidInput("unsupported merge mode", given=merge_mode)
    if merge_mode == MergeMode.EVENT_TIME_ORDERING and not definition.ordering:
        raise InvalidInput("event time ordering needs an ordering field")
    properties = {
        "hoodie.table.name": definition.name,
        "hoodie.table.type": definition.table_type.value,
        "hoodie.table.version": str(WRITTEN_VERSION),
        "hoodie.table.initial.version": str(WRITTEN_VERSION),
        "hoodie.timeline.layout.version": "2",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.recordkey.fields": ",".join(definition.record_key),
        "hoodie.table.ordering.fields": ",".join(definition.ordering),
        "hoodie.record.merge.mode": str(merge_mode),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.populate.meta.fields": "true",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.partition.metafile.use.base.format": "false",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.table.cdc.enabled": "false",
        "hoodie.table.format": "native",
        **_hash_fields(definition, values),
        **{
            key: value for key, value in values.items() if value and key != CONFIGURED_GENERATOR_KEY
        },
    }
    if definition.schema is not None:
        properties["hoodie.table.create.schema"] = definition.schema.avro_json
    if not definition.ordering:
        del properties["hoodie.table.ordering.fields"]
    return properties | {"hoodie.record.merge.mode": str(merge_mode)}


def _hash_fields(definition: TableDefinition, values: Mapping[str, str]) -> dict[str, str]:
    if IndexKind(values[INDEX_KEY]).looks_up:
        return {}
    return {HASH_FIELD_KEY: ",".join(definition.record_key)}


def _commit_schema(table: Table, schema: TableSchema) -> InstantTime:
    """Commit the schema as the first instant. No process can open the table yet, so no lock is
    needed; a crash before this leaves a table that works.
    """
    storage, ports = table.storage, table.ports
    requested_at = next_instant(ports.clock, None)
    requested = transitions.request(storage, requested_at, table.data_action, b"")
    inflight = transitions.start(storage, requested)
    extra = {SCHEMA_KEY: schema.avro_json}
    metadata = commit_metadata([], extra=extra, operation_type=CREATION_OPERATION)
    content = metadata.encode(table.data_action)
    done = inflight.complete(next_instant(ports.clock, requested_at))
    transitions.complete(storage, transitions.Completion(done, content, ports.ids.token()))
    return requested_at
