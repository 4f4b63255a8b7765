"""Slices with logs, merged on the side of the delta: Spark scans the base files itself and drops
the rows that the logs replaced or deleted; from Python come addresses and the logs' rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import (
    broadcast,
    col,
    concat,
    crc32,
    lit,
    raise_error,
    substring_index,
    when,
)

from workers.merge.merge import MergeRule
from workers.read.beside import ADDRESS, POSITION_BITS, SliceBeside, file_number
from workers.spark.scan import ReadContext, native_scan, python_scan, split_native
from workers.storage.base import Storage
from workers.table.file_group import FileSlice

DELTA_BYTES_MAX = 128 * 1024**2
"""Of all logs together: beyond it the dead rows' addresses do not fit a broadcast with ease."""
DELTA_SHARE_MAX = 1.0
"""Of a slice's logs, as part of its base file: with more of them the base is the smaller part."""
_SPELLED_AS_IS = re.compile(r"[A-Za-z0-9_./=-]+")
"""Paths that a URI does not encode."""
_ROW_INDEX = "_metadata.row_index"
_DEAD = "_sluice_dead"
_ADDRESSES = pa.schema([pa.field(_DEAD, pa.int64(), nullable=False)])


def split_beside(
    storage: Storage, schema: pa.Schema, slices: Sequence[FileSlice]
) -> tuple[list[FileSlice], list[FileSlice]]:
    """Slices that merge beside Spark's scan of their base file, and those to merge whole."""
    based, _ = split_native(storage, schema, slices)
    sizes = {one: sum(_bytes(storage, path) for path in one.log_files) for one in based}
    numbers = set(_file_numbers(based))
    if sum(sizes.values()) > DELTA_BYTES_MAX or len(numbers) < len(based):
        return [], list(slices)
    beside = [
        one
        for one in based
        if sizes[one] <= DELTA_SHARE_MAX * _bytes(storage, one.base_file or "")
        and _SPELLED_AS_IS.fullmatch(storage.location + (one.base_file or ""))
    ]
    return beside, [one for one in slices if one not in beside]


def merged_beside(
    spark: SparkSession, context: ReadContext, schema: pa.Schema, slices: Sequence[FileSlice]
) -> DataFrame:
    rule = MergeRule.of(context.config)
    work = (context, rule, tuple(slices))
    paths = [one.base_file for one in slices if one.base_file]
    base = native_scan(spark, context.location, schema, paths).withColumn(
        ADDRESS, _file_number(context, slices) * lit(1 << POSITION_BITS) + col(_ROW_INDEX)
    )
    address = pa.field(ADDRESS, pa.int64(), nullable=False)
    added = python_scan(spark, AddedRows(*work, tuple(schema.names)), schema.append(address))
    dead = python_scan(spark, DeadRows(*work), _ADDRESSES)
    rows = base.unionByName(added)
    is_dead = rows[ADDRESS] == dead[_DEAD]
    return rows.join(broadcast(dead), is_dead, "left_anti").drop(ADDRESS)


def _file_number(context: ReadContext, slices: Sequence[FileSlice]) -> Column:
    """As `file_number`, by Spark. Were a path spelled in another way, no row would be dead: so a
    file that we did not hand over ends the query.
    """
    path = substring_index(col("_metadata.file_path"), f"{context.location}/", -1)
    number: Any = crc32(path)
    known = _file_numbers(slices)
    stranger = raise_error(concat(lit("unknown base file "), col("_metadata.file_path")))
    return when(number.isin(known), number).otherwise(stranger)


def _file_numbers(slices: Sequence[FileSlice]) -> list[int]:
    return [file_number(one.base_file) for one in slices if one.base_file]


def _bytes(storage: Storage, path: str) -> int:
    found = storage.info(path)
    return found.size if found else 0


@dataclass(frozen=True, slots=True)
class DeadRows:
    context: ReadContext
    rule: MergeRule
    slices: tuple[FileSlice, ...]

    def __len__(self) -> int:
        return len(self.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        dead = _beside(self.context, self.rule, self.slices, number).dead()
        yield pa.table([pa.array(dead, pa.int64())], schema=_ADDRESSES)


@dataclass(frozen=True, slots=True)
class AddedRows:
    context: ReadContext
    rule: MergeRule
    slices: tuple[FileSlice, ...]
    columns: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        yield _beside(self.context, self.rule, self.slices, number).added(self.columns)


def _beside(
    context: ReadContext, rule: MergeRule, slices: Sequence[FileSlice], number: int
) -> SliceBeside:
    return SliceBeside(
        context.storage, context.config, context.schema, rule, slices[number], number
    )
