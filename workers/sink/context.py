"""How a sink writes: the options and the request that coordinator and participants share, and the
context that a participant in another process makes for itself.

A START_COMMIT says instant, schema and the completion time of the newest commit that the
transaction builds on. From these and the table everybody makes the context that the coordinator
has, so that all writers of a transaction pick the same file groups.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

import pyarrow as pa

from workers.clock import InstantTime
from workers.concurrency.read_set import ReadSet
from workers.errors import InvalidInput, SnapshotExpired
from workers.options.sink_keys import OnBadRecord, SinkMode
from workers.options.table_options import TableConfig
from workers.options.write_options import WriteOptions, write_options
from workers.options.writer_modes import MODE_KEY, ConcurrencyMode
from workers.read.log_versions import IS_DELETED
from workers.schema.table_schema import TableSchema
from workers.sink.config import SinkConfig
from workers.sink.tables import COORDINATES, check_op_column
from workers.storage.source_places import LETTERS_SUFFIX
from workers.table.schema_history import current_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.archive import archived_instants
from workers.write.client import WriteClient
from workers.write.context import WriteContext
from workers.write.request import WriteRequest
from workers.write.snapshot_context import snapshot_context
from workers.write.transaction import Transaction

_CONTEXTS_MAX = 4
_OWN = {
    MODE_KEY: ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL.value,
    # Few files per transaction, in many processes: a server would batch nothing.
    "hoodie.write.markers.type": "direct",
}


def sink_write_options(
    config: SinkConfig, location: str, given: Mapping[str, str] | None = None
) -> WriteOptions:
    """How the sink writes to the table at `location`; `given` are further write options, such as
    those of the lock.

    Raises InvalidInput.
    """
    letters = ""
    if config.on_bad_record is OnBadRecord.DEAD_LETTER:
        letters = config.dead_letter_path or f"{location}{LETTERS_SUFFIX}"
    own = {"sluice.writer.name": f"sink-{config.sink_id}", "sluice.dead.letter.path": letters}
    return write_options({**(given or {}), **_OWN, **own})


def begin_transaction(
    table: Table, config: SinkConfig, options: WriteOptions, epoch: int
) -> Transaction:
    """An instant of the sink, for the coordinator of this epoch.

    Raises InvalidInput for a table without a schema, and as `WriteClient.begin`.
    """
    schema = current_schema(table)
    if schema is None:
        raise InvalidInput("the table has no schema; create it with one", table=table.config.name)
    check_op_column(config, schema.arrow)
    request = sink_request((config.sink_id, epoch))
    begun = WriteClient(table, options).begin(batch_schema(config, schema.arrow), request)
    begun.declare_reads(ReadSet())
    return begun


def sink_request(sink: tuple[str, int] | None = None) -> WriteRequest:
    """`sink` is its id and the coordinator's epoch."""
    return WriteRequest("upsert", sink=sink, bounds_bad_rows=False)


def batch_schema(config: SinkConfig, schema: pa.Schema) -> pa.Schema:
    """What the batches of a transaction bring for a table with this schema."""
    if config.mode is SinkMode.APPEND or IS_DELETED in schema.names:
        return schema
    return schema.append(pa.field(IS_DELETED, pa.bool_()))


def payload_schema(config: SinkConfig, schema: pa.Schema) -> pa.Schema:
    """What a decoder makes of the records for a table with this schema: all columns but the
    coordinates, and the op column even where the table has none.
    """
    fields = [one for one in schema if one.name not in COORDINATES.names]
    op = config.op_column
    if config.mode is SinkMode.UPSERT and op and op not in schema.names:
        fields.append(pa.field(op, pa.string()))
    return pa.schema(fields)


def required_columns(config: TableConfig) -> tuple[str, ...]:
    """Columns without which a record finds no row; a key of several fields may lack some."""
    return () if config.names_key_fields else config.record_key


class SinkContexts:
    """The contexts of one worker process, whose participants share them; safe among threads."""

    def __init__(self, table: Table, config: SinkConfig, options: WriteOptions) -> None:
        self._table = table
        self._config = config
        self._options = options
        self._lock = threading.Lock()
        self._made: OrderedDict[InstantTime, WriteContext] = OrderedDict()

    def of(self, instant: InstantTime, schema_json: str, read_at: InstantTime) -> WriteContext:
        """As the coordinator has it. Raises SnapshotExpired, MalformedTable, InvalidInput."""
        with self._lock:
            if instant not in self._made:
                self._made[instant] = participant_context(
                    self._table,
                    self._config,
                    self._options,
                    instant=instant,
                    schema=TableSchema.from_avro_json(schema_json),
                    read_at=read_at,
                )
            while len(self._made) > _CONTEXTS_MAX:
                self._made.popitem(last=False)
            return self._made[instant]


def participant_context(
    table: Table,
    config: SinkConfig,
    options: WriteOptions,
    *,
    instant: InstantTime,
    schema: TableSchema,
    read_at: InstantTime,
) -> WriteContext:
    """What a participant needs to write, of the table as the transaction saw it at `read_at`.

    Raises SnapshotExpired when what the transaction builds on was taken back, so that it cannot
    commit either.
    """
    timeline = table.timeline()
    if read_at and all(one.completed_at != read_at for one in timeline.completed()):
        archived = archived_instants(table.storage, completed_until=read_at)
        if all(one.instant.completed_at != read_at for one in archived):
            raise SnapshotExpired("what the transaction builds on is gone", completed_at=read_at)
    return snapshot_context(
        FileSystemView.load(table, timeline=timeline, as_of=read_at),
        options,
        sink_request(),
        instant=instant,
        writer=options.writer,
        schema=schema,
        batch_schema=batch_schema(config, schema.arrow),
    )
