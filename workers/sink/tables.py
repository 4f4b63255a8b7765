"""The tables that a sink writes to: what an append-only one looks like, and what is refused.

In an append-only table a row is a record of the topic and its key is where it came from, so nothing
is ever merged; topic and partition alone choose the file group, so that the records of a partition
lie together, in the order of their offsets (S1-27).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from workers.errors import InvalidInput
from workers.index.bucket import bucket_of_keys
from workers.ports import Ports
from workers.schema.table_schema import TableSchema
from workers.sink.config import SinkConfig, SinkMode
from workers.storage.base import Storage
from workers.table import table as tables
from workers.table.table import Table, TableDefinition
from workers.table_config import HASH_FIELD_KEY, TableConfig, TableType

TOPIC = "_kafka_topic"
PARTITION = "_kafka_partition"
OFFSET = "_kafka_offset"
TIMESTAMP = "_kafka_timestamp"
_TYPES: dict[str, pa.DataType] = {
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
}
COORDINATES = pa.schema(_TYPES)
APPEND_KEY = (TOPIC, PARTITION, OFFSET)
APPEND_HASH = (TOPIC, PARTITION)
_BUCKETS = "hoodie.bucket.index.num.buckets"
_BUCKETS_TRIED = 256
_HASHES = 1 << 31
"""As many buckets as there are hashes."""


def create_append_table(
    storage: Storage,
    ports: Ports,
    *,
    name: str,
    schema: pa.Schema,
    topic: str,
    partitions: int,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
) -> Table:
    """A new table for the records of `topic`; `schema` is that of their payload. Unless `options`
    say another number, it has as many buckets as it takes for each partition to have its own.

    Raises TableExists, InvalidInput.
    """
    if taken := [field for field in schema.names if field in COORDINATES.names]:
        raise InvalidInput("the sink brings these columns itself", columns=taken)
    whole = pa.schema([*COORDINATES, *schema])
    definition = TableDefinition(
        name=name,
        table_type=TableType.MERGE_ON_READ,
        record_key=APPEND_KEY,
        partition_by=tuple(partition_by),
        schema=TableSchema.from_arrow(whole, table_name=name),
    )
    given = {
        _BUCKETS: str(bucket_count(topic, partitions)),
        HASH_FIELD_KEY: ",".join(APPEND_HASH),
        **(options or {}),
    }
    return tables.create(storage, definition, given, ports)


def bucket_count(topic: str, partitions: int) -> int:
    """The least number under which no two partitions share a bucket; where there is none near, one
    under which few do. Raises InvalidInput.
    """
    if partitions < 1:
        raise InvalidInput("a topic has at least one partition", partitions=partitions)
    keys = pa.array([append_key_prefix(topic, one) + "0" for one in range(partitions)])
    hashes = bucket_of_keys(keys, buckets=_HASHES, index_fields=APPEND_HASH)
    tried = range(partitions, partitions + _BUCKETS_TRIED)
    return max(tried, key=lambda buckets: (len(np.unique(hashes % buckets)), -buckets))


def append_key_prefix(topic: str, partition: int) -> str:
    """The record key of a record up to its offset."""
    return f"{TOPIC}:{topic},{PARTITION}:{partition},{OFFSET}:"


def append_bucket(topic: str, partition: int, buckets: int) -> int:
    """Where all records of a partition go."""
    key = pa.array([append_key_prefix(topic, partition) + "0"])
    return int(bucket_of_keys(key, buckets=buckets, index_fields=APPEND_HASH)[0])


def check_sink_table(table: Table, config: SinkConfig) -> None:
    """Raises InvalidInput, UnsupportedTable for a table that the sink cannot write as asked."""
    table.check_writable()
    found = table.config
    if not found.is_merge_on_read:
        raise InvalidInput(
            "a sink appends log files, so its table is MERGE_ON_READ", table=found.name
        )
    if found.looks_up:
        raise InvalidInput(
            "a sink's workers append without looking keys up; its table has the bucket index",
            table=found.name,
            index=found.index,
            needs="hoodie.index.type=BUCKET",
        )
    if found.groups is not None:
        raise InvalidInput(
            "a sink writes whole rows, and streams write the columns of groups", table=found.name
        )
    if config.mode is SinkMode.APPEND:
        _check_append(found)


def _check_append(config: TableConfig) -> None:
    if config.record_key != APPEND_KEY or set(config.index_fields) != set(APPEND_HASH):
        raise InvalidInput(
            "in append mode the key of a row is where it came from; create the table with "
            "create_append_table, or use hoodie.sink.mode=upsert",
            table=config.name,
            record_key=config.record_key,
            needs=APPEND_KEY,
            hash_field=config.index_fields,
            needs_hash_field=APPEND_HASH,
        )
    if config.ordering or config.takes_narrow_rows or config.merger is not None:
        raise InvalidInput(
            "rows of an append-only table are never merged, so nothing orders or merges them",
            table=config.name,
        )
