"""The table handle that users hold: a thin top layer over the engine (design 7).

`create_table` and `open_table` take a path. Data is an Arrow table, batch or reader, or a pandas,
Polars or Spark DataFrame; Spark is loaded only when its DataFrame or a session comes in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from workers.clock import InstantTime
from workers.concurrency.outcome import CommitOutcome
from workers.errors import InvalidInput
from workers.options.column_groups import parse_groups
from workers.options.service_keys import LAYOUT_KEY, SORT_COLUMNS_KEY
from workers.options.table_keys import TableType
from workers.options.top_n_request import build_top_n
from workers.options.write_options import write_options
from workers.ports import Ports, system_ports
from workers.read.inexact_lists import inexact_lists
from workers.read.request import Moment, read_request
from workers.read.rows import read_rows
from workers.read.scan import Scan
from workers.read.scan_plan import plan_scan
from workers.read.top_n_query import read_top_n
from workers.recovery.plan import RollbackPlan, plan_rollback
from workers.recovery.rollback import RollbackOutcome, RollbackRequest, rollback
from workers.schema.alter import SchemaChange
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.table import creation
from workers.table import table as tables
from workers.table.definition import TableDefinition
from workers.table.file_group import FileSlice
from workers.table.schema_history import load_declared_schema
from workers.table.view import FileSystemView
from workers.table_arguments import (
    column_names,
    convert_to_arrow,
    make_runner_factory,
    service_parameters,
    table_schema,
)
from workers.table_services.clustering.service import ClusteringService
from workers.table_services.compaction.service import CompactionService
from workers.table_services.inline import write_with_services
from workers.table_services.served_table import ServedTable
from workers.table_services.service import ServiceOutcome, ServiceRequest
from workers.timeline.instant import Instant
from workers.timeline.timeline import with_archived
from workers.write.add_group import add_group
from workers.write.alter import alter_schema
from workers.write.local import ArrowData, write_arrow
from workers.write.predicate_delete import delete_matching
from workers.write.request import WriteRequest, to_partition_paths

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "ArrowData",
    "LakehouseTable",
    "create_append_table",
    "create_table",
    "open_table",
    "write_arrow",
]


class LakehouseTable(ServedTable):
    """One table, opened: reads, writes, services and rollbacks of it. Many may hold the same table.

    Methods of services raise InvalidInput, ServiceRefused, ServiceBusy, LockTimeout.
    """

    def __repr__(self) -> str:
        """Describe the table by its properties, without access to storage."""
        config = self.table.config
        key = ",".join(config.record_key)
        partitions = f" by {','.join(config.partition_by)}" if config.partition_by else ""
        return f"<{config.name}: {config.table_type} of {key}{partitions} at {self.location}>"

    @property
    def location(self) -> str:
        """The absolute path or `s3://` URL, without a slash at its end."""
        return self.table.storage.location

    def write(
        self,
        data: Any,
        operation: str = "upsert",
        stream: str | None = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitOutcome:
        """Write and commit one batch: Arrow data, a pandas, Polars or Spark frame, or an object
        that exports an Arrow stream. Then run the table services that `options` ask for inline.

        Raises InvalidInput before anything is written, LockTimeout and MarkerRefused with
        everything rolled back.
        """
        one_batch = partial(self._write, data, operation, stream)
        return write_with_services(self.table, options or {}, one_batch)

    def _write(
        self,
        data: Any,
        operation: str,
        stream: str | None,
        options: Mapping[str, str],
    ) -> CommitOutcome:
        request = WriteRequest(operation, stream)  # type: ignore[arg-type]
        if not hasattr(data, "mapInArrow"):
            return write_arrow(self.table, convert_to_arrow(data), request, options)
        from workers.spark.write import write_frame

        return write_frame(self.table, data, operation, stream, options)

    def delete(
        self,
        keys: Any = None,
        *,
        predicate: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> CommitOutcome:
        """Delete rows by key, or those that match a predicate.

        `keys` holds the key and partition columns, others are ignored; an absent key is skipped.
        `predicate` is text in the spelling of SQL (`city = 'Oslo' AND value < 10`) or a
        `pyarrow.compute` expression. Raises as `write`.
        """
        if (keys is None) == (predicate is None):
            raise InvalidInput("delete takes either keys or a predicate")
        if keys is None:
            return delete_matching(self.table, predicate, options or {})
        return self.write(keys, operation="delete", options=options)

    def delete_partition(
        self,
        partitions: Iterable[str | Mapping[str, Any]],
        *,
        options: Mapping[str, str] | None = None,
    ) -> CommitOutcome:
        """Empty whole partitions, each given by its path or by the values of its columns.

        Raises InvalidInput for a partition that the table does not have; otherwise as `write`.
        """
        paths = to_partition_paths(self.table, partitions)
        request = WriteRequest("delete_partition", partitions=paths)
        return write_arrow(self.table, None, request, options or {})

    def alter(
        self, *changes: SchemaChange, options: Mapping[str, str] | None = None
    ) -> CommitOutcome:
        """Change the schema by one commit: see `workers.schema.alter`. A rename rewrites the table.

        Raises InvalidInput before anything is written, LockTimeout.
        """
        typed = write_options(options or {}, self.table.config.get_mode("alter"))
        return alter_schema(self.table, typed, changes)

    def add_group(
        self,
        group: Mapping[str, Any],
        types: Mapping[str, pa.DataType],
        *,
        options: Mapping[str, str] | None = None,
    ) -> CommitOutcome | None:
        """Declare one more column group, as in `hoodie.multistream.groups`, with the types of its
        columns, which are new to the table. Other writers continue; those that opened the table
        before get TableChanged at their next write. None when the group exists already.

        Raises InvalidInput before anything is written, LockTimeout.
        """
        (parsed,) = parse_groups(json.dumps([dict(group)]))
        typed = write_options(options or {}, self.table.config.get_mode("alter"))
        outcome = add_group(self.table, typed, parsed, types)
        self.table = tables.open_(self.table.storage, self.table.ports)
        return outcome

    def read(
        self,
        spark: SparkSession | None = None,
        *,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        query: str = "snapshot",
        columns: Sequence[str] | None = None,
        where: object = None,
        shows_unmatched: bool = False,
    ) -> Any:
        """Return an Arrow table, or with a session a Spark DataFrame (docs/reading.md).

        `query` is snapshot, read_optimized (both take `as_of`), incremental or cdc (both take
        `since`, exclusive, and `until`, inclusive). Times are completion times: 17 digits, ISO 8601
        with a zone, or a datetime with one. `where` as for `scan`; not with a session, and not for
        cdc. `shows_unmatched` also returns the rows that the join of a table with column groups
        hides. Raises InvalidInput, SnapshotExpired when the table does not go back that far,
        UnsupportedTable.
        """
        request = read_request(query=query, as_of=as_of, since=since, until=until, columns=columns)
        table = self.table.showing_unmatched() if shows_unmatched else self.table
        if spark is None:
            return read_rows(table, request, where)
        if where is not None:
            raise InvalidInput("with a session filter the DataFrame: .where(...)", where=where)
        from workers.spark.read import read_dataframe

        return read_dataframe(table, spark, request)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: object = None,
        limit: int | None = None,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Scan:
        """Plan a read now, which begins when its rows are requested: `to_batches()`, `to_arrow()`,
        `to_pandas()`, `to_polars()`, `to_duckdb()`; `explain()` describes what it will read. With
        `since` it reads a window of commits.

        `where`: text in the spelling of SQL, a `pyarrow.compute` expression, or (column, sign,
        value) that must all hold. Raises as `plan_scan`.
        """
        return plan_scan(
            self.table,
            columns=columns,
            where=where,
            limit=limit,
            as_of=as_of,
            since=since,
            until=until,
        )

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return all rows, for libraries that take Arrow's C streams. Raises as `plan_scan`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def top_n(
        self,
        partition_by: Sequence[str] | None = None,
        order_by: str | None = None,
        n: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        spark: SparkSession | None = None,
    ) -> Any:
        """Return the n first rows of each group of rows, in an order such as `score desc, at`; the
        table's `hoodie.multistream.topn` has the defaults. Nulls are last; among equal rows the one
        whose commit completed first is first.

        Raises InvalidInput, MalformedTable, SnapshotExpired, SnapshotChanged, UnsupportedTable.
        """
        request = build_top_n(
            self.table.config.top_n, partition_by=partition_by, order_by=order_by, n=n
        )
        if spark is None:
            return read_top_n(self.table, request, columns)
        from workers.spark.top_n_dataframe import top_n_dataframe

        return top_n_dataframe(self.table, spark, request, columns)

    def inexact_lists(self) -> pa.Table:
        """Return lists of `collect_topn` that may lack elements: key, partition, column of each."""
        return inexact_lists(self.table)

    def timeline(self, *, archived: bool = False) -> tuple[Instant, ...]:
        """Return the active timeline; with `archived` the history before it. Raises
        MalformedTable.
        """
        active = self.table.timeline().instants
        if not archived:
            return active
        return with_archived(self.table.list_archived_times(), active)

    def schema(self, as_of: InstantTime | None = None) -> pa.Schema | None:
        """Return the columns, required ones as such, now or at the completion time `as_of`; None
        before the first write that brings one. Raises MalformedTable, UnsupportedTable.
        """
        return load_declared_schema(self.table, as_of)

    def file_groups(self) -> tuple[FileSlice, ...]:
        """Return the latest slice of each file group, sorted by partition and file id. Raises
        MalformedTable, UnsupportedTable.
        """
        return FileSystemView.load(self.table).slices

    def compact(
        self,
        spark: SparkSession | None = None,
        *,
        schedule: bool = False,
        instant: InstantTime | None = None,
        parameters: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        by: str = "python",
    ) -> ServiceOutcome:
        """Merge logs into base files: the pending plan, else a new one; on the session's executors
        or here. With `schedule` only make the plan.

        Raises PlanOvertaken, ServiceBusy, ServiceRefused, InvalidInput, LockTimeout.
        """
        request = ServiceRequest(by, parameters=service_parameters(parameters, schedule, instant))
        compaction = CompactionService(make_runner_factory(spark))
        return compaction.run(self.table, request, write_options(options or {}))

    def cluster(
        self,
        sort_by: Sequence[str] = (),
        spark: SparkSession | None = None,
        *,
        layout: str = "linear",
        schedule: bool = False,
        instant: InstantTime | None = None,
        parameters: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        by: str = "python",
    ) -> ServiceOutcome:
        """Rewrite each file group sorted by these columns, or along a z-curve over them.

        Raises as `compact`.
        """
        order = {SORT_COLUMNS_KEY: ",".join(column_names(sort_by, "sort_by")), LAYOUT_KEY: layout}
        request = ServiceRequest(
            by, parameters=order | service_parameters(parameters, schedule, instant)
        )
        clustering = ClusteringService(make_runner_factory(spark))
        return clustering.run(self.table, request, write_options(options or {}))

    def rollback(
        self,
        instant: InstantTime,
        dry_run: bool = True,
        *,
        reason: str = "",
        by: str = "python",
        expected_plan_hash: str | None = None,
    ) -> RollbackPlan | RollbackOutcome:
        """Plan a rollback, or execute it with `dry_run=False`. Raises RollbackRefused,
        PlanChanged.
        """
        if dry_run:
            return plan_rollback(self.table, instant)
        request = RollbackRequest(
            instant, by=by, reason=reason, expected_plan_hash=expected_plan_hash
        )
        return rollback(self.table, request, write_options({}))


def create_table(
    location: str | Path,
    *,
    name: str,
    schema: Any,
    record_key: Sequence[str],
    partition_by: Sequence[str] = (),
    ordering: Sequence[str] = (),
    table_type: str = TableType.COPY_ON_WRITE,
    options: Mapping[str, str] | None = None,
    ports: Ports | None = None,
    storage: Storage | None = None,
) -> LakehouseTable:
    """Create a new, empty table of version 9. `schema` is of Arrow or Spark; with None the first
    write decides. Raises TableExists, InvalidInput.
    """
    definition = TableDefinition(
        name=name,
        table_type=creation.parse_table_type(table_type),
        record_key=column_names(record_key, "record_key"),
        partition_by=column_names(partition_by, "partition_by"),
        ordering=column_names(ordering, "ordering"),
        schema=table_schema(schema, name),
    )
    where = storage or open_storage(location)
    return LakehouseTable(
        creation.create(where, definition, options or {}, ports or system_ports())
    )


def create_append_table(
    location: str | Path,
    *,
    name: str,
    schema: Any,
    topic: str,
    partitions: int,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    ports: Ports | None = None,
    storage: Storage | None = None,
) -> LakehouseTable:
    """Create a table to which a sink appends each record of a Kafka topic as a row.

    `schema` is that of the records' payload, of Arrow or Spark; Kafka's coordinates are added as
    columns and are the record key. `partitions` is the topic's number of partitions. It determines
    the number of buckets, unless `options` do. Raises TableExists, InvalidInput.
    """
    from workers.sink import tables as sink_tables

    payload = table_schema(schema, name)
    if payload is None:
        raise InvalidInput("an append-only table needs the schema of the payload", table=name)
    created = sink_tables.create_append_table(
        storage or open_storage(location),
        ports or system_ports(),
        name=name,
        schema=payload.arrow,
        topic=topic,
        partitions=partitions,
        partition_by=column_names(partition_by, "partition_by"),
        options=options,
    )
    return LakehouseTable(created)


def open_table(
    location: str | Path, *, ports: Ports | None = None, storage: Storage | None = None
) -> LakehouseTable:
    """Open the table at a path or URL, in its current state. Raises TableNotFound,
    UnsupportedTable, MalformedTable.
    """
    return LakehouseTable(tables.open_(storage or open_storage(location), ports or system_ports()))
