"""The keys of one write: Hudi's own names and defaults, and their meaning."""

from __future__ import annotations

from enum import StrEnum

from workers.options.early_detection import PERIOD_MS
from workers.options.insert_size import SIZING_OPTIONS
from workers.options.lock_options import LOCK_OPTIONS
from workers.options.option import Boolean, Integer, OneOf, Option, OptionSet, Setter, Text
from workers.options.writer_modes import MODE_KEY, POLICY_KEY, ConcurrencyMode


class MarkerKind(StrEnum):
    """The writer of markers: the process itself, or the marker server in batches (RFC-36)."""

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
    """The encoding of the rows of a log block (format page 5)."""

    PARQUET = "parquet"
    AVRO = "avro"


class SortMode(StrEnum):
    """The order of rows in bulk_insert; a file has a single bucket of one partition, so two modes
    agree.
    """

    NONE = "NONE"
    PARTITION_SORT = "PARTITION_SORT"
    GLOBAL_SORT = "GLOBAL_SORT"


class DuplicatePolicy(StrEnum):
    """The action of an insert on a key that the table has already."""

    NONE = "none"
    """It is updated, as by upsert."""
    DROP = "drop"
    FAIL = "fail"


LEASE_KEY = "hoodie.write.lock.storage.validity.timeout.secs"
RENEW_KEY = "hoodie.write.lock.storage.renew.interval.secs"
LOCK_WAIT_KEY = "hoodie.write.lock.wait_time_ms"
MARKERS_KEY = "hoodie.write.markers.type"
_EARLY = "hoodie.write.concurrency.early.conflict"
EARLY_KEY = f"{_EARLY}.detection.enable"
EARLY_STRATEGY_KEY = f"{_EARLY}.detection.strategy"
EARLY_COMMITS_KEY = f"{_EARLY}.check.commit.conflict"
_DETECTOR = "hoodie.write.concurrency.async.conflict.detector"
DETECTOR_DELAY_KEY = f"{_DETECTOR}.initial_delay_ms"
DETECTOR_PERIOD_KEY = f"{_DETECTOR}.period_ms"
INTERVAL_KEY = "hoodie.client.heartbeat.interval_in_ms"
MISSES_KEY = "hoodie.client.heartbeat.tolerable.misses"
_RESOLUTION = "hoodie.write.concurrency.schema.conflict.resolution"
RESOLUTION_KEY = f"{_RESOLUTION}.enable"
RESOLUTION_STRATEGY_KEY = f"{_RESOLUTION}.strategy"
RETRIES_KEY = "hoodie.write.num.retries.on.conflict.failures"
CODEC_KEY = "hoodie.parquet.compression.codec"
BLOCK_KEY = "hoodie.logfile.data.block.format"
SORT_KEY = "hoodie.bulkinsert.sort.mode"
SORT_COLUMNS_KEY = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"
DUPLICATES_KEY = "hoodie.datasource.insert.dup.policy"
COMBINES_KEY = "hoodie.combine.before.insert"
BY_MARKERS_KEY = "hoodie.rollback.using.markers"
DEAD_LETTER_KEY = "sluice.dead.letter.path"
THREADS_KEY = "sluice.write.threads"
MEMORY_KEY = "sluice.write.memory"
EVOLUTION_KEY = "sluice.schema.evolution.enable"
WRITER_KEY = "sluice.writer.name"
OPERATION_ID_KEY = "sluice.operation.id"
MARKER_URL_KEY = "sluice.marker.url"
_HOUR_MS = 3_600_000

