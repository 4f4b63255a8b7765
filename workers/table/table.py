"""Table: configuration plus storage plus ports. It reads and describes; it never writes data.

`create` lays down the properties and one empty completed commit that carries the schema. Without
that first instant a foreign reader takes the files of a still pending first writer for committed
ones, because they would be older than everything on the timeline (format page 2.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workers.clock import InstantTime, format_instant, next_instant
from workers.errors import InvalidInput, TableChanged, TableExists, TableNotFound, UnsupportedTable
from workers.files.names import check_table_name
from workers.files.properties import create_properties, load_properties
from workers.files.record_key import check_key_type
from workers.files.time_texts import check_time_column
from workers.merge.mergers import merger_named
from workers.options.aggregates import SLACK_KEY, SLACK_OF_N
from workers.options.column_groups import GroupRule, group_rule, groups_json
from workers.options.group_keys import GROUPS_KEY, SHORTHAND_KEY
from workers.options.index_kind import INDEX_KEY, IndexKind
from workers.options.option_values import boolean, choice, listed
from workers.options.payloads import MERGE_MODE_KEY, PARTIAL_IGNORE_DEFAULTS
from workers.options.readability import HISTORY_KEY
from workers.options.table_keys import ASKED_GENERATOR_KEY, HASH_FIELD_KEY, MergeMode, TableType
from workers.options.table_options import TableConfig, config_from_properties, table_options
from workers.options.top_n_request import TOP_N_KEY, top_n_of
from workers.options.writer_modes import MODE_KEY, ConcurrencyMode
from workers.ports import Ports
from workers.schema.portable import check_portable
from workers.schema.table_schema import TableSchema
from workers.storage.base import Storage
from workers.table.grouped import check_grouped_table
from workers.table.key_generators import KeyGenerator, asked_generator
from workers.table.writability import (
    WRITTEN_VERSION,
    change_since,
    made_by_sluice,
    write_refusal,
)
from workers.timeline import archive_v1, transitions
from workers.timeline.archive import (
    ArchivedInstant,
    archived_instants,
    archived_times,
    manifest_numbers,
)
from workers.timeline.instant import Action, CompletedInstant
from workers.timeline.layout import TimelineLayout
from workers.timeline.metadata import SCHEMA_KEY, commit_metadata
from workers.timeline.timeline import Timeline

CREATION_OPERATION = "ALTER_SCHEMA"
GROUP_MERGE_STRATEGY = "5b0f6d52-8c55-4d0c-9a57-6e1f0f6c2a41"
"""Ours, fixed: readers that do not have it refuse to merge the logs of a table with groups."""


@dataclass(frozen=True, slots=True)
class Table:
    """An open table: its storage, and its configuration as it was when it was opened."""

    storage: Storage
    config: TableConfig
    ports: Ports
    write_refusal: str | None = None
    """Why this table may be read but not written; None when it may be written."""
    is_foreign: bool = False
    """Another engine made it."""
    properties: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """As they were when it was opened."""

    @property
    def layout(self) -> TimelineLayout:
        """Where the timeline lies and how its files are named."""
        return TimelineLayout(self.config.timeline_layout)

    def timeline(self) -> Timeline:
        """The active timeline, listed now. Raises TableChanged, see `check_layout`."""
        timeline = Timeline.load(self.storage, self.layout)
        self.check_layout()
        return timeline

    def check_layout(self) -> None:
        """Raises TableChanged when the table was upgraded since this was opened: its timeline lies
        elsewhere now, and the old one is removed once the properties say so.
        """
        if self.layout.version != 1:
            return
        if config_from_properties(load_properties(self.storage)).timeline_layout != 1:
            raise TableChanged(
                "the table was upgraded since it was opened; open it again",
                table=self.storage.location,
            )

    def archived_instants(
        self,
        *,
        requested_from: InstantTime | None = None,
        completed_until: InstantTime | None = None,
        with_content: bool = False,
    ) -> list[ArchivedInstant]:
        """As `timeline.archive.archived_instants`, in either layout. Raises MalformedTable."""
        bounds: Any = {
            "requested_from": requested_from,
            "completed_until": completed_until,
            "with_content": with_content,
        }
        if self.layout.version == 1:
            return archive_v1.archived_instants(self.storage, self.config.archive_folder, **bounds)
        return archived_instants(self.storage, **bounds)

    def archived_times(self) -> tuple[CompletedInstant, ...]:
        """All archived instants, ascending by requested time. Raises MalformedTable."""
        if self.layout.version == 1:
            return tuple(one.instant for one in self.archived_instants())
        return archived_times(self.storage)

    def archive_mark(self) -> int:
        """Another number after each time that something was archived; 0 before the first."""
        if self.layout.version == 1:
            return archive_v1.archive_bytes(self.storage, self.config.archive_folder)
        return max(manifest_numbers(self.storage), default=0)

    @property
    def data_action(self) -> Action:
        """The action of a write that replaces nothing."""
        return Action.DELTACOMMIT if self.config.is_merge_on_read else Action.COMMIT

    def showing_unmatched(self) -> Table:
        """The same, of which a read hides no row for its join. Raises InvalidInput."""
        if self.config.groups is None:
            raise InvalidInput("only a table with column groups hides rows", table=self.config.name)
        return replace(self, config=self.config.showing_unmatched)

    def check_opened_writable(self) -> None:
        """Whether it was so when it was opened: what was begun then may be taken back later, too.
        Raises UnsupportedTable.
        """
        if self.write_refusal:
            raise UnsupportedTable(self.write_refusal, table=self.storage.location)

    def check_writable(self, *, begins_to_write: bool = False) -> None:
        """Looks at the properties again, for others change them while this is open.

        Raises UnsupportedTable, and TableChanged where rows would lie or merge in another way, or
        when whoever `begins_to_write` does not know a column group that was declared since: it
        would take the group's columns for those of no group. A write that has begun goes on.
        """
        self.check_opened_writable()
        now = load_properties(self.storage)
        if (change := change_since(self.config, self.properties, now)) is not None:
            raise type(change)(change.message, table=self.storage.location, **change.values)
        if not begins_to_write or self.config.groups is None:
            return
        if config_from_properties(now).groups != self.config.groups:
            raise TableChanged(
                "column groups were declared since the table was opened; open it again",
                table=self.storage.location,
            )

    def groups_now(self) -> GroupRule | None:
        """The column groups as they are declared by now; no table gets its first ones later."""
        if self.config.groups is None:
            return None
        return config_from_properties(load_properties(self.storage)).groups


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What `create` needs besides the options; columns by name."""

    name: str
    table_type: TableType
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    schema: TableSchema | None = None


