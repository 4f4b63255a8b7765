"""Write options, write request and write context of a sink.

Coordinator and participants share the options and the request. Each process builds the context
itself. START_COMMIT contains instant, schema and the completion time of the newest commit that the
transaction builds on. From these and the table each participant builds the coordinator's context,
so all writers of a transaction choose the same file groups.
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
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.archive import list_archived_instants
from workers.write.client import WriteClient
from workers.write.context import WriteContext
from workers.write.request import WriteRequest
from workers.write.snapshot_context import build_snapshot_context
from workers.write.transaction import Transaction

_CONTEXTS_MAX = 4
_OWN = {
    MODE_KEY: ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL.value,
    # Few files per transaction, in many processes: a server would batch nothing.
    "hoodie.write.markers.type": "direct",
}


def sink_write_options(
    config: SinkConfig, location: str, options: Mapping[str, str] | None = None
) -> WriteOptions:
    """Build the options for writes of the sink to the table at `location`. `options` are further
    write options, such as those of the lock.

    Raises InvalidInput.
    """
    letters = ""
    if config.on_bad_record is OnBadRecord.DEAD_LETTER:
        letters = config.dead_letter_path or f"{location}{LETTERS_SUFFIX}"
    own = {"sluice.writer.name": f"sink-{config.sink_id}", "sluice.dead.letter.path": letters}
    return write_options({**(options or {}), **_OWN, **own})


def begin_transaction(
    table: Table, config: SinkConfig, options: WriteOptions, epoch: int
) -> Transaction:
    """Begin an instant of the sink for the coordinator of this epoch.

    Raises InvalidInput for a table without a schema, and as `WriteClient.begin`.
    """
    schema = load_schema(table)
    if schema is None:
        raise InvalidInput("the table has no schema; create it with one", table=table.config.name)
    check_op_column(config, schema.arrow)
    request = sink_request((config.sink_id, epoch))
    begun = WriteClient(table, options).begin(batch_schema(config, schema.arrow), request)
    begun.declare_reads(ReadSet())
    return begun


def sink_request(sink: tuple[str, int] | None = None) -> WriteRequest:
    """Build the write request. `sink` is the sink's id and the coordinator's epoch."""
    return WriteRequest("upsert", sink=sink, bounds_bad_rows=False)


def batch_schema(config: SinkConfig, schema: pa.Schema) -> pa.Schema:
    """Return the schema of a transaction's batches for a table with this schema."""
    if config.mode is SinkMode.APPEND or IS_DELETED in schema.names:
        return schema
    return schema.append(pa.field(IS_DELETED, pa.bool_()))


def payload_schema(config: SinkConfig, schema: pa.Schema) -> pa.Schema:
    """Return the schema of decoded records for a table with this schema: all columns but the
    coordinates, and the op column even if the table does not have it.
    """
    fields = [field for field in schema if field.name not in COORDINATES.names]
    op = config.op_column
    if config.mode is SinkMode.UPSERT and op and op not in schema.names:
        fields.append(pa.field(op, pa.string()))
    return pa.schema(fields)


def list_required_columns(config: TableConfig) -> tuple[str, ...]:
    """Return the columns that a record needs to find its row. None are needed if the key names its
    fields, because such a key may lack some.
    """
    return () if config.names_key_fields else config.record_key


class SinkContexts:
    """The contexts of one worker process, whose participants share them; safe among threads."""

    def __init__(self, table: Table, config: SinkConfig, options: WriteOptions) -> None:
        self._table = table
        self._config = config
        self._options = options
        self._lock = threading.Lock()
        self._made: OrderedDict[InstantTime, WriteContext] = OrderedDict()

    def get_context(
        self, instant: InstantTime, schema_json: str, read_at: InstantTime
    ) -> WriteContext:
        """Return the context that the coordinator has. Raises SnapshotExpired, MalformedTable,
        InvalidInput.
        """
        with self._lock:
            if instant not in self._made:
                self._made[instant] = load_participant_context(
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


def load_participant_context(
    table: Table,
    config: SinkConfig,
    options: WriteOptions,
    *,
    instant: InstantTime,
    schema: TableSchema,
    read_at: InstantTime,
) -> WriteContext:
    """Build a participant's context from the table as of `read_at`.

    Raises SnapshotExpired if that commit was rolled back, so that the transaction cannot commit
    either.
    """
    timeline = table.timeline()
    if read_at and all(commit.completed_at != read_at for commit in timeline.iterate_completed()):
        archived = list_archived_instants(table.storage, completed_until=read_at)
        if all(each.instant.completed_at != read_at for each in archived):
            raise SnapshotExpired("what the transaction builds on is gone", completed_at=read_at)
    return build_snapshot_context(
        FileSystemView.load(table, timeline=timeline, as_of=read_at),
        options,
        sink_request(),
        instant=instant,
        writer=options.writer,
        schema=schema,
        batch_schema=batch_schema(config, schema.arrow),
    )
