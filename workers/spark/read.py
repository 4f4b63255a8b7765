"""Read a table as a Spark DataFrame: every kind of query, lazily, on Connect and classic sessions.

Base files that no log touches are read by Spark's own Parquet scan; in a bucket only where the
session has Hadoop's client for it. Slices with logs keep that scan for their base files: tasks that
get only paths say which rows of base and logs are dead, Spark drops those, and the logs' rows are
all that crosses from Python (`beside`). What goes through Python whole: base files whose types have
widened since, slices whose logs outweigh their base file, slices with logs of tables with column
groups or in a bucket, and the rows of windows and changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col

from workers.files.meta_columns import COMMIT_SEQNO, COMMIT_TIME
from workers.merge.group_file import required_bits
from workers.merge.group_state import BIT_FIELDS, GONE, SET
from workers.options.table_options import TableConfig
from workers.read.changes import changes_schema, plan_changes
from workers.read.file_slice import slice_schema
from workers.read.incremental import plan_incremental
from workers.read.republished import INSTANT_CHARS, WindowCommits
from workers.read.request import Query, ReadRequest, check_columns
from workers.read.snapshot import SnapshotPlan, plan_snapshot
from workers.spark.beside import BesideSlice, merged_beside, split_beside
from workers.spark.remote_packages import prepare_executors
from workers.spark.scan import ReadContext, native_scan, python_scan, split_native
from workers.spark.types import to_spark
from workers.spark.work import ChangeWork, SliceWork, WindowWork
from workers.table.file_group import FileSlice
from workers.table.table import Table


def read_dataframe(table: Table, spark: SparkSession, request: ReadRequest) -> DataFrame:
    """The rows asked for; the files are chosen now. Timestamps are UTC.

    Raises MalformedTable, UnsupportedTable, SnapshotExpired, and InvalidInput for a type that Spark
    does not know or a column that there is not.
    """
    prepare_executors(spark, table.storage.location)
    match request.query:
        case Query.SNAPSHOT | Query.READ_OPTIMIZED:
            is_optimized = request.query is Query.READ_OPTIMIZED
            plan = plan_snapshot(table, as_of=request.as_of, is_read_optimized=is_optimized)
            return _snapshot(table, spark, plan, request)
        case Query.INCREMENTAL:
            return _incremental(table, spark, request)
        case Query.CDC:
            return _changes(table, spark, request)
        case _:
            assert_never(request.query)


def snapshot_dataframe(
    table: Table, spark: SparkSession, plan: SnapshotPlan, columns: tuple[str, ...] | None
) -> DataFrame:
    """The rows of a snapshot that was planned before. Raises as `read_dataframe`."""
    prepare_executors(spark, table.storage.location)
    return _snapshot(table, spark, plan, ReadRequest(columns=columns))


def _snapshot(
    table: Table, spark: SparkSession, plan: SnapshotPlan, request: ReadRequest
) -> DataFrame:
    names = _column_names(request, slice_schema(plan.schema).names, plan.schema.field_names)
    wanted = _wanted(slice_schema(plan.schema), names)
    context = ReadContext(table.storage.location, table.config, plan.schema)
    plain: list[FileSlice] = []
    beside: list[BesideSlice] = []
    own, whole = list(plan.base_only), list(plan.merged)
    if table.config.has_meta_columns:
        plain, own = split_native(spark, table.storage, wanted, own)
    if table.config.has_meta_columns and table.config.groups is None:
        beside, whole = split_beside(spark, table.storage, wanted, plan.merged)
    frames = []
    if plain:
        paths = [one.base_file for one in plain if one.base_file]
        frames.append(_plain(spark, context, wanted, paths))
    if beside:
        frames.append(merged_beside(spark, context, wanted, beside))
    if own or whole:
        work = SliceWork(context, (*own, *whole), names)
        frames.append(python_scan(spark, work, wanted))
    return _united(spark, frames, wanted)


def _plain(
    spark: SparkSession, context: ReadContext, wanted: pa.Schema, paths: list[str]
) -> DataFrame:
    """Base files as they are, without the rows that the table's join hides."""
    if not _hides_rows(context.config):
        return native_scan(spark, context.location, wanted, paths)
    assert context.config.groups is not None, context.config.name
    names = wanted.names
    hidden = pa.schema([*wanted, *BIT_FIELDS])
    bits = required_bits(context.config.groups, context.schema.field_names)
    rows = native_scan(spark, context.location, hidden, paths)
    return rows.where(f"({SET} & ~{GONE} & {bits}) = {bits}").select(*names)


def _hides_rows(config: TableConfig) -> bool:
    return config.groups is not None and bool(config.groups.required)


def _incremental(table: Table, spark: SparkSession, request: ReadRequest) -> DataFrame:
    plan = plan_incremental(table, since=request.since, until=request.until)
    full = slice_schema(plan.schema)
    names = _column_names(request, full.names, plan.schema.field_names)
    context = ReadContext(table.storage.location, table.config, plan.schema)
    plain: list[FileSlice] = []
    if table.config.has_meta_columns and not table.config.compares_rows:
        alone = [slice_ for one in plan.slices for slice_ in one.after if not slice_.log_files]
        plain, _ = split_native(spark, table.storage, full, alone)
    frames = []
    if plain:
        paths = [one.base_file for one in plain if one.base_file]
        rows = native_scan(spark, context.location, full, paths)
        frames.append(rows.where(_is_of(plan.commits)).select(*names))
    own = tuple(one for one in plan.slices if not set(one.after) <= set(plain))
    if own:
        work = WindowWork(context, replace(plan, slices=own))
        frames.append(python_scan(spark, work, _wanted(full, names)))
    return _united(spark, frames, _wanted(full, names))


def _is_of(commits: WindowCommits) -> Column:
    """`WindowCommits.expression`, for Spark."""
    by_time = col(COMMIT_TIME).isin(list(commits.instants))
    if not commits.republishing:
        return by_time
    first = col(COMMIT_SEQNO).substr(1, INSTANT_CHARS).isin(list(commits.origins))
    return by_time | (col(COMMIT_TIME).isin(list(commits.republishing)) & first)


def _changes(table: Table, spark: SparkSession, request: ReadRequest) -> DataFrame:
    plan = plan_changes(table, since=request.since, until=request.until)
    schema = changes_schema(plan.schema)
    wanted = _wanted(schema, _column_names(request, schema.names, tuple(schema.names)))
    if not plan.units:
        return _united(spark, [], wanted)
    context = ReadContext(table.storage.location, table.config, plan.schema)
    return python_scan(spark, ChangeWork(context, plan), wanted)


def _column_names(
    request: ReadRequest, known: list[str], default: tuple[str, ...]
) -> tuple[str, ...]:
    if request.columns is None:
        return default
    check_columns(request.columns, known)
    return request.columns


def _wanted(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _united(spark: SparkSession, frames: list[DataFrame], schema: pa.Schema) -> DataFrame:
    if not frames:
        return spark.createDataFrame([], to_spark(schema))
    first, *others = frames
    for frame in others:
        first = first.unionByName(frame)
    return first
