"""The request of one write, and its checks before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.names import check_partition_path, partition_path
from workers.files.partition import is_partition
from workers.files.partition_paths import check_distinct
from workers.files.time_texts import time_texts
from workers.options.table_options import TableConfig
from workers.options.write_keys import LogBlockFormat
from workers.options.write_options import WriteOptions
from workers.options.writer_modes import APPENDING, ConcurrencyMode
from workers.table.schema_history import load_schema
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.metadata import ATTEMPTS_KEY
from workers.write.context import OPERATIONS, REPLACING, Operation
from workers.write.dead_letters import check_dead_letter_path
from workers.write.null_partitions import check_replaced_values, get_partition_pattern, is_shared


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One write as its caller requests it; `check_request` checks it against the table."""

    operation: Operation = "upsert"
    stream: str | None = None
    """The stream whose columns this write holds; only for tables that take narrow rows."""
    extra: tuple[tuple[str, str], ...] = ()
    """Further commit metadata of the caller."""
    partitions: tuple[str, ...] = ()
    """Paths of partitions that are emptied by `delete_partition`, or by `insert_overwrite` besides
    those that its rows name.
    """
    is_ordered: bool = False
    """A delete whose keys come with ordering values: newer rows of them stay."""

    sink: tuple[str, int] | None = None
    """The sink that this is a transaction of, and the epoch of its coordinator."""

    is_inferred: bool = False
    """The nullability in the batch's schema was inferred by a query: it counts for a new table's
    schema, and changes nothing of an existing one.
    """

    only_updates: bool = False
    """Rows of keys that are there: in a table with column groups they may lack what the table
    requires of a new row.
    """

    takes_along: bool = False
    """Some values are those that the rows had when they were read. So a non-blocking writer, which
    else never loses, loses to any writer that changed or deleted one of these rows since.
    """

    needs_rows: bool = False
    """A deleted row must not come back with these columns alone. So a non-blocking writer loses to
    any writer that deleted something of one of these rows since it read them.
    """

    reads_rows: bool = False
    """What it writes was found by reading the table: by a condition or a statement. It loses to the
    rollback of any commit that it read.
    """

    bounds_bad_rows: bool = True
    """A batch with too many is refused; a stream has no batch that could be bad as a whole."""

    attempts_max: int | None = None
    """How often the caller tries at most; None for the limit of the options."""

    def for_attempt(self, number: int) -> WriteRequest:
        """Return this request for attempt `number`, counted from 1; the commit's metadata contains
        later numbers.
        """
        if number == 1:
            return self
        return replace(self, extra=(*self.extra, (ATTEMPTS_KEY, str(number))))

    @property
    def replaces(self) -> bool:
        """True if it replaces whole file groups, as a replacecommit."""
        return self.operation in REPLACING


def to_partition_paths(table: Table, names: Iterable[str | Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the paths of partitions. A path is returned as it is, values of the partition columns
    as Hudi spells them.

    Raises InvalidInput.
    """
    if isinstance(names, str | Mapping):
        raise InvalidInput("partitions are a list", given=names)
    return tuple(dict.fromkeys(_partition_path(table, partition) for partition in names))


def _partition_path(table: Table, partition: str | Mapping[str, Any]) -> str:
    config = table.config
    if isinstance(partition, str):
        return partition
    if set(partition) != set(config.partition_by):
        raise InvalidInput(
            "a partition is its path, or a value for each of its columns",
            given=sorted(partition),
            columns=config.partition_by,
        )
    values = [_path_value(config, field, partition[field]) for field in config.partition_by]
    check_distinct(config, values)
    path = partition_path(
        config.partition_by, values, hive_style=config.hive_style, url_encode=config.url_encode
    )
    schema = load_schema(table) if is_shared(path) else None
    if schema is not None:
        slices = [
            slice_ for slice_ in FileSystemView.load(table).slices if slice_.partition == path
        ]
        named = frozenset({get_partition_pattern(config, partition)})
        check_replaced_values(config, schema, table.storage, slices, named)
    return path


def _path_value(config: TableConfig, field: str, value: Any) -> Any:
    if field not in config.time_fields or config.time_rule is None:
        return value
    return time_texts(config.time_rule, field, pa.array([value]))[0].as_py()


def check_request(table: Table, options: WriteOptions, request: WriteRequest) -> None:
    """Check a write before it begins. Raises InvalidInput where the table cannot follow the
    request, or the options contradict it.
    """
    operation = request.operation
    if operation not in OPERATIONS:
        raise InvalidInput("unknown operation", operation=operation, known=OPERATIONS)
    _check_mode(table, options, operation)
    _check_stream(table, request)
    _check_partitions(table, request)
    if table.config.groups and options.log_block_format is LogBlockFormat.AVRO:
        raise InvalidInput("log blocks of a table with column groups are parquet")
    if options.dead_letter_path:
        check_dead_letter_path(table.storage.location, options.dead_letter_path)


def _check_mode(table: Table, options: WriteOptions, operation: Operation) -> None:
    if options.mode is not ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL:
        return
    if not table.config.is_merge_on_read:
        raise InvalidInput("non-blocking concurrency control needs a MERGE_ON_READ table")
    if table.config.looks_up:
        raise InvalidInput(
            "non-blocking writers do not look keys up, so two of them would give one key two file "
            "groups; use OPTIMISTIC_CONCURRENCY_CONTROL, or a table with the bucket index",
            index=table.config.index,
        )
    if operation not in APPENDING:
        raise InvalidInput(
            "non-blocking writers only append logs, which neither replace file groups nor look "
            "for keys that are there already; use OPTIMISTIC_CONCURRENCY_CONTROL",
            operation=operation,
            non_blocking=APPENDING,
        )


def _check_stream(table: Table, request: WriteRequest) -> None:
    if request.stream is None:
        return
    if not table.config.takes_narrow_rows:
        raise InvalidInput(
            "a stream writes only its own columns, which this table would erase in others",
            stream=request.stream,
            needs="hoodie.multistream.groups, or hoodie.table.partial.update.mode=IGNORE_DEFAULTS",
        )
    _check_stream_known(table, request.stream)
    if request.operation == "delete" or request.replaces:
        raise InvalidInput(
            "a stream cannot take rows away that other streams wrote too",
            stream=request.stream,
            operation=request.operation,
        )


def _check_stream_known(table: Table, stream: str) -> None:
    """Streams of column groups are named as their groups; elsewhere any name will do."""
    if table.config.groups is None:
        return
    streams = [group.name for group in table.config.groups.groups(())]
    if stream not in streams:
        raise InvalidInput(
            "the table has no such stream: name one of its column groups, or leave `stream` out",
            stream=stream,
            known=streams,
        )


def _check_partitions(table: Table, request: WriteRequest) -> None:
    operation = request.operation
    if operation == "delete_partition" and not request.partitions:
        raise InvalidInput("delete_partition needs the partitions to delete")
    if request.partitions and operation not in ("delete_partition", "insert_overwrite"):
        raise InvalidInput("the operation takes no partitions", operation=operation)
    if request.partitions and not table.config.partition_by:
        raise InvalidInput("the table has no partitions", partitions=request.partitions)
    for path in request.partitions:
        check_partition_path(path, url_encode=table.config.url_encode)
        if not path or not is_partition(table.storage, path):
            raise InvalidInput("the table has no such partition; patterns are not taken", path=path)
