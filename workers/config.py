"""Typed settings under Hudi's own names: what a table is, and how one write behaves.

Every key that Sluice understands stands in one of the two tables below with its default. A key in
neither is refused, because a misspelt option that is silently ignored loses data hours later.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from workers.column_groups import (
    GROUPS_KEY,
    JOIN_KEY,
    PORTABLE_KEY,
    RETENTION_KEY,
    SHORTHAND_KEY,
    GroupRule,
    group_rule,
)
from workers.early_detection import PERIOD_MS, EarlyDetection, strategy_named
from workers.errors import InvalidInput, UnsupportedTable
from workers.lock_config import LockSettings, lock_settings
from workers.payloads import (
    MERGE_MODE_KEY,
    PARTIAL_IGNORE_DEFAULTS,
    PARTIAL_KEY,
    PAYLOAD_KEYS,
    merges_whole_rows,
    with_payload,
)
from workers.top_n import TOP_N_KEY
from workers.writer_modes import (
    MODE_KEY,
    POLICY_KEY,
    ConcurrencyMode,
    FailedWritesPolicy,
    failed_writes_policy,
    newly_named,
)

BUCKETS_DEFAULT = 8
_BUCKETS_MAX = 100_000
_Choice = TypeVar("_Choice", bound=StrEnum)


class TableType(StrEnum):
    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(StrEnum):
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


class MarkerKind(StrEnum):
    DIRECT = "direct"
    TIMELINE_SERVER_BASED = "timeline_server_based"


class Codec(StrEnum):
    """Hudi's names."""

    ZSTD = "zstd"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    BROTLI = "brotli"
    UNCOMPRESSED = "uncompressed"


class LogBlockFormat(StrEnum):
    PARQUET = "parquet"
    AVRO = "avro"


class SortMode(StrEnum):
    """How bulk_insert orders rows; a file holds one bucket of one partition, so two agree."""

    NONE = "NONE"
    PARTITION_SORT = "PARTITION_SORT"
    GLOBAL_SORT = "GLOBAL_SORT"


class DuplicatePolicy(StrEnum):
    """What an insert does with a key that the table has already."""

    NONE = "none"
    """It is updated, as by upsert."""
    DROP = "drop"
    FAIL = "fail"


TABLE_OPTIONS: dict[str, str] = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS_DEFAULT),
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
    # Follows the ordering field: event time with one, commit time without.
    MERGE_MODE_KEY: "",
    PARTIAL_KEY: "",
    # Names of Hudi for the two above; see `payloads.py`.
    **dict.fromkeys(PAYLOAD_KEYS, ""),
    # The name under which a Python merger was registered; for merge mode CUSTOM.
    "sluice.record.merger": "",
    # Which stream writes which columns, and by what each is ordered; see `column_groups.py`.
    GROUPS_KEY: "",
    SHORTHAND_KEY: "",
    JOIN_KEY: "full",
    PORTABLE_KEY: "false",
    RETENTION_KEY: "7d",
    TOP_N_KEY: "",  # JSON: what `table.top_n()` asks for when nothing else is said.
    # Refuses what hudi-rs cannot read: timestamps without zone, own mergers.
    "sluice.portable": "false",
}

WRITE_OPTIONS: dict[str, str] = {
    MODE_KEY: ConcurrencyMode.SINGLE_WRITER,
    "hoodie.write.markers.type": MarkerKind.TIMELINE_SERVER_BASED,
    "hoodie.write.concurrency.early.conflict.detection.enable": "false",
    # Follows the marker type: transactional with direct markers, asynchronous with the server.
    "hoodie.write.concurrency.early.conflict.detection.strategy": "",
    "hoodie.write.concurrency.early.conflict.check.commit.conflict": "false",
    "hoodie.write.concurrency.async.conflict.detector.initial_delay_ms": "0",
    "hoodie.write.concurrency.async.conflict.detector.period_ms": str(PERIOD_MS),
    "hoodie.client.heartbeat.interval_in_ms": "60000",
    "hoodie.client.heartbeat.tolerable.misses": "2",
    "hoodie.write.concurrency.schema.conflict.resolution.enable": "true",
    # simple, evolvability, or a name given to `register_schema_strategy`.
    "hoodie.write.concurrency.schema.conflict.resolution.strategy": "simple",
    # What the table is locked by already when empty; see `lock_config.py` for these five.
    "hoodie.write.lock.provider": "",
    "hoodie.write.lock.filesystem.path": "",
    "hoodie.write.lock.filesystem.expire": "0",
    "sluice.lock.filesystem.pause_ms": "500",
    "sluice.lock.url": "",  # SLUICE_LOCK_URL when empty.
    "hoodie.write.lock.wait_time_ms": "60000",
    "hoodie.write.lock.storage.validity.timeout.secs": "30",
    "hoodie.write.lock.storage.renew.interval.secs": "10",
    "hoodie.write.num.retries.on.conflict.failures": "0",
    POLICY_KEY: "",  # Follows the mode: EAGER for a single writer, LAZY for one of many.
    "hoodie.parquet.compression.codec": Codec.ZSTD,
    "hoodie.logfile.data.block.format": LogBlockFormat.PARQUET,
    "hoodie.bulkinsert.sort.mode": SortMode.NONE,
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns": "",  # The record key when empty.
    "hoodie.datasource.insert.dup.policy": DuplicatePolicy.NONE,
    # Only with policy `fail`: whether equal keys of one batch count as one row, or fail as well.
    "hoodie.combine.before.insert": "false",
    # Where a rollback looks for a failed write's files: markers (true), listing (false), both ("").
    "hoodie.rollback.using.markers": "",
    # A directory outside the table that takes the rows which the table cannot hold.
    "sluice.dead.letter.path": "",
    "sluice.schema.evolution.enable": "true",
    "sluice.writer.name": "",  # A fresh `writer-…` when empty.
    "sluice.operation.id": "",
    "sluice.marker.url": "",  # SLUICE_MARKER_URL when empty.
}