def table_type_named(text: str) -> TableType:
    """The table type of this name, in any case. Raises InvalidInput."""
    try:
        return TableType(str(text).upper())
    except ValueError as error:
        raise InvalidInput(
            "unknown table type", given=text, known=[one.value for one in TableType]
        ) from error


def create(
    storage: Storage, definition: TableDefinition, options: Mapping[str, str], ports: Ports
) -> Table:
    """A new, empty table. Raises TableExists, and InvalidInput before anything is written."""
    values = table_options(options)
    generator = asked_generator(definition.record_key, definition.partition_by, values)
    definition = replace(definition, partition_by=generator.partition_by)
    _check_definition(definition, values)
    _check_times(definition, generator)
    properties = _new_properties(definition, values) | generator.properties
    properties[HISTORY_KEY] = format_instant(ports.clock.now_ms())
    if _exists(storage) or not create_properties(storage, properties):
        raise TableExists("a table lives here already", location=storage.location)
    config = config_from_properties(properties)
    table = Table(storage, config, ports, write_refusal(properties, config), properties=properties)
    if definition.schema is not None:
        _commit_schema(table, definition.schema)
    return table


def open_(storage: Storage, ports: Ports) -> Table:
    """The table as it stands now; its `write_refusal` says whether it may be written. Raises
    TableNotFound, UnsupportedTable, MalformedTable.
    """
    properties = load_properties(storage)
    config = config_from_properties(properties)
    refusal = write_refusal(properties, config)
    is_foreign = not made_by_sluice(properties)
    return Table(storage, config, ports, refusal, is_foreign, properties)


def _exists(storage: Storage) -> bool:
    try:
        load_properties(storage)
    except TableNotFound:
        return False
    return True


