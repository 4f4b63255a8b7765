"""Read a table's snapshot as a Spark DataFrame.

Base files without logs are read by Spark's own Parquet scan. Slices with logs are merged in Python
by tasks that get only their paths, through the same function as every other reader. Base files
that do not hold the schema as it is now (a widened type) go that way as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from workers.clock import InstantTime
from workers.config import TableConfig
from workers.read.file_slice import read_slice
from workers.read.snapshot import plan_snapshot
from workers.schema.table_schema import TableSchema
from workers.spark.session import task_count
from workers.spark.types import to_spark, wire_schema
from workers.storage.base import Storage
from workers.storage.local import LocalStorage
from workers.table.file_group import FileSlice
from workers.table.table import Table

_GLOB_CHARACTERS = frozenset("{}[]*?\\")
_FOOTER_THREADS = 8
_BATCH_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class ReadContext:
    """Everything that a task needs to merge slices."""

    location: str
    config: TableConfig
    schema: TableSchema


def read_dataframe(
    table: Table, spark: SparkSession, *, as_of: InstantTime | None = None
) -> DataFrame:
    """The snapshot's rows, lazily; the files are chosen now. Timestamps are UTC.

    Raises MalformedTable, UnsupportedTable, and InvalidInput for a type that Spark does not know.
    """
    plan = plan_snapshot(table, as_of=as_of)
    arrow = plan.schema.arrow
    native, own = _split(table.storage, arrow, plan.base_only)
    slices = (*own, *plan.merged)
    frames = []
    if native:
        frames.append(_native_scan(table, spark, arrow, native))
    if slices:
        context = ReadContext(table.storage.location, table.config, plan.schema)
        frames.append(_merged_scan(spark, context, slices))
    if not frames:
        return spark.createDataFrame([], to_spark(arrow))
    first, *others = frames
    for frame in others:
        first = first.unionByName(frame)
    return first


def _native_scan(
    table: Table, spark: SparkSession, arrow: pa.Schema, paths: Iterable[str]
) -> DataFrame:
    """`recursiveFileLookup` keeps Spark from reading columns out of directory names."""
    root = table.storage.location
    prefix = f"file://{root}" if root.startswith("/") else root
    located = [f"{prefix}/{path}" for path in paths]
    reader = spark.read.schema(to_spark(arrow)).option("recursiveFileLookup", "true")
    return reader.parquet(*located)


def _merged_scan(
    spark: SparkSession, context: ReadContext, slices: tuple[FileSlice, ...]
) -> DataFrame:
    tasks = task_count(spark, at_most=len(slices))
    rows = [(number % tasks, json.dumps(asdict(one))) for number, one in enumerate(slices)]
    descriptors = spark.createDataFrame(rows, "task int, slice string")
    return descriptors.repartitionById(tasks, "task").mapInArrow(
        partial(merge_slices, context), to_spark(context.schema.arrow)
    )


def merge_slices(
    context: ReadContext, descriptors: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The merged rows of each described slice; on executors."""
    storage = LocalStorage(context.location)
    schema = context.schema
    wire = wire_schema(schema.arrow)
    for batch in descriptors:
        for text in map(str, batch.column("slice").to_pylist()):
            body = json.loads(text)
            slice_ = FileSlice(**{**body, "log_files": tuple(body["log_files"])})
            rows = read_slice(storage, context.config, schema, slice_, columns=schema.field_names)
            yield from rows.select(wire.names).cast(wire).to_batches(max_chunksize=_BATCH_ROWS)


def _split(
    storage: Storage, arrow: pa.Schema, paths: tuple[str, ...]
) -> tuple[list[str], tuple[FileSlice, ...]]:
    """Base files for Spark's scan, and those that need our own."""

    def is_native(path: str) -> bool:
        if _GLOB_CHARACTERS & set(storage.location + path):
            return False
        with storage.open_data(path) as stream:
            return holds_as_is(pq.read_schema(stream), arrow)

    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        verdicts = list(zip(paths, pool.map(is_native, paths), strict=True))
    own = tuple(FileSlice("", "", None, path) for path, native in verdicts if not native)
    return [path for path, native in verdicts if native], own


def holds_as_is(file: pa.Schema, wanted: pa.Schema) -> bool:
    """Every wanted column is in the file with its very type, or absent and nullable."""
    for field in wanted:
        if field.name not in file.names:
            if not field.nullable:
                return False
        elif file.field(field.name).type != field.type:
            return False
    return True
