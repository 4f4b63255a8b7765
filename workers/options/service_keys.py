"""The keys of table services: as parameters of a run or a schedule, and, with the switches that run
a service after a commit, as options of a write.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from workers.options.option import Boolean, Integer, OneOf, Option, OptionSet, Setter, Text

SCHEDULE_ONLY: Final = "schedule_only"
INSTANT: Final = "instant"
READER_RETENTION_KEY: Final = "sluice.reader.retention.minutes"

COMPACT_KEY: Final = "hoodie.compact.inline"
COMPACT_PLAN_KEY: Final = "hoodie.compact.schedule.inline"
MAX_DELTA_COMMITS_KEY: Final = "hoodie.compact.inline.max.delta.commits"
COMPACTION_STRATEGY_KEY: Final = "hoodie.compaction.strategy"
TARGET_IO_KEY: Final = "hoodie.compaction.target.io"
LOG_BYTES_KEY: Final = "hoodie.compaction.logfile.size.threshold"
LOG_FILES_KEY: Final = "hoodie.compaction.logfile.num.threshold"
COMPACTION_THREADS_KEY: Final = "sluice.compaction.threads"

CLUSTER_KEY: Final = "hoodie.clustering.inline"
CLUSTER_PLAN_KEY: Final = "hoodie.clustering.schedule.inline"
SORT_COLUMNS_KEY: Final = "hoodie.clustering.plan.strategy.sort.columns"
LAYOUT_KEY: Final = "hoodie.layout.optimize.strategy"
CLUSTERING_COMMITS_KEY: Final = "hoodie.clustering.inline.max.commits"
PARTITIONS_KEY: Final = "hoodie.clustering.plan.strategy.partition.selected"
GROUPS_MAX_KEY: Final = "hoodie.clustering.plan.strategy.max.num.groups"
CLUSTERING_THREADS_KEY: Final = "sluice.clustering.threads"

CLEAN_KEY: Final = "hoodie.clean.automatic"
CLEAN_POLICY_KEY: Final = "hoodie.clean.policy"
CLEAN_COMMITS_KEY: Final = "hoodie.clean.commits.retained"
CLEAN_HOURS_KEY: Final = "hoodie.clean.hours.retained"
CLEAN_VERSIONS_KEY: Final = "hoodie.clean.fileversions.retained"

ARCHIVE_KEY: Final = "hoodie.archive.automatic"
ARCHIVE_MIN_KEY: Final = "hoodie.keep.min.commits"
ARCHIVE_MAX_KEY: Final = "hoodie.keep.max.commits"
BEYOND_SAVEPOINT_KEY: Final = "hoodie.archive.beyond.savepoint"
UNCOMPACTED_LOGS_KEY: Final = "sluice.archive.uncompacted.logs"
LATE_WRITER_KEY: Final = "sluice.archive.late.writer.hours"
LATE_WRITER_HOURS: Final = 7 * 24

_COMMITS: Final = Integer(0, 1_000_000)
_SOME_COMMITS: Final = Integer(1, 1_000_000)
_THREADS: Final = Integer(0, 64)
_MINUTES: Final = Integer(0, 10_000_000)


class CleanPolicy(StrEnum):
    """The files that a clean keeps, under Hudi's names (`HoodieCleaningPolicy`)."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"


_PLAN_ONLY: Final = Option(SCHEDULE_ONLY, Boolean(), "false", "Plan, and leave the rest to others.")
_PENDING: Final = Option(
    INSTANT, Text("17 digits"), "", "Carry out this pending plan, and make none."
)
_RETENTION: Final = Option(
    READER_RETENTION_KEY,
    _MINUTES,
    "0",
    "Minutes for which snapshots stay readable despite other options; 0 guarantees nothing.",
)