def _check_definition(definition: TableDefinition, values: Mapping[str, str]) -> None:
    check_table_name(definition.name)
    if not definition.record_key:
        raise InvalidInput("a table needs a record key", table=definition.name)
    hashed = listed(values[HASH_FIELD_KEY])
    for given in (definition.record_key, definition.partition_by, definition.ordering, hashed):
        if len(set(given)) < len(given):
            raise InvalidInput("a column is named twice", given=given)
    if not set(hashed) <= set(definition.record_key):
        raise InvalidInput(
            "only fields of the record key choose the bucket",
            key=HASH_FIELD_KEY,
            given=hashed,
            record_key=definition.record_key,
        )
    groups = group_rule(
        values,
        apart=(*definition.record_key, *definition.partition_by),
        ordering=definition.ordering,
    )
    if len(definition.ordering) > 1:
        raise InvalidInput(
            "at most one ordering field: make one column of them that sorts the same way",
            given=definition.ordering,
        )
    if boolean(values, "sluice.portable") and values["sluice.record.merger"]:
        raise InvalidInput("a portable table has no merger of its own: no other reader has it")
    if values["sluice.record.merger"]:
        merger_named(values["sluice.record.merger"])
    if groups is not None:
        check_grouped_table(definition, values, groups)
    _check_mode(definition, values)
    top_n = top_n_of(values[TOP_N_KEY]) if values[TOP_N_KEY] else None
    if definition.schema is not None:
        names = set(definition.schema.field_names)
        if top_n is not None:
            top_n.check(definition.schema.arrow)
        named = (*definition.record_key, *definition.partition_by, *definition.ordering)
        missing = [column for column in named if column not in names]
        if missing:
            raise InvalidInput("columns are not in the schema", missing=missing)
        for field in definition.record_key:
            check_key_type(field, definition.schema.arrow.field(field).type)
        if boolean(values, "sluice.portable"):
            check_portable(definition.schema)
    if values["hoodie.table.partial.update.mode"] == PARTIAL_IGNORE_DEFAULTS:
        _check_partial_updates(definition, values)


def _check_mode(definition: TableDefinition, values: Mapping[str, str]) -> None:
    """A mode that none of the table's writers could have is refused with the table."""
    if not values[MODE_KEY]:
        return
    mode = choice(values, MODE_KEY, ConcurrencyMode)
    if mode is not ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL:
        return
    if definition.table_type is not TableType.MERGE_ON_READ:
        raise InvalidInput(
            "non-blocking concurrency control needs a MERGE_ON_READ table", key=MODE_KEY
        )
    if IndexKind(values[INDEX_KEY]).looks_up:
        raise InvalidInput(
            "non-blocking concurrency control needs the bucket index",
            key=MODE_KEY,
            index=values[INDEX_KEY],
        )


def _check_partial_updates(definition: TableDefinition, values: Mapping[str, str]) -> None:
    """By commit time a value that is later stands, however it was merged. By event time a base file
    keeps one age per row, so a copy-on-write table would forget those of the columns at once.
    """
    if values[MERGE_MODE_KEY] == MergeMode.COMMIT_TIME_ORDERING:
        return
    if definition.table_type is not TableType.MERGE_ON_READ:
        raise InvalidInput(
            "partial updates by event time need a MERGE_ON_READ table; by commit time "
            f"({MERGE_MODE_KEY}={MergeMode.COMMIT_TIME_ORDERING}) every table takes them"
        )
    if not definition.ordering:
        raise InvalidInput(
            "partial updates by event time need an ordering field; without one say "
            f"{MERGE_MODE_KEY}={MergeMode.COMMIT_TIME_ORDERING}"
        )


def _new_properties(definition: TableDefinition, values: Mapping[str, str]) -> dict[str, str]:
    groups = group_rule(values, apart=(), ordering=())
    merge_mode = values["hoodie.record.merge.mode"] or (
        MergeMode.EVENT_TIME_ORDERING if definition.ordering else MergeMode.COMMIT_TIME_ORDERING
    )
    if groups is not None:
        is_portable = groups.is_portable
        merge_mode = MergeMode.COMMIT_TIME_ORDERING if is_portable else MergeMode.CUSTOM
        values = {**values, GROUPS_KEY: groups_json(groups.declared), SHORTHAND_KEY: ""}
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
        **{key: value for key, value in values.items() if value and key != ASKED_GENERATOR_KEY},
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


def _check_times(definition: TableDefinition, generator: KeyGenerator) -> None:
    if generator.rule is None or definition.schema is None:
        return
    for name in generator.times:
        check_time_column(generator.rule, name, definition.schema.arrow.field(name).type)


def _commit_schema(table: Table, schema: TableSchema) -> InstantTime:
    """Nobody knows of the table yet, so no lock is needed; a crash before this leaves a table that
    works.
    """
    storage, ports = table.storage, table.ports
    requested_at = next_instant(ports.clock, None)
    requested = transitions.request(storage, requested_at, table.data_action, b"")
    inflight = transitions.start(storage, requested)
    extra = {SCHEMA_KEY: schema.avro_json}
    made = commit_metadata([], extra=extra, operation_type=CREATION_OPERATION)
    content = made.encode(table.data_action)
    done = inflight.completed(next_instant(ports.clock, requested_at))
    transitions.complete(storage, transitions.Completion(done, content, ports.ids.token()))
    return requested_at
