"""Slices with logs, merged on the side of the delta: Spark scans the base files itself and drops
the rows that the logs replaced or deleted. From Python come one bit per row, which says whether the
row is dead, and the logs' rows: no row of a base file.
"""

from __future__ import annotations

import posixpath
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import (
    broadcast,
    coalesce,
    col,
    concat,
    crc32,
    get,
    getbit,
    lit,
    raise_error,
    shiftright,
)

from workers.read.beside import POSITION, SliceBeside, bits_of
from workers.spark.scan import ReadContext, native_scan, python_scan, split_native
from workers.storage.base import Storage, size_of
from workers.table.file_group import FileSlice

DELTA_BYTES_MAX = 128 * 1024**2
"""Of all logs together."""
BASE_BYTES_MAX = 64 * 1024**3
"""Of all base files together. At 32 bytes a row, one bit for each still fits a broadcast."""
DELTA_SHARE_MAX = 1.0
"""Of a slice's logs, as part of its base file: with more of them the base is the smaller part."""
_PLAIN = re.compile(r"[A-Za-z0-9_./=-]+")
_FILE = "_sluice_file"
_DEAD_FILE = "_sluice_dead_file"
_DEAD = "_sluice_dead"
_NUMBER = pa.field(_FILE, pa.int64(), nullable=False)
_BITS = pa.schema(
    [
        pa.field(_DEAD_FILE, pa.int64(), nullable=False),
        pa.field(_DEAD, pa.list_(pa.int64()), nullable=False),
    ]
)
"""A base file, or the logs of a slice, and a bit per row."""


def split_beside(
    storage: Storage, schema: pa.Schema, slices: Sequence[FileSlice]
) -> tuple[list[FileSlice], list[FileSlice]]:
    """Slices that merge beside Spark's scan of their base file, and those to merge whole."""
    based, _ = split_native(storage, schema, slices)
    logs = {one: _log_bytes(storage, one) for one in based}
    bases = {one: _base_bytes(storage, one) for one in based}
    numbers = {file_number(storage.location, one) for one in based}
    if sum(logs.values()) > DELTA_BYTES_MAX or sum(bases.values()) > BASE_BYTES_MAX:
        return [], list(slices)
    if len(numbers) < len(based):
        return [], list(slices)
    beside = [
        one
        for one in based
        if logs[one] <= DELTA_SHARE_MAX * bases[one]
        and _is_spelled_as_is(f"{storage.location}/{one.base_file}")
    ]
    return beside, [one for one in slices if one not in beside]


def merged_beside(
    spark: SparkSession, context: ReadContext, schema: pa.Schema, slices: Sequence[FileSlice]
) -> DataFrame:
    paths = [one.base_file for one in slices if one.base_file]
    base = native_scan(spark, context.location, schema, paths).withColumns(
        {_FILE: crc32("_metadata.file_path"), POSITION: col("_metadata.row_index")}
    )
    log_bytes = sum(_log_bytes(context.storage, one) for one in slices)
    all_bytes = log_bytes + sum(_base_bytes(context.storage, one) for one in slices)
    names = tuple(schema.names)
    added = schema.append(_NUMBER).append(pa.field(POSITION, pa.int64(), nullable=False))
    from_logs = AddedRows(context, tuple(slices), names)
    logs = python_scan(spark, from_logs, added, bytes_read=log_bytes)
    dead = python_scan(spark, DeadRows(context, tuple(slices)), _BITS, bytes_read=all_bytes)
    # Each by itself: a union before the join would copy every base row. Spark tells the dead once.
    return _living(base, dead, names).unionByName(_living(logs, dead, names))


def _living(rows: DataFrame, dead: DataFrame, names: Sequence[str]) -> DataFrame:
    told = rows.join(broadcast(dead), rows[_FILE] == dead[_DEAD_FILE], "left")
    return told.where(_is_dead() == 0).select(*names)


def _is_dead() -> Column:
    """1 or 0. Were a file spelled in another way than `file_number` does, or longer than we know,
    no row of it would be dead: so that ends the query.
    """
    word = get(_DEAD, shiftright(POSITION, 6).cast("int"))
    bit = getbit(word, col(POSITION).bitwiseAND(63).cast("int"))
    stranger: Any = raise_error(
        concat(lit("unknown base file or row: "), _FILE, lit(" "), POSITION)
    )
    return coalesce(bit, stranger.cast("tinyint"))


def file_number(location: str, slice_: FileSlice) -> int:
    """32 bits of the path of a base file as Spark spells it, never below zero."""
    return zlib.crc32(f"file:{location}/{slice_.base_file}".encode())


def _is_spelled_as_is(path: str) -> bool:
    """A path that a URI neither encodes nor shortens."""
    return _PLAIN.fullmatch(path) is not None and posixpath.normpath(path) == path


def _logs_number(number: int) -> int:
    """Of a slice, below zero, where no base file is."""
    return -1 - number


def _log_bytes(storage: Storage, slice_: FileSlice) -> int:
    return sum(size_of(storage, path) for path in slice_.log_files)


def _base_bytes(storage: Storage, slice_: FileSlice) -> int:
    return size_of(storage, slice_.base_file) if slice_.base_file else 0


@dataclass(frozen=True, slots=True)
class DeadRows:
    context: ReadContext
    slices: tuple[FileSlice, ...]

    def __len__(self) -> int:
        return len(self.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        slice_ = self.slices[number]
        dead = _beside(self.context, slice_).dead()
        numbers = [file_number(self.context.location, slice_), _logs_number(number)]
        bits = [bits_of(dead.base), bits_of(dead.logs)]
        ends = pa.array([0, len(bits[0]), len(bits[0]) + len(bits[1])], pa.int32())
        lists = pa.ListArray.from_arrays(ends, pa.concat_arrays(bits))
        yield pa.table([pa.array(numbers, pa.int64()), lists], schema=_BITS)


@dataclass(frozen=True, slots=True)
class AddedRows:
    context: ReadContext
    slices: tuple[FileSlice, ...]
    columns: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        rows = _beside(self.context, self.slices[number]).added(self.columns)
        numbers = pa.repeat(pa.scalar(_logs_number(number), pa.int64()), rows.num_rows)
        yield rows.append_column(_NUMBER, numbers)


def _beside(context: ReadContext, slice_: FileSlice) -> SliceBeside:
    return SliceBeside(context.storage, context.config, context.schema, context.rule, slice_)