COMPACTION_PARAMETERS: Final = OptionSet(
    "parameter of compaction",
    Setter.SERVICE,
    (
        Option(
            COMPACTION_STRATEGY_KEY,
            Text("`LogFileSizeBased`, `LogFileNumBased`, `BoundedIO`, `Unbounded`"),
            "LogFileSizeBasedCompactionStrategy",
            "Which file groups a plan takes, and in which order; Hudi's class names as well.",
        ),
        Option(
            TARGET_IO_KEY,
            Integer(1, 2**40),
            "512000",
            "Megabytes that one plan reads and writes at most.",
        ),
        Option(LOG_BYTES_KEY, Integer(0, 2**40), "0", "Bytes of logs from which a group is taken."),
        Option(LOG_FILES_KEY, Integer(0, 2**40), "0", "Log files from which a group is taken."),
        Option(
            MAX_DELTA_COMMITS_KEY,
            _COMMITS,
            "0",
            "Commits since the last compaction from which one is planned; 5 after a commit.",
        ),
        Option(
            COMPACTION_THREADS_KEY,
            _THREADS,
            "0",
            "File groups that one process rewrites at once; 0: by cores and memory.",
        ),
        _PLAN_ONLY,
        _PENDING,
    ),
)

CLUSTERING_PARAMETERS: Final = OptionSet(
    "parameter of clustering",
    Setter.SERVICE,
    (
        Option(SORT_COLUMNS_KEY, Text("columns"), "", "What rows are sorted by; needed to plan."),
        Option(
            LAYOUT_KEY,
            Text("`linear` or `z-order`"),
            "linear",
            "Sort by the columns in turn, or along a curve through all of them.",
        ),
        Option(PARTITIONS_KEY, Text("partitions"), "", "Partitions to rewrite; all when empty."),
        Option(GROUPS_MAX_KEY, _COMMITS, "0", "File groups of one plan; 0: all of them."),
        Option(
            CLUSTERING_COMMITS_KEY,
            _COMMITS,
            "0",
            "Commits since the last clustering from which one is planned; 4 after a commit.",
        ),
        Option(
            CLUSTERING_THREADS_KEY,
            _THREADS,
            "0",
            "File groups that one process rewrites at once; 0: by cores and memory.",
        ),
        _PLAN_ONLY,
        _PENDING,
    ),
)

CLEAN_PARAMETERS: Final = OptionSet(
    "parameter of cleaning",
    Setter.SERVICE,
    (
        Option(
            CLEAN_POLICY_KEY,
            OneOf(CleanPolicy),
            CleanPolicy.KEEP_LATEST_COMMITS,
            "What is kept: the files of commits, of hours, or versions of each file.",
        ),
        Option(CLEAN_COMMITS_KEY, _SOME_COMMITS, "10", "Commits whose files are kept."),
        Option(CLEAN_HOURS_KEY, Integer(1, 100_000), "24", "Hours whose files are kept."),
        Option(CLEAN_VERSIONS_KEY, _SOME_COMMITS, "3", "Versions of each file that are kept."),
        _RETENTION,
        Option(INSTANT, Text("17 digits"), "", "Finish this pending clean, and plan none."),
    ),
)

ARCHIVE_PARAMETERS: Final = OptionSet(
    "parameter of archiving",
    Setter.SERVICE,
    (
        Option(
            ARCHIVE_MIN_KEY,
            _SOME_COMMITS,
            "20",
            "Commits that stay on the active timeline when older ones leave it.",
        ),
        Option(
            ARCHIVE_MAX_KEY,
            _SOME_COMMITS,
            "30",
            "Commits on the active timeline up to which none leaves it.",
        ),
        Option(BEYOND_SAVEPOINT_KEY, Boolean(), "false", "Continue behind the oldest savepoint."),
        _RETENTION,
        Option(
            UNCOMPACTED_LOGS_KEY,
            Boolean(),
            "false",
            "Take commits whose logs no compaction has taken up; hudi-rs 0.5.0 does not see the "
            "rows of a log whose commit is archived.",
        ),
        Option(
            LATE_WRITER_KEY,
            _COMMITS,
            str(LATE_WRITER_HOURS),
            "Hours to wait for a rolled-back writer that is not proved to have ended.",
        ),
    ),
)

INLINE_OPTIONS: Final = OptionSet(
    "option of services after a commit",
    Setter.INLINE,
    (
        Option(COMPACT_KEY, Boolean(), "false", "Compact when it is due."),
        Option(COMPACT_PLAN_KEY, Boolean(), "false", "Only plan the compaction when it is due."),
        Option(CLUSTER_KEY, Boolean(), "false", "Cluster when it is due."),
        Option(CLUSTER_PLAN_KEY, Boolean(), "false", "Only plan the clustering when it is due."),
        Option(CLEAN_KEY, Boolean(), "false", "Clean."),
        Option(ARCHIVE_KEY, Boolean(), "false", "Archive."),
    ),
)
