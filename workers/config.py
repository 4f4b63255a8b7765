"""How one write behaves, under Hudi's own names.

Every key that Sluice understands stands in the table below with its default. A key that does not is
refused, because a misspelt option that is silently ignored loses data hours later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from workers.early_detection import PERIOD_MS, EarlyDetection, strategy_named
from workers.errors import InvalidInput
from workers.insert_sizing import DEFAULT_SIZING, SIZING_OPTIONS, InsertSizing, insert_sizing
from workers.lock_config import LockSettings, lock_settings
from workers.option_values import boolean, choice, integer, known, listed
from workers.writer_modes import (
    MODE_KEY,
    POLICY_KEY,
    ConcurrencyMode,
    FailedWritesPolicy,
    failed_writes_policy,
    newly_named,
)


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


LEASE_KEY = "hoodie.write.lock.storage.validity.timeout.secs"
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
    LEASE_KEY: "30",
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
    **SIZING_OPTIONS,
    # Where a rollback looks for a failed write's files: markers (true), listing (false), both ("").
    "hoodie.rollback.using.markers": "true",
    # A directory outside the table that takes the rows which the table cannot hold.
    "sluice.dead.letter.path": "",
    "sluice.schema.evolution.enable": "true",
    "sluice.writer.name": "",  # A fresh `writer-…` when empty.
    "sluice.operation.id": "",
    "sluice.marker.url": "",  # SLUICE_MARKER_URL when empty.
}


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
    rolls_back_by_markers: bool = True
    """None: by markers and by listing."""
    early: EarlyDetection | None = None
    """None: conflicts are found when the write commits."""
    failed_writes: FailedWritesPolicy = FailedWritesPolicy.EAGER
    sizing: InsertSizing = DEFAULT_SIZING


SHORT_LIVED: Mapping[str, str] = {
    "hoodie.client.heartbeat.interval_in_ms": "5000",
    "hoodie.client.heartbeat.tolerable.misses": "3",
    LEASE_KEY: "15",
    "hoodie.write.lock.storage.renew.interval.secs": "4",
}
"""Of a worker that is one of many: the next one goes on with its job within seconds, so what it
holds when it dies runs out within seconds too, not in the minutes that a writer may want.
"""

_OF_DRIVERS: Mapping[str, str] = {
    "hoodie.client.heartbeat.interval_in_ms": "10000",
    "hoodie.client.heartbeat.tolerable.misses": "4",
}


def driver_options(given: Mapping[str, str]) -> dict[str, str]:
    """The options of a driver that the control plane started. On another machine its heartbeat is
    what tells that it died, so that runs out within a minute where the job says nothing about it.
    """
    says_how = any(key in given for key in _OF_DRIVERS)
    return dict(given) if says_how else {**_OF_DRIVERS, **given}


def write_options(
    given: Mapping[str, str], mode_unsaid: ConcurrencyMode = ConcurrencyMode.SINGLE_WRITER
) -> WriteOptions:
    """`mode_unsaid` holds where `given` names no concurrency mode: what the table says
    (`TableConfig.mode_of`). Raises InvalidInput naming the first key or value that is wrong.
    """
    named = {MODE_KEY: mode_unsaid.value, **newly_named(given)}
    values = known(named, WRITE_OPTIONS, what="write option")
    interval = "hoodie.client.heartbeat.interval_in_ms"
    renew = "hoodie.write.lock.storage.renew.interval.secs"
    mode = choice(values, MODE_KEY, ConcurrencyMode)
    options = WriteOptions(
        mode=mode,
        marker_kind=choice(values, "hoodie.write.markers.type", MarkerKind),
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
        lease_s=integer(values, LEASE_KEY, least=1, most=3600),
        renew_s=integer(values, renew, least=1, most=1200),
        allows_evolution=boolean(values, "sluice.schema.evolution.enable"),
        writer=values["sluice.writer.name"],
        operation_id=values["sluice.operation.id"],
        conflict_retries=integer(
            values, "hoodie.write.num.retries.on.conflict.failures", least=0, most=100
        ),
        codec=choice(values, "hoodie.parquet.compression.codec", Codec),
        log_block_format=choice(values, "hoodie.logfile.data.block.format", LogBlockFormat),
        sort_mode=choice(values, "hoodie.bulkinsert.sort.mode", SortMode),
        sort_columns=listed(values["hoodie.bulkinsert.user.defined.partitioner.sort.columns"]),
        duplicate_policy=choice(values, "hoodie.datasource.insert.dup.policy", DuplicatePolicy),
        combines_inserts=boolean(values, "hoodie.combine.before.insert"),
        dead_letter_path=values["sluice.dead.letter.path"],
        rolls_back_by_markers=boolean(values, "hoodie.rollback.using.markers"),
        early=_early_detection(values, mode),
        failed_writes=failed_writes_policy(values[POLICY_KEY], mode),
        sizing=insert_sizing(values),
    )
    if options.renew_s >= options.lease_s and options.lease_s > 1:
        raise InvalidInput("a lease must be renewed before it ends", **{renew: options.renew_s})
    return options


def _early_detection(values: Mapping[str, str], mode: ConcurrencyMode) -> EarlyDetection | None:
    detector = "hoodie.write.concurrency.async.conflict.detector"
    early = "hoodie.write.concurrency.early.conflict"
    kind = choice(values, "hoodie.write.markers.type", MarkerKind)
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
