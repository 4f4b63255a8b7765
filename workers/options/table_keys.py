"""The keys of a table, kept in its properties: Hudi's own names and defaults, and their meaning."""

from __future__ import annotations

from enum import StrEnum

from workers.options.bloom_options import BLOOM_TABLE_OPTIONS
from workers.options.group_keys import GROUP_OPTIONS
from workers.options.index_kind import INDEX_TABLE_OPTIONS
from workers.options.option import Boolean, Integer, OneOf, Option, OptionSet, Setter, Text
from workers.options.partition_update import PARTITION_UPDATE_KEY, PartitionUpdate
from workers.options.payloads import (
    MERGE_MODE_KEY,
    PARTIAL_IGNORE_DEFAULTS,
    PARTIAL_KEY,
    PAYLOAD_KEYS,
)
from workers.options.time_partitions import TIME_OPTIONS
from workers.options.time_units import TIME_UNIT_KEY
from workers.options.top_n_request import TOP_N_KEY
from workers.options.writer_modes import MODE_KEY, ConcurrencyMode

BUCKETS_DEFAULT = 8
_BUCKETS_MAX = 100_000
BUCKETS_KEY = "hoodie.bucket.index.num.buckets"
HASH_FIELD_KEY = "hoodie.bucket.index.hash.field"
KEY_GENERATOR_KEY = "hoodie.table.keygenerator.type"
CONFIGURED_GENERATOR_KEY = "hoodie.datasource.write.keygenerator.type"


class TableType(StrEnum):
    """Hudi's two table types; it cannot be changed later."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"


class MergeMode(StrEnum):
    """The rule for two versions of a row (`hoodie.record.merge.mode`, since Hudi 1.0)."""

    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    CUSTOM = "CUSTOM"


PRECOMBINE_KEY = "hoodie.datasource.write.precombine.field"
MERGER_KEY = "sluice.record.merger"
PORTABLE_TABLE_KEY = "sluice.portable"
HIVE_STYLE_KEY = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE_KEY = "hoodie.datasource.write.partitionpath.urlencode"

TABLE_OPTIONS = OptionSet(
    "table option",
    Setter.TABLE,
    (
        *INDEX_TABLE_OPTIONS,
        *BLOOM_TABLE_OPTIONS,
        Option(
            BUCKETS_KEY,
            Integer(1, _BUCKETS_MAX),
            str(BUCKETS_DEFAULT),
            "File groups per partition under the bucket index; it cannot be changed later.",
        ),
        Option(
            HASH_FIELD_KEY,
            Text("columns"),
            "",
            "The key fields that choose the bucket; all of them when empty.",
        ),
        Option(HIVE_STYLE_KEY, Boolean(), "false", "Partition paths are `column=value`."),
        Option(
            URL_ENCODE_KEY,
            Boolean(),
            "false",
            "Characters of partition values that paths cannot hold are escaped.",
        ),
        Option(
            CONFIGURED_GENERATOR_KEY,
            Text("`SIMPLE`, `COMPLEX`, `NON_PARTITION`, `TIMESTAMP`, `CUSTOM`, ..."),
            "",
            "How record keys and partition paths are made; follows the key and partition fields "
            "when empty.",
        ),
        *TIME_OPTIONS,
        Option(
            PRECOMBINE_KEY,
            Text("column"),
            "",
            "Hudi's older name for the ordering field; another way to give `ordering`.",
        ),
        Option(
            MERGE_MODE_KEY,
            OneOf(MergeMode),
            "",
            "Which of two versions of a row survives. Empty: event time with an ordering field, "
            "commit time without.",
        ),
        Option(
            PARTIAL_KEY,
            Text(f"`{PARTIAL_IGNORE_DEFAULTS}`"),
            "",
            "Null and absent columns of a batch keep the stored value.",
        ),
        *(
            Option(
                key,
                Text("class name of Hudi"),
                "",
                "Hudi's older name for the merge mode and partial updates.",
            )
            for key in PAYLOAD_KEYS
        ),
        Option(
            MERGER_KEY,
            Text("name"),
            "",
            "The name under which a Python merger was registered; for the merge mode `CUSTOM`.",
        ),
        *GROUP_OPTIONS,
        Option(
            PARTITION_UPDATE_KEY,
            OneOf(PartitionUpdate),
            "",
            "With column groups: what becomes of a key that comes under another partition; "
            "`reject` when empty.",
        ),
        Option(
            MODE_KEY,
            OneOf(ConcurrencyMode),
            "",
            "The mode of writes that name none; non-blocking where streams write column groups "
            "into logs, when empty.",
        ),
        Option(
            TOP_N_KEY,
            Text("JSON object"),
            "",
            "The default request of `table.top_n()`.",
        ),
        Option(
            PORTABLE_TABLE_KEY,
            Boolean(),
            "false",
            "Refuse what hudi-rs cannot read: timestamps without zone, own mergers.",
        ),
        Option(
            TIME_UNIT_KEY,
            Text("`ms`, or `column=ms,other=s`"),
            "",
            "What numbers of ordering columns count, where they are times.",
        ),
    ),
)
