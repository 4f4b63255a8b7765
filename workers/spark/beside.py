"""Slices with logs, merged on the side of the delta: Spark scans the base files itself and drops
the rows that the logs replaced or deleted. From Python come one bit per base row, which says
whether it is dead, and the logs' rows that stand: no row of a base file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, expr

from workers.locations import is_bucket_location
from workers.read.beside import SliceBeside, bits_of
from workers.spark.scan import ReadContext, native_scan, python_scan, split_native
from workers.storage.base import FileInfo, Storage, get_size
from workers.table.file_group import FileSlice

DELTA_BYTES_MAX = 128 * 1024**2
"""Of all logs together."""
BASE_BYTES_MAX = 64 * 1024**3
"""Of all base files together. At 32 bytes a row, one bit for each still fits a broadcast."""
DELTA_SHARE_MAX = 1.0
"""Of a slice's logs, as part of its base file: with more of them the base is the smaller part."""
_KEYS_SHARE = 4
"""Of a base file's bytes, key and ordering columns are one part in so many."""
_SIZE_FACTOR = 1_000_003
_FILE = "_sluice_file"
_POSITION = "_sluice_position"
_DEAD_FILE = "_sluice_dead_file"
_DEAD = "_sluice_dead"
_BITS = pa.schema(
    [
        pa.field(_DEAD_FILE, pa.int64(), nullable=False),
        pa.field(_DEAD, pa.list_(pa.int64()), nullable=False),
    ]
)
"""A base file, and a bit per row."""
# As text, because every function of a column costs a classic session a call into its JVM.
_NUMBER_SQL = (
    f"_metadata.file_size * {_SIZE_FACTOR}L + unix_millis(_metadata.file_modification_time)"
)
"""`BesideSlice.number`."""
_BIT_SQL = f"getbit(get({_DEAD}, int(shiftright({_POSITION}, 6))), int({_POSITION} & 63))"
_DEAD_SQL = (
    f"coalesce({_BIT_SQL}, "
    f"tinyint(raise_error('unknown base file or row: ' || {_FILE} || ' ' || {_POSITION})))"
)
"""1 or 0. Were a file replaced since its number was made, or longer than we know, no row of it
would be dead: so that ends the query.
"""


@dataclass(frozen=True, slots=True)
class BesideSlice:
    """A slice with logs whose base file Spark scans itself."""

    slice_: FileSlice
    base: FileInfo
    log_bytes: int

    @property
    def number(self) -> int:
        """What tells rows of the base file from those of other files, never below zero: numbers
        cost Spark less per row than paths, and everybody writes them alike.
        """
        return self.base.size * _SIZE_FACTOR + self.base.modified_ms


def split_beside(
    spark: SparkSession, storage: Storage, schema: pa.Schema, slices: Sequence[FileSlice]
) -> tuple[list[BesideSlice], list[FileSlice]]:
    """Return the slices that merge beside Spark's scan of their base file, and the other ones.

    In a bucket all merge whole: Hadoop's client and ours round the times of files differently.
    """
    if is_bucket_location(storage.location):
        return [], list(slices)
    based, whole = split_native(spark, storage, schema, slices)
    beside: list[BesideSlice] = []
    for file_slice in based:
        base = storage.info(file_slice.base_file or "")
        logs = sum(get_size(storage, path) for path in file_slice.log_files)
        if base is None or logs > DELTA_SHARE_MAX * base.size:
            whole.append(file_slice)
        else:
            beside.append(BesideSlice(file_slice, base, logs))
    is_much = sum(one.log_bytes for one in beside) > DELTA_BYTES_MAX
    if is_much or sum(one.base.size for one in beside) > BASE_BYTES_MAX:
        return [], list(slices)
    named = Counter(one.number for one in beside)
    whole += [one.slice_ for one in beside if named[one.number] > 1]
    return [one for one in beside if named[one.number] == 1], whole


def merged_beside(
    spark: SparkSession, context: ReadContext, schema: pa.Schema, slices: Sequence[BesideSlice]
) -> DataFrame:
    """The rows of these slices under `schema`, lazily and in no order: of the base files those that
    no log replaced or deleted, and the logs' rows that stand.

    The query fails where a base file is not the one that `split_beside` looked at.
    """
    paths = [one.base.path for one in slices]
    base = native_scan(spark, context.location, schema, paths)
    base = base.selectExpr("*", f"{_NUMBER_SQL} AS {_FILE}", f"_metadata.row_index AS {_POSITION}")
    log_bytes = sum(one.log_bytes for one in slices)
    key_bytes = log_bytes + sum(one.base.size for one in slices) // _KEYS_SHARE
    from_logs = AddedRows(context, tuple(one.slice_ for one in slices), tuple(schema.names))
    logs = python_scan(spark, from_logs, schema, bytes_read=log_bytes)
    dead = python_scan(spark, DeadRows(context, tuple(slices)), _BITS, bytes_read=key_bytes)
    # First the join: a union before it would copy every base row.
    marked = base.join(broadcast(dead), expr(f"{_FILE} = {_DEAD_FILE}"), "left")
    return marked.where(f"{_DEAD_SQL} = 0").drop(_FILE, _POSITION, _DEAD_FILE, _DEAD).union(logs)


@dataclass(frozen=True, slots=True)
class DeadRows:
    """Work whose pieces are one row for each slice: `BesideSlice.number` and the bits of its base
    rows.
    """

    context: ReadContext
    slices: tuple[BesideSlice, ...]

    def __len__(self) -> int:
        return len(self.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        """One table of one row: the number, and 64 base rows to each integer, the lowest bit first;
        a set bit is a dead row. Raises NotFound, MalformedTable.
        """
        beside_slice = self.slices[number]
        bits = bits_of(_beside(self.context, beside_slice.slice_).dead())
        lists = pa.ListArray.from_arrays(pa.array([0, len(bits)], pa.int32()), bits)
        yield pa.table([pa.array([beside_slice.number], pa.int64()), lists], schema=_BITS)


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Work whose pieces are the rows that a slice's logs add to its base file."""

    context: ReadContext
    slices: tuple[FileSlice, ...]
    columns: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        """Rows of one slice's logs that stand, with `columns`. Raises NotFound, MalformedTable."""
        yield _beside(self.context, self.slices[number]).added(self.columns)


def _beside(context: ReadContext, slice_: FileSlice) -> SliceBeside:
    return SliceBeside(context.storage, context.config, context.schema, context.rule, slice_)