WRITE_OPTIONS = OptionSet(
    "write option",
    Setter.WRITE,
    (
        Option(
            MODE_KEY,
            OneOf(ConcurrencyMode),
            ConcurrencyMode.SINGLE_WRITER,
            "What the write expects of others. If it is empty, the table's own setting for it "
            "counts first.",
        ),
        Option(
            MARKERS_KEY,
            OneOf(MarkerKind),
            MarkerKind.TIMELINE_SERVER_BASED,
            "How markers are written: each as a file, or by the marker server in batches. Without "
            "the address of a server they are direct.",
        ),
        Option(
            EARLY_KEY,
            Boolean(),
            "false",
            "Look for rivals while the write runs, not only when it commits; in optimistic mode.",
        ),
        Option(
            EARLY_STRATEGY_KEY,
            Text("class name of Hudi"),
            "",
            "How rivals are looked for; transactional with direct markers, asynchronous with the "
            "server, when empty.",
        ),
        Option(
            EARLY_COMMITS_KEY,
            Boolean(),
            "false",
            "Early detection also checks what was completed since the write began.",
        ),
        Option(
            DETECTOR_DELAY_KEY,
            Integer(0, _HOUR_MS),
            "0",
            "Milliseconds before the marker server first searches for rivals.",
        ),
        Option(
            DETECTOR_PERIOD_KEY,
            Integer(50, _HOUR_MS),
            str(PERIOD_MS),
            "Milliseconds between its searches.",
        ),
        Option(
            INTERVAL_KEY,
            Integer(100, _HOUR_MS),
            "60000",
            "Milliseconds between two heartbeats of the write.",
        ),
        Option(
            MISSES_KEY,
            Integer(1, 1000),
            "2",
            "Heartbeats that may be missing before others take the writer for dead.",
        ),
        Option(
            RESOLUTION_KEY,
            Boolean(),
            "true",
            "Compare the write's schema with those that were committed since it began (RFC-82).",
        ),
        Option(
            RESOLUTION_STRATEGY_KEY,
            Text("`simple`, `evolvability`, or a name given to `register_schema_strategy`"),
            "simple",
            "What becomes of two schemas that changed at once; see `docs/concurrency.md`.",
        ),
        *LOCK_OPTIONS,
        Option(
            LOCK_WAIT_KEY,
            Integer(0, _HOUR_MS),
            "60000",
            "Milliseconds that a write waits for the table lock.",
        ),
        Option(LEASE_KEY, Integer(1, 3600), "30", "Seconds that the lock's lease holds."),
        Option(
            RENEW_KEY,
            Integer(1, 1200),
            "10",
            "Seconds between two renewals of the lease; less than the lease.",
        ),
        Option(
            RETRIES_KEY,
            Integer(0, 100),
            "0",
            "How often a write that lost a conflict is tried again.",
        ),
        Option(
            POLICY_KEY,
            Text("`EAGER`, `LAZY` or `NEVER`"),
            "",
            "When dead writers are rolled back: before the write, or after its commit. Empty: "
            "`EAGER` for a single writer, `LAZY` for one of many.",
        ),
        Option(CODEC_KEY, OneOf(Codec), Codec.ZSTD, "Compression of base files."),
        Option(
            BLOCK_KEY,
            OneOf(LogBlockFormat),
            LogBlockFormat.PARQUET,
            "Format of the rows in log files.",
        ),
        Option(SORT_KEY, OneOf(SortMode), SortMode.NONE, "How bulk_insert orders rows."),
        Option(
            SORT_COLUMNS_KEY,
            Text("columns"),
            "",
            "What bulk_insert sorts by; the record key when empty.",
        ),
        Option(
            DUPLICATES_KEY,
            OneOf(DuplicatePolicy),
            DuplicatePolicy.NONE,
            "What an insert does with a key that the table has: update it (`none`), leave the row "
            "out (`drop`), or refuse the batch (`fail`).",
        ),
        Option(
            COMBINES_KEY,
            Boolean(),
            "false",
            "With the policy `fail`: equal keys of one batch count as one row, instead of failing.",
        ),
        *SIZING_OPTIONS,
        Option(
            BY_MARKERS_KEY,
            Boolean(),
            "true",
            "A rollback finds a failed write's files by markers (true), or by listing partitions.",
        ),
        Option(
            DEAD_LETTER_KEY,
            Text("path"),
            "",
            "A directory outside the table that takes the rows which the table cannot hold. "
            "Empty: such a row refuses the whole batch.",
        ),
        Option(
            THREADS_KEY,
            Integer(0, 64),
            "0",
            "File groups that one process writes at once; 0: by cores and memory. In a bucket 0 "
            "means four, in tasks of Spark and workers of a sink on a disk one.",
        ),
        Option(
            MEMORY_KEY,
            Integer(1, 1 << 20),
            "256",
            "Megabytes of rows that a write of batches holds without Spark. More rows go through "
            "temporary files (`TMPDIR`), and file groups are written one after another.",
        ),
        Option(
            EVOLUTION_KEY,
            Boolean(),
            "true",
            "A batch may add columns and widen types.",
        ),
        Option(WRITER_KEY, Text("name"), "", "Who writes; a fresh `writer-…` when empty."),
        Option(
            OPERATION_ID_KEY,
            Text("UUID"),
            "",
            "The control plane's operation that the write belongs to.",
            Setter.PROGRAM,
        ),
        Option(
            MARKER_URL_KEY,
            Text("URL"),
            "",
            "Address of the marker server; `SLUICE_MARKER_URL` when empty.",
            Setter.PROGRAM,
        ),
    ),
)
