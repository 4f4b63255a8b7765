"""Tables of sinks: the layout of append-only tables, and the checks of a table.

In an append-only table a row is a record of the topic, and its key is the record's coordinates. So
no rows are merged. Topic and partition alone choose the file group, so the records of a partition
are together, in the order of their offsets (S1-27).

The coordinates include the ids of cluster and topic. A topic name may get other records, when the
topic is deleted and created again or when another cluster has a topic of that name. Tables that
were created before keys had these ids keep their keys. `topic_identity` rejects a second topic of
the name for such a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.record_key import EMPTY_VALUE
from workers.index.bucket import bucket_of_keys
from workers.options.sink_keys import SinkMode
from workers.options.table_keys import HASH_FIELD_KEY, TableType
from workers.options.table_options import TableConfig
from workers.ports import Ports
from workers.schema.table_schema import TableSchema
from workers.sink.batch import Source
from workers.sink.config import SinkConfig
from workers.storage.base import Storage
from workers.table import creation
from workers.table.definition import TableDefinition
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView

CLUSTER = "_kafka_cluster"
TOPIC = "_kafka_topic"
TOPIC_ID = "_kafka_topic_id"
PARTITION = "_kafka_partition"
OFFSET = "_kafka_offset"
TIMESTAMP = "_kafka_timestamp"
_TYPES: dict[str, pa.DataType] = {
    CLUSTER: pa.string(),
    TOPIC: pa.string(),
    TOPIC_ID: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
}
COORDINATES = pa.schema(_TYPES)
APPEND_KEY = (CLUSTER, TOPIC, TOPIC_ID, PARTITION, OFFSET)
NAMED_KEY = (TOPIC, PARTITION, OFFSET)
"""Key of append-only tables that were created before keys had the ids of topic and cluster."""
APPEND_HASH = (TOPIC, PARTITION)
KEYS_BY_NAME = (
    "keys of this append-only table tell topics by their name alone, as it was made before they "
    "held the ids of topic and cluster: should its topic be made anew, the new one needs a table "
    "of its own"
)
_BUCKETS = "hoodie.bucket.index.num.buckets"
_BUCKETS_TRIED = 256
_HASHES = 1 << 31
"""One bucket for each hash."""


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
    """Create a table for the records of `topic`, whose payload has this `schema`. By default it
    has enough buckets for each partition to have its own; `options` can set another number.

    Raises TableExists, InvalidInput.
    """
    if reserved := [field for field in schema.names if field in COORDINATES.names]:
        raise InvalidInput("the sink brings these columns itself", columns=reserved)
    whole = pa.schema([*COORDINATES, *schema])
    definition = TableDefinition(
        name=name,
        table_type=TableType.MERGE_ON_READ,
        record_key=APPEND_KEY,
        partition_by=tuple(partition_by),
        schema=TableSchema.from_arrow(whole, table_name=name),
    )
    table_options = {
        _BUCKETS: str(choose_bucket_count(topic, partitions)),
        HASH_FIELD_KEY: ",".join(APPEND_HASH),
        **(options or {}),
    }
    return creation.create(storage, definition, table_options, ports)


def choose_bucket_count(topic: str, partitions: int) -> int:
    """Return the lowest number of buckets with which no two partitions share a bucket. If no near
    number has this property, return one with few shared buckets. Raises InvalidInput.
    """
    if partitions < 1:
        raise InvalidInput("a topic has at least one partition", partitions=partitions)
    keys = pa.array([_build_hashed_key(topic, partition) for partition in range(partitions)])
    hashes = bucket_of_keys(keys, buckets=_HASHES, index_fields=APPEND_HASH)
    tried = range(partitions, partitions + _BUCKETS_TRIED)
    return max(tried, key=lambda buckets: (len(np.unique(hashes % buckets)), -buckets))


def append_key_prefix(source: Source, key: Sequence[str] = APPEND_KEY) -> str:
    """Return the record key of a record up to its offset, in a table with this key."""
    texts = {
        CLUSTER: source.cluster_id,
        TOPIC: source.topic,
        TOPIC_ID: source.topic_id,
        PARTITION: str(source.partition),
    }
    named = [f"{name}:{texts[name] or EMPTY_VALUE}" for name in key if name != OFFSET]
    return ",".join([*named, f"{OFFSET}:"])


def append_bucket(topic: str, partition: int, buckets: int) -> int:
    """Return the bucket of all records of a partition."""
    key = pa.array([_build_hashed_key(topic, partition)])
    return int(bucket_of_keys(key, buckets=buckets, index_fields=APPEND_HASH)[0])


def has_keys_by_topic_name(config: TableConfig) -> bool:
    """Check whether the table is append-only and its keys lack the ids of topic and cluster."""
    return config.record_key == NAMED_KEY


def _build_hashed_key(topic: str, partition: int) -> str:
    """Return the hashed part of a key, which is the same for all records of the partition."""
    return append_key_prefix(Source(topic, partition), NAMED_KEY) + "0"


def check_sink_table(table: Table, config: SinkConfig) -> None:
    """Check that the sink can write this table. Raises InvalidInput, UnsupportedTable if it
    cannot.
    """
    table.check_writable()
    table_config = table.config
    if not table_config.is_merge_on_read:
        raise InvalidInput(
            "a sink appends log files, so its table is MERGE_ON_READ", table=table_config.name
        )
    if table_config.looks_up:
        raise InvalidInput(
            "a sink's workers append without looking keys up; its table has the bucket index",
            table=table_config.name,
            index=table_config.index,
            needs="hoodie.index.type=BUCKET",
        )
    if table_config.groups is not None:
        raise InvalidInput(
            "a sink writes whole rows, and streams write the columns of groups",
            table=table_config.name,
        )
    if config.mode is SinkMode.APPEND:
        _check_append(table_config)
    if config.op_column and (schema := load_schema(table)) is not None:
        check_op_column(config, schema.arrow)


def check_op_column(config: SinkConfig, schema: pa.Schema) -> None:
    """Check that the op column can mark deletes. Raises InvalidInput if its type can contain
    neither `d` nor `delete`.
    """
    op = config.op_column
    if config.mode is not SinkMode.UPSERT or op not in schema.names:
        return
    kind, types = schema.field(op).type, pa.types
    if not (types.is_string(kind) or types.is_boolean(kind) or types.is_integer(kind)):
        raise InvalidInput("the op column says d or delete, so it is a text", column=op, type=kind)


def _check_append(config: TableConfig) -> None:
    has_key = config.record_key in (APPEND_KEY, NAMED_KEY)
    if not has_key or set(config.index_fields) != set(APPEND_HASH):
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


def has_rows(table: Table) -> bool:
    """Check whether the table has any visible file. Raises MalformedTable."""
    return bool(FileSystemView.load(table).slices)