@dataclass(frozen=True, slots=True)
class TableConfig:
    name: str
    table_type: TableType
    version: int
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    ordering: tuple[str, ...]
    merge_mode: MergeMode
    buckets: int
    is_partial_update: bool = False
    """Null and absent columns keep the stored value
    (`hoodie.table.partial.update.mode=IGNORE_DEFAULTS`).
    """
    hive_style: bool = False
    url_encode: bool = False
    key_generator: str = ""
    """As Hudi spells the type; empty in tables that do not say."""
    is_portable: bool = False
    """What hudi-rs cannot read is refused."""
    timeline_layout: int = 2
    create_schema_json: str | None = None
    merger: str | None = None
    """The registered merger that folds the versions of a key; only in merge mode CUSTOM."""
    groups: GroupRule | None = None
    """Each stream's columns have an ordering of their own."""
    top_n: str = ""

    @property
    def is_merge_on_read(self) -> bool:
        return self.table_type is TableType.MERGE_ON_READ

    @property
    def pinned_columns(self) -> tuple[str, ...]:
        """What rows are found and ordered by: with another type they would move or reorder."""
        of_groups = self.groups.declared if self.groups else ()
        ages = [name for one in of_groups for name in one.ordering]
        return (*self.record_key, *self.partition_by, *self.ordering, *ages)

    @property
    def required_columns(self) -> tuple[str, ...]:
        """What every batch of rows has to bring."""
        located = (*self.record_key, *self.partition_by)
        return located if self.groups else (*located, *self.ordering)

    @property
    def takes_narrow_rows(self) -> bool:
        """A batch may bring some columns only, and leaves the others as they are."""
        return self.is_partial_update or self.groups is not None

    @property
    def showing_unmatched(self) -> TableConfig:
        """The same, of which a read hides no row for its join."""
        if self.groups is None:
            return self
        return replace(self, groups=replace(self.groups, required=()))

    @property
    def folds_rows(self) -> bool:
        """A row may be made of several versions: a late one changes it, and leaves it the commit
        time of the version with the greatest ordering value.
        """
        return self.takes_narrow_rows or self.merger is not None

    @property
    def names_key_fields(self) -> bool:
        """Record keys are `field:value,...` rather than the plain value."""
        return len(self.record_key) > 1 or self.key_generator.startswith("COMPLEX")

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


