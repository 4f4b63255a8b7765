"""The behaviour of one write, under Hudi's own names.

Every key that Sluice understands is in the table below with its default. An unknown key is
rejected, because a misspelt option that is silently ignored loses data hours later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workers.errors import InvalidInput
from workers.options.early_detection import EarlyDetection, strategy_named
from workers.options.insert_size import InsertSizing, insert_sizing
from workers.options.lock_options import LockSettings, lock_settings
from workers.options.option_values import parse_list
from workers.options.write_keys import (
    BLOCK_KEY,
    BY_MARKERS_KEY,
    CODEC_KEY,
    COMBINES_KEY,
    DEAD_LETTER_KEY,
    DETECTOR_DELAY_KEY,
    DETECTOR_PERIOD_KEY,
    DUPLICATES_KEY,
    EARLY_COMMITS_KEY,
    EARLY_KEY,
    EARLY_STRATEGY_KEY,
    EVOLUTION_KEY,
    INTERVAL_KEY,
    LEASE_KEY,
    LOCK_WAIT_KEY,
    MARKER_URL_KEY,
    MARKERS_KEY,
    MEMORY_KEY,
    MISSES_KEY,
    OPERATION_ID_KEY,
    RENEW_KEY,
    RESOLUTION_KEY,
    RESOLUTION_STRATEGY_KEY,
    RETRIES_KEY,
    SORT_COLUMNS_KEY,
    SORT_KEY,
    THREADS_KEY,
    WRITE_OPTIONS,
    WRITER_KEY,
    Codec,
    DuplicatePolicy,
    LogBlockFormat,
    MarkerKind,
    SortMode,
)
from workers.options.writer_modes import (
    MODE_KEY,
    POLICY_KEY,
    ConcurrencyMode,
    FailedWritesPolicy,
    get_failed_writes_policy,
    normalize_policy_key,
)

DEFAULT_SIZING = insert_sizing(WRITE_OPTIONS.defaults, WRITE_OPTIONS)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, typed and checked by `write_options`; times with their unit in
    the name.
    """

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
    threads: int | None = None
    """File groups that are written at once; None: by cores and memory."""
    memory_bytes: int = 256 << 20
    """Limit for the rows of a write of batches. Rows beyond it go through temporary files."""


SHORT_LIVED: Mapping[str, str] = {
    INTERVAL_KEY: "5000",
    MISSES_KEY: "3",
    LEASE_KEY: "15",
    RENEW_KEY: "4",
}
"""The options of a worker that is one of many. Another worker continues with its job within
seconds, so its leases expire within seconds too, not in the minutes that another writer may need.
"""

_OF_DRIVERS: Mapping[str, str] = {
    INTERVAL_KEY: "10000",
    MISSES_KEY: "4",
}


def driver_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a driver that the control plane started. On another machine only its
    heartbeat shows that it died, so that expires within a minute unless the job sets it.
    """
    says_how = any(key in options for key in _OF_DRIVERS)
    return dict(options) if says_how else {**_OF_DRIVERS, **options}


def write_options(
    texts: Mapping[str, str], mode_unsaid: ConcurrencyMode = ConcurrencyMode.SINGLE_WRITER
) -> WriteOptions:
    """Parse and check the texts of options by key. `mode_unsaid` applies if they name no
    concurrency mode: the table's own (`TableConfig.get_mode`). Raises InvalidInput naming the first
    key or value that is wrong.
    """
    keys = WRITE_OPTIONS
    values = keys.fill_defaults({MODE_KEY: mode_unsaid.value, **normalize_policy_key(texts)})
    mode = keys.choice(values, MODE_KEY, ConcurrencyMode)
    options = WriteOptions(
        mode=mode,
        marker_kind=keys.choice(values, MARKERS_KEY, MarkerKind),
        marker_url=values[MARKER_URL_KEY],
        heartbeat_interval_ms=keys.integer(values, INTERVAL_KEY),
        heartbeat_misses=keys.integer(values, MISSES_KEY),
        resolves_schema_conflicts=keys.boolean(values, RESOLUTION_KEY),
        schema_strategy=values[RESOLUTION_STRATEGY_KEY],
        lock=lock_settings(values),
        lock_wait_ms=keys.integer(values, LOCK_WAIT_KEY),
        lease_s=keys.integer(values, LEASE_KEY),
        renew_s=keys.integer(values, RENEW_KEY),
        allows_evolution=keys.boolean(values, EVOLUTION_KEY),
        writer=values[WRITER_KEY],
        operation_id=values[OPERATION_ID_KEY],
        conflict_retries=keys.integer(values, RETRIES_KEY),
        codec=keys.choice(values, CODEC_KEY, Codec),
        log_block_format=keys.choice(values, BLOCK_KEY, LogBlockFormat),
        sort_mode=keys.choice(values, SORT_KEY, SortMode),
        sort_columns=parse_list(values[SORT_COLUMNS_KEY]),
        duplicate_policy=keys.choice(values, DUPLICATES_KEY, DuplicatePolicy),
        combines_inserts=keys.boolean(values, COMBINES_KEY),
        dead_letter_path=values[DEAD_LETTER_KEY],
        rolls_back_by_markers=keys.boolean(values, BY_MARKERS_KEY),
        early=_early_detection(values, mode),
        failed_writes=get_failed_writes_policy(values[POLICY_KEY], mode),
        sizing=insert_sizing(values, keys),
        threads=keys.integer(values, THREADS_KEY) or None,
        memory_bytes=keys.integer(values, MEMORY_KEY) << 20,
    )
    if options.renew_s >= options.lease_s and options.lease_s > 1:
        raise InvalidInput("a lease must be renewed before it ends", **{RENEW_KEY: options.renew_s})
    return options


def _early_detection(values: Mapping[str, str], mode: ConcurrencyMode) -> EarlyDetection | None:
    keys = WRITE_OPTIONS
    kind = keys.choice(values, MARKERS_KEY, MarkerKind)
    early = EarlyDetection(
        strategy_named(
            values[EARLY_STRATEGY_KEY],
            with_direct_markers=kind is MarkerKind.DIRECT,
        ),
        keys.boolean(values, EARLY_COMMITS_KEY),
        keys.integer(values, DETECTOR_DELAY_KEY),
        keys.integer(values, DETECTOR_PERIOD_KEY),
    )
    if not keys.boolean(values, EARLY_KEY):
        return None
    if mode is not ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL:
        raise InvalidInput(
            "to use early conflict detection, set "
            "hoodie.write.concurrency.mode=OPTIMISTIC_CONCURRENCY_CONTROL",
            mode=mode.value,
        )
    return early
