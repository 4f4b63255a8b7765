"""The two ways in which rows reach Spark: its own Parquet scan, and tasks that run our readers.

Tasks get numbers and look up in the work that they were handed what to read: only paths cross to
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from workers.errors import NotFound
from workers.files.arrow_streams import parquet_schema
from workers.locations import is_bucket_location
from workers.merge.rule import MergeRule
from workers.options.table_options import TableConfig
from workers.read.undisturbed import expired
from workers.schema.table_schema import TableSchema
from workers.spark.bucket_scan import can_scan_bucket, get_hadoop_location
from workers.spark.session import task_count
from workers.spark.task_process import spare_next_task
from workers.spark.types import to_spark, wire_schema
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.table.file_group import FileSlice

_GLOB_CHARACTERS = frozenset("{}[]*?\\")
_FOOTER_THREADS = 8
_FOOTERS_KEPT = 4096
_BATCH_ROWS = 16_384
_TASK_BYTES = 16 * 1024**2
"""A task takes tens of milliseconds to start, and some hundreds to read this much."""


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What every task needs to read a table's files."""

    location: str
    config: TableConfig
    schema: TableSchema
    rule: MergeRule = field(init=False)
    """Made here and shipped: executors need not have registered the table's merger."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", MergeRule.of(self.config))

    @property
    def storage(self) -> Storage:
        """Opened at each call, as executors get the location only."""
        return open_storage(self.location)


class Work(Protocol):
    """Independent pieces of reading; picklable."""

    def __len__(self) -> int: ...

    def tables(self, number: int) -> Iterator[pa.Table]:
        """The rows of one piece, with at least the columns of the scan. Runs on executors."""
        ...


def native_scan(
    spark: SparkSession, location: str, schema: pa.Schema, paths: Iterable[str]
) -> DataFrame:
    """The rows of these Parquet files, with paths relative to `location`, read by Spark itself.

    `recursiveFileLookup` keeps it from reading columns out of directory names.
    """
    reader = spark.read.schema(to_spark(schema)).option("recursiveFileLookup", "true")
    root = f"file://{location}" if location.startswith("/") else get_hadoop_location(location)
    return reader.parquet(*[f"{root}/{path}" for path in paths])


def python_scan(
    spark: SparkSession, work: Work, schema: pa.Schema, *, bytes_read: int | None = None
) -> DataFrame:
    """The rows of all pieces, under `schema`. Fewer tasks share them where they read little."""
    enough = len(work) if bytes_read is None else 1 + bytes_read // _TASK_BYTES
    tasks = task_count(spark, at_most=min(len(work), enough))
    pieces = spark.range(0, len(work), 1, tasks)
    return pieces.mapInArrow(partial(run_work, work, schema), to_spark(schema))


def run_work(
    work: Work, schema: pa.Schema, pieces: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On executors. Raises as `piece_batches`."""
    spare_next_task()
    for batch in pieces:
        for number in batch.column("id").to_numpy():
            yield from piece_batches(work, schema, int(number))


def piece_batches(work: Work, schema: pa.Schema, number: int) -> Iterator[pa.RecordBatch]:
    """One piece as Spark takes it. Raises SnapshotExpired when a file was cleaned away since it was
    planned.
    """
    wire = wire_schema(schema)
    try:
        for rows in work.tables(number):
            yield from rows.select(wire.names).cast(wire).to_batches(max_chunksize=_BATCH_ROWS)
    except NotFound as error:
        raise expired(error) from error


def split_native(
    spark: SparkSession, storage: Storage, schema: pa.Schema, slices: Sequence[FileSlice]
) -> tuple[list[FileSlice], list[FileSlice]]:
    """Return the slices whose base file Spark's scan reads as `schema`, and the others.

    One footer is enough for all files of a commit, which have one writer schema. A bucket is read
    by Spark's scan where the session has Hadoop's client for it (`bucket_scan`).
    """
    plain = [slice_ for slice_ in slices if _is_plain(storage.location, slice_.base_file)]
    if is_bucket_location(storage.location) and not (
        plain and can_scan_bucket(spark, storage.location, plain[0].base_file or "")
    ):
        return [], list(slices)
    probes: dict[str | None, str] = {}
    for file_slice in plain:
        if file_slice.base_file is not None:
            probes.setdefault(file_slice.base_instant, file_slice.base_file)

    def is_native(path: str) -> bool:
        return holds_as_is(_file_schema(storage.location, path), schema)

    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        fits = dict(zip(probes, pool.map(is_native, probes.values()), strict=True))
    native: list[FileSlice] = []
    own: list[FileSlice] = []
    for file_slice in slices:
        is_plain = _is_plain(storage.location, file_slice.base_file)
        (native if is_plain and fits[file_slice.base_instant] else own).append(file_slice)
    return native, own


def _is_plain(location: str, path: str | None) -> bool:
    """Check that the slice has a base file whose path Spark does not read as a pattern."""
    return path is not None and not _GLOB_CHARACTERS & set(location + path)


@lru_cache(maxsize=_FOOTERS_KEPT)
def _file_schema(location: str, path: str) -> pa.Schema:
    """Data files never change under their name, so one look is enough."""
    with open_storage(location).open_data(path) as stream:
        return parquet_schema(stream)


def holds_as_is(file: pa.Schema, wanted: pa.Schema) -> bool:
    """Every wanted column is in the file with its very type, or absent and nullable."""
    for column in wanted:
        if column.name not in file.names:
            if not column.nullable:
                return False
        elif file.field(column.name).type != column.type:
            return False
    return True
