"""The definition of a table, under Hudi's own names: its options when it is created, its properties
after.

Every key that Sluice understands is in the table below with its default. An unknown key is
rejected, because a misspelt option that is silently ignored loses data hours later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workers.errors import InvalidInput, UnsupportedTable
from workers.options.bloom_options import (
    BloomOptions,
    bloom_options,
    select_bloom_options,
)
from workers.options.column_groups import GroupRule, group_rule
from workers.options.group_keys import GROUPS_KEY, PORTABLE_KEY, RETENTION_KEY, SHORTHAND_KEY
from workers.options.index_kind import (
    INDEX_KEY,
    INDEX_OPTIONS,
    IndexKind,
    find_index,
    index_options,
    moves_rows,
)
from workers.options.option_values import choice, duration_minutes, parse_list
from workers.options.partition_update import PartitionUpdate, partition_update
from workers.options.payloads import (
    MERGE_MODE_KEY,
    PARTIAL_IGNORE_DEFAULTS,
    PARTIAL_KEY,
    STRATEGIES,
    STRATEGY_KEYS,
    effective_merge_mode,
    with_payload,
)
from workers.options.readability import (
    archive_folder,
    check_files,
    check_merge,
    custom_merge,
    has_old_logs,
    history_since,
    table_version,
    timeline_layout,
)
from workers.options.table_keys import (
    BUCKETS_KEY,
    HASH_FIELD_KEY,
    HIVE_STYLE_KEY,
    KEY_GENERATOR_KEY,
    MERGER_KEY,
    PORTABLE_TABLE_KEY,
    TABLE_OPTIONS,
    URL_ENCODE_KEY,
    MergeMode,
    TableType,
)
from workers.options.time_partitions import (
    FieldKind,
    TimeRule,
    parse_stored_time_rule,
    parse_typed_fields,
)
from workers.options.time_units import TIME_UNIT_KEY, time_units
from workers.options.top_n_request import TOP_N_KEY
from workers.options.writer_modes import MODE_KEY, ConcurrencyMode, mode_of_operation

_KEY_GENERATOR_CLASS_KEY = "hoodie.table.keygenerator.class"
_KEY_GENERATOR_CLASSES = {
    "SimpleKeyGenerator": "SIMPLE",
    "ComplexKeyGenerator": "COMPLEX",
    "TimestampBasedKeyGenerator": "TIMESTAMP",
    "CustomKeyGenerator": "CUSTOM",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "GlobalDeleteKeyGenerator": "GLOBAL_DELETE",
}
"""What older tables name, by the type that stands for it now; never loaded."""


@dataclass(frozen=True, slots=True)
class TableConfig:
    """A table's properties, read and typed by `config_from_properties`; values only."""

    name: str
    table_type: TableType
    version: int
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    merge_mode: MergeMode
    buckets: int
    """The number of buckets; 0 under an index that looks up keys, and in tables without the
    property.
    """
    hash_fields: tuple[str, ...] = ()
    """Those of the record key that choose the bucket; empty for all of them."""
    index: IndexKind | None = IndexKind.BUCKET
    """None for one that Sluice does not write by."""
    moves_rows: bool = False
    """Under a global index: a row that comes with another partition moves there."""
    bloom: BloomOptions | None = None
    """The options of the filters that base files keep of their keys; None if the index has none."""
    is_partial_update: bool = False
    """Null and absent columns keep the stored value
    (`hoodie.table.partial.update.mode=IGNORE_DEFAULTS`).
    """
    hive_style: bool = False
    url_encode: bool = False
    key_generator: str = ""
    """Hudi's name of the type; empty in tables without the property."""
    time_fields: tuple[str, ...] = ()
    """Partition fields whose path is a time's text rather than the value."""
    time_rule: TimeRule | None = None
    """How; None as well for what is not supported, and such a table is read only."""
    has_meta_columns: bool = True
    is_portable: bool = False
    """What hudi-rs cannot read is refused."""
    time_units: str = ""
    """As `sluice.event.time.unit` declares them."""
    timeline_layout: int = 2
    has_old_logs: bool = False
    """Upgraded from version 6: some log files may be named after their base file."""
    archive_folder: str = "archived"
    """Below `.hoodie`, of timeline layout 1."""
    create_schema_json: str | None = None
    merger: str | None = None
    """The registered merger that folds the versions of a key; only in merge mode CUSTOM."""
    groups: GroupRule | None = None
    """Each stream's columns have an ordering of their own."""
    partition_update: PartitionUpdate = PartitionUpdate.ALLOW
    top_n: str = ""
    history_since: str | None = None
    """The instant from which on the history is whole; None if it is unknown."""
    concurrency_mode: ConcurrencyMode | None = None
    """Of writes that name none; None leaves them to Hudi's default, a single writer."""

    def get_mode(self, operation: str) -> ConcurrencyMode:
        """Return the concurrency mode of a write that names none."""
        return mode_of_operation(self.concurrency_mode, operation)

    @property
    def looks_up(self) -> bool:
        """True if keys are looked up in the file groups, instead of hashed to them."""
        return self.index is not None and self.index.looks_up

    @property
    def keeps_keys_single(self) -> bool:
        """True if a key of column groups exists once in the table, in any partition."""
        return self.partition_update is not PartitionUpdate.ALLOW

    @property
    def is_global(self) -> bool:
        """True if a key exists once in the whole table."""
        return self.index is not None and self.index.is_global

    @property
    def is_merge_on_read(self) -> bool:
        """True if updates go to log files, which reads and compactions merge."""
        return self.table_type is TableType.MERGE_ON_READ

    @property
    def pinned_columns(self) -> tuple[str, ...]:
        """The columns that rows are found by: with another type they would move."""
        return (*self.record_key, *self.partition_by)

    @property
    def ordering_columns(self) -> tuple[str, ...]:
        """The columns that order versions of rows, in the table or in its column groups."""
        # With groups, the table's own ordering is among their ages.
        return self.groups.ages if self.groups else self.ordering

    @property
    def required_columns(self) -> tuple[str, ...]:
        """The columns that every batch of rows must have."""
        located = (*self.record_key, *self.partition_by)
        return located if self.groups else (*located, *self.ordering)

    @property
    def takes_narrow_rows(self) -> bool:
        """True if a batch may have some columns only, and leaves the others unchanged."""
        return self.is_partial_update or self.groups is not None

    @property
    def showing_unmatched(self) -> TableConfig:
        """Return the same configuration for reads that hide no row because of its join."""
        if self.groups is None:
            return self
        return replace(self, groups=replace(self.groups, required=()))

    @property
    def folds_rows(self) -> bool:
        """True if a row may be made of several versions: a late version changes it, and leaves it
        the commit time of the version with the greatest ordering value.
        """
        return self.takes_narrow_rows or self.merger is not None

    @property
    def compares_rows(self) -> bool:
        """True if changes since a time are found by comparing values: rows do not record the commit
        that wrote them, or may change under their former commit time.
        """
        return self.folds_rows or not self.has_meta_columns

    @property
    def names_key_fields(self) -> bool:
        """True if record keys are `field:value,...` rather than the plain value."""
        return len(self.record_key) > 1 or self.key_generator.startswith(("COMPLEX", "GLOBAL"))

    @property
    def index_fields(self) -> tuple[str, ...]:
        """The key fields whose values are hashed: rows that agree in them share a file group."""
        return self.hash_fields or self.record_key

    @property
    def ordering_field(self) -> str | None:
        """The column that decides which record survives; None when the last commit wins, and
        where each column group has its own.
        """
        if (
            self.groups is not None
            or self.merge_mode is MergeMode.COMMIT_TIME_ORDERING
            or not self.ordering
        ):
            return None
        return self.ordering[0]


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return table options with defaults filled in. Raises InvalidInput."""
    keys = TABLE_OPTIONS
    values = with_payload(keys.fill_defaults(options))
    values |= {**dict.fromkeys(INDEX_OPTIONS, ""), **index_options(values)}
    kind = IndexKind(values[INDEX_KEY])
    values |= select_bloom_options(values, has_filters=kind.has_filters)
    if kind.looks_up:
        values |= _without_buckets(options, values)
    else:
        keys.integer(values, BUCKETS_KEY)
    for key in (HIVE_STYLE_KEY, URL_ENCODE_KEY, PORTABLE_TABLE_KEY, PORTABLE_KEY):
        keys.boolean(values, key)
    time_units(values[TIME_UNIT_KEY])
    # Tables from before zero was refused are read: they remember no delete.
    duration_minutes(values[RETENTION_KEY], RETENTION_KEY, least=1)
    partial = values[PARTIAL_KEY]
    if partial not in ("", PARTIAL_IGNORE_DEFAULTS):
        raise InvalidInput("unsupported partial update mode", given=partial)
    is_custom = values[MERGE_MODE_KEY] == MergeMode.CUSTOM
    if is_custom != bool(values[MERGER_KEY]):
        raise InvalidInput(f"merge mode CUSTOM and {MERGER_KEY} go together")
    if is_custom and partial:
        raise InvalidInput("a registered merger sees whole rows; it cannot merge partial updates")
    return values


def _without_buckets(options: Mapping[str, str], values: Mapping[str, str]) -> dict[str, str]:
    index = values[INDEX_KEY]
    for key in (BUCKETS_KEY, HASH_FIELD_KEY):
        if options.get(key):
            raise InvalidInput("only the bucket index has buckets", key=key, index=index)
    if values[GROUPS_KEY] or values[SHORTHAND_KEY]:
        raise InvalidInput(
            "column groups need the bucket index: streams that do not know of each other must meet "
            "in one file group",
            index=index,
        )
    return {BUCKETS_KEY: "", HASH_FIELD_KEY: ""}


def config_from_properties(properties: Mapping[str, str]) -> TableConfig:
    """Parse a table's properties. Raises UnsupportedTable, with the name, for those that we would
    read wrongly (format page 1).
    """
    version = table_version(properties)
    check_files(properties)
    check_merge(properties)
    ordering = parse_list(
        properties.get("hoodie.table.ordering.fields")
        or properties.get("hoodie.table.precombine.field")
    )
    mode = effective_merge_mode(properties, is_ordered=bool(ordering))
    if mode not in set(MergeMode):
        raise UnsupportedTable("record merge mode is not supported", mode=mode)
    strategy = properties.get(STRATEGY_KEYS[0])
    if version > 6 and strategy and STRATEGIES.get(strategy, MergeMode.CUSTOM) != mode:
        raise custom_merge(properties)  # Hudi goes by the strategy then.
    merger = properties.get(MERGER_KEY) or None
    record_key = parse_list(properties.get("hoodie.table.recordkey.fields"))
    partitioned = parse_typed_fields(properties.get("hoodie.table.partition.fields", ""))
    partition_by = tuple(name for name, _ in partitioned)
    key_generator = _key_generator(properties)
    is_timed = key_generator.startswith("TIMESTAMP")
    groups = group_rule(properties, apart=(*record_key, *partition_by), ordering=ordering)
    is_ours = merger is not None or (groups is not None and not groups.is_portable)
    if (mode == MergeMode.CUSTOM) != is_ours:
        raise custom_merge(properties)
    index = find_index(properties)
    return TableConfig(
        name=properties["hoodie.table.name"],
        table_type=choice(properties, "hoodie.table.type", TableType),
        version=version,
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        merge_mode=MergeMode(mode),
        buckets=_buckets(properties),
        hash_fields=parse_list(properties.get(HASH_FIELD_KEY)),
        index=index,
        moves_rows=moves_rows(properties),
        bloom=bloom_options(properties) if index and index.has_filters else None,
        is_partial_update=properties.get(PARTIAL_KEY) == PARTIAL_IGNORE_DEFAULTS,
        hive_style=properties.get(HIVE_STYLE_KEY) == "true",
        url_encode=properties.get(URL_ENCODE_KEY) == "true",
        key_generator=key_generator,
        time_fields=tuple(
            name for name, kind in partitioned if is_timed or kind is FieldKind.TIMESTAMP
        ),
        time_rule=parse_stored_time_rule(properties),
        has_meta_columns=properties.get("hoodie.populate.meta.fields", "true") == "true",
        is_portable=properties.get(PORTABLE_TABLE_KEY) == "true",
        time_units=properties.get(TIME_UNIT_KEY, ""),
        timeline_layout=timeline_layout(properties, version),
        has_old_logs=has_old_logs(properties, version),
        archive_folder=archive_folder(properties),
        create_schema_json=properties.get("hoodie.table.create.schema"),
        merger=merger,
        groups=groups,
        partition_update=partition_update(properties, groups, record_key, partition_by),
        top_n=properties.get(TOP_N_KEY, ""),
        concurrency_mode=_concurrency_mode(properties, groups),
        history_since=history_since(properties),
    )


def _concurrency_mode(
    properties: Mapping[str, str], groups: GroupRule | None
) -> ConcurrencyMode | None:
    if properties.get(MODE_KEY):
        return choice(properties, MODE_KEY, ConcurrencyMode)
    is_logged = properties["hoodie.table.type"] == TableType.MERGE_ON_READ
    if groups is not None and is_logged:
        return ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
    return None


def _buckets(properties: Mapping[str, str]) -> int:
    if find_index(properties) is not IndexKind.BUCKET:
        return 0
    if not properties.get(BUCKETS_KEY):
        return 0
    return TABLE_OPTIONS.integer(properties, BUCKETS_KEY)


def _key_generator(properties: Mapping[str, str]) -> str:
    if generator := properties.get(KEY_GENERATOR_KEY):
        return generator
    name = properties.get(_KEY_GENERATOR_CLASS_KEY, "").rpartition(".")[2]
    return _KEY_GENERATOR_CLASSES.get(name.replace("AvroKey", "Key"), name)