@dataclass(frozen=True, slots=True)
class WriteOptions:
    mode: ConcurrencyMode
    marker_kind: MarkerKind
    marker_url: str
    heartbeat_interval_ms: int
    heartbeat_misses: int
    resolves_schema_conflicts: bool
    schema_strategy: str
    lock: LockSettings
    lock_wait_ms: int
    lease_s: float
    renew_s: float
    allows_evolution: bool
    writer: str
    operation_id: str
    conflict_retries: int
    codec: Codec
    log_block_format: LogBlockFormat
    sort_mode: SortMode
    sort_columns: tuple[str, ...]
    """What bulk_insert sorts by; empty for the record key."""
    duplicate_policy: DuplicatePolicy
    combines_inserts: bool
    dead_letter_path: str
    """Empty: a row that the table cannot hold refuses the whole batch."""
    rolls_back_by_markers: bool | None = None
    """None: by markers and by listing."""
    early: EarlyDetection | None = None
    """None: conflicts are found when the write commits."""
    failed_writes: FailedWritesPolicy = FailedWritesPolicy.EAGER


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Raises InvalidInput naming the first key or value that is wrong."""
    values = _known(newly_named(given), WRITE_OPTIONS, what="write option")
    interval = "hoodie.client.heartbeat.interval_in_ms"
    lease = "hoodie.write.lock.storage.validity.timeout.secs"
    renew = "hoodie.write.lock.storage.renew.interval.secs"
    mode = _choice(values, MODE_KEY, ConcurrencyMode)
    options = WriteOptions(
        mode=mode,
        marker_kind=_choice(values, "hoodie.write.markers.type", MarkerKind),
        marker_url=values["sluice.marker.url"],
        heartbeat_interval_ms=integer(values, interval, least=100, most=3_600_000),
        heartbeat_misses=integer(
            values, "hoodie.client.heartbeat.tolerable.misses", least=1, most=1000
        ),
        resolves_schema_conflicts=boolean(
            values, "hoodie.write.concurrency.schema.conflict.resolution.enable"
        ),
        schema_strategy=values["hoodie.write.concurrency.schema.conflict.resolution.strategy"],
        lock=lock_settings(values),
        lock_wait_ms=integer(values, "hoodie.write.lock.wait_time_ms", least=0, most=3_600_000),
        lease_s=integer(values, lease, least=1, most=3600),
        renew_s=integer(values, renew, least=1, most=1200),
        allows_evolution=boolean(values, "sluice.schema.evolution.enable"),
        writer=values["sluice.writer.name"],
        operation_id=values["sluice.operation.id"],
        conflict_retries=integer(
            values, "hoodie.write.num.retries.on.conflict.failures", least=0, most=100
        ),
        codec=_choice(values, "hoodie.parquet.compression.codec", Codec),
        log_block_format=_choice(values, "hoodie.logfile.data.block.format", LogBlockFormat),
        sort_mode=_choice(values, "hoodie.bulkinsert.sort.mode", SortMode),
        sort_columns=_listed(values["hoodie.bulkinsert.user.defined.partitioner.sort.columns"]),
        duplicate_policy=_choice(values, "hoodie.datasource.insert.dup.policy", DuplicatePolicy),
        combines_inserts=boolean(values, "hoodie.combine.before.insert"),
        dead_letter_path=values["sluice.dead.letter.path"],
        rolls_back_by_markers=(
            boolean(values, "hoodie.rollback.using.markers")
            if values["hoodie.rollback.using.markers"]
            else None
        ),
        early=_early_detection(values, mode),
        failed_writes=failed_writes_policy(values[POLICY_KEY], mode),
    )
    if options.renew_s >= options.lease_s and options.lease_s > 1:
        raise InvalidInput("a lease must be renewed before it ends", **{renew: options.renew_s})
    return options


def _early_detection(values: Mapping[str, str], mode: ConcurrencyMode) -> EarlyDetection | None:
    detector = "hoodie.write.concurrency.async.conflict.detector"
    early = "hoodie.write.concurrency.early.conflict"
    kind = _choice(values, "hoodie.write.markers.type", MarkerKind)
    found = EarlyDetection(
        strategy_named(
            values[f"{early}.detection.strategy"],
            with_direct_markers=kind is MarkerKind.DIRECT,
        ),
        boolean(values, f"{early}.check.commit.conflict"),
        integer(values, f"{detector}.initial_delay_ms", least=0, most=3_600_000),
        integer(values, f"{detector}.period_ms", least=50, most=3_600_000),
    )
    if not boolean(values, f"{early}.detection.enable"):
        return None
    if mode is not ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL:
        raise InvalidInput(
            "to use early conflict detection, set "
            "hoodie.write.concurrency.mode=OPTIMISTIC_CONCURRENCY_CONTROL",
            mode=mode.value,
        )
    return found


def table_options(given: Mapping[str, str]) -> dict[str, str]:
    """Defaults filled in. Raises InvalidInput."""
    values = with_payload(_known(given, TABLE_OPTIONS, what="table option"))
    if values["hoodie.index.type"].upper() not in ("BUCKET", "SIMPLE_BUCKET"):
        raise InvalidInput("only the simple bucket index is supported", given=given)
    integer(values, "hoodie.bucket.index.num.buckets", least=1, most=_BUCKETS_MAX)
    boolean(values, "hoodie.datasource.write.hive_style_partitioning")
    boolean(values, "hoodie.datasource.write.partitionpath.urlencode")
    boolean(values, "sluice.portable")
    partial = values["hoodie.table.partial.update.mode"]
    if partial not in ("", PARTIAL_IGNORE_DEFAULTS):
        raise InvalidInput("unsupported partial update mode", given=partial)
    boolean(values, PORTABLE_KEY)
    is_custom = values["hoodie.record.merge.mode"] == MergeMode.CUSTOM
    if is_custom != bool(values["sluice.record.merger"]):
        raise InvalidInput("merge mode CUSTOM and sluice.record.merger go together")
    if is_custom and partial:
        raise InvalidInput("a registered merger sees whole rows; it cannot merge partial updates")
    return values


def config_from_properties(properties: Mapping[str, str]) -> TableConfig:
    """Raises UnsupportedTable for what we would read wrongly, by name (format page 1)."""
    version = integer(properties, "hoodie.table.version", least=1, most=9)
    if version not in (6, 8, 9):
        raise UnsupportedTable("table version is not read", version=version, supported="6, 8, 9")
    if properties.get("hoodie.populate.meta.fields", "true") != "true":
        raise UnsupportedTable("tables without meta columns are not read")
    ordering = _listed(
        properties.get("hoodie.table.ordering.fields")
        or properties.get("hoodie.table.precombine.field")
    )
    payload = properties.get("hoodie.compaction.payload.class", "")
    if not properties.get(MERGE_MODE_KEY) and not merges_whole_rows(payload):
        raise UnsupportedTable("payload class is not supported", payload=payload)
    mode = properties.get(MERGE_MODE_KEY) or (
        MergeMode.EVENT_TIME_ORDERING if ordering else MergeMode.COMMIT_TIME_ORDERING
    )
    if mode not in set(MergeMode):
        raise UnsupportedTable("record merge mode is not supported", mode=mode)
    partial = properties.get("hoodie.table.partial.update.mode", "")
    if partial not in ("", PARTIAL_IGNORE_DEFAULTS):
        raise UnsupportedTable("partial update mode is not supported", mode=partial)
    merger = properties.get("sluice.record.merger") or None
    record_key = _listed(properties.get("hoodie.table.recordkey.fields"))
    partition_by = _listed(properties.get("hoodie.table.partition.fields"))
    groups = group_rule(properties, apart=(*record_key, *partition_by), ordering=ordering)
    is_ours = merger is not None or (groups is not None and not groups.is_portable)
    if (mode == MergeMode.CUSTOM) != is_ours:
        raise UnsupportedTable("custom record mergers of other engines are not run", mode=mode)
    return TableConfig(
        name=properties["hoodie.table.name"],
        table_type=_choice(properties, "hoodie.table.type", TableType),
        version=version,
        record_key=record_key,
        partition_by=partition_by,
        ordering=ordering,
        merge_mode=MergeMode(mode),
        buckets=int(properties.get("hoodie.bucket.index.num.buckets") or 0),
        is_partial_update=partial == PARTIAL_IGNORE_DEFAULTS,
        hive_style=properties.get("hoodie.datasource.write.hive_style_partitioning") == "true",
        url_encode=properties.get("hoodie.datasource.write.partitionpath.urlencode") == "true",
        key_generator=properties.get("hoodie.table.keygenerator.type", ""),
        is_portable=properties.get("sluice.portable") == "true",
        timeline_layout=int(properties.get("hoodie.timeline.layout.version") or 1),
        create_schema_json=properties.get("hoodie.table.create.schema"),
        merger=merger,
        groups=groups,
        top_n=properties.get(TOP_N_KEY, ""),
    )


def integer(values: Mapping[str, str], key: str, *, least: int, most: int) -> int:
    try:
        value = int(values[key])
    except (KeyError, ValueError) as error:
        raise InvalidInput("not a whole number", key=key, value=values.get(key)) from error
    if not least <= value <= most:
        raise InvalidInput("number out of range", key=key, value=value, least=least, most=most)
    return value


def boolean(values: Mapping[str, str], key: str) -> bool:
    text = str(values[key]).lower()
    if text not in ("true", "false"):
        raise InvalidInput("neither true nor false", key=key, value=values[key])
    return text == "true"


def _choice(values: Mapping[str, str], key: str, kind: type[_Choice]) -> _Choice:
    text = str(values.get(key, ""))
    for member in kind:
        if member.value.lower() == text.lower():
            return member
    allowed = [one.value for one in kind]
    raise InvalidInput("value is not one of those allowed", key=key, value=text, allowed=allowed)


def _known(given: Mapping[str, str], known: dict[str, str], *, what: str) -> dict[str, str]:
    for key, value in given.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = {"did_you_mean": near[0]} if near else {"known": sorted(known)}
            raise InvalidInput(f"unknown {what}", key=key, **hint)
        if not isinstance(value, str):
            raise InvalidInput(f"a {what} is text", key=key, value=value)
    return {**known, **given}


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())
