"""Which rows belong together: the file group of every row, computed where the rows are.

Only the columns that decide a row's place, or for which a row may be refused, cross to Python here;
whole rows stay in the JVM and cross once, to the task that writes them.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import arrow_udf, col, struct
from pyspark.sql.types import IntegerType

from workers.files.meta_columns import PARTITION_PATH
from workers.spark.types import to_arrow
from workers.write.context import WriteContext
from workers.write.prepare import BUCKET, prepare

FILE_GROUP: Final = "_sluice_file_group"
"""The column whose equal values say: one task writes these rows."""


def with_file_groups(df: DataFrame, context: WriteContext) -> DataFrame:
    """The frame with one column more, `FILE_GROUP`; equal for rows of one file group.

    Raises InvalidInput for columns that the table cannot hold, now; for rows, when it runs.
    """
    batch = to_arrow(df.schema)
    prepare(context, batch.empty_table())
    names = deciding_columns(context, batch)
    narrow = replace(context, columns=names)

    @arrow_udf(returnType=IntegerType())
    def numbers(rows: pa.Array) -> pa.Array:  # type: ignore[type-arg] # Spark reads these hints.
        return file_group_numbers(narrow, rows)

    return df.withColumn(FILE_GROUP, numbers(struct(*map(_quoted, names))))


def deciding_columns(context: WriteContext, batch: pa.Schema) -> tuple[str, ...]:
    """Of a batch's columns those that place a row, and those with values that may be refused."""
    config = context.config
    placing = {*config.record_key, *config.partition_by, *config.ordering}
    table = context.schema.arrow
    return tuple(
        name
        for name in context.columns
        if name in batch.names
        and (
            name in placing
            or batch.field(name).type != table.field(name).type
            or not table.field(name).nullable
        )
    )


def file_group_numbers(context: WriteContext, rows: pa.Array[Any]) -> pa.Array[Any]:
    """A number per row, the same for rows of one file group; on executors.

    Raises InvalidInput for a row that the table cannot hold, before any file is written.
    """
    assert isinstance(rows, pa.StructArray), rows.type
    prepared = prepare(context, pa.RecordBatch.from_struct_array(rows))
    paths = prepared.column(PARTITION_PATH).combine_chunks().dictionary_encode()
    starts = [zlib.crc32(str(path).encode()) for path in paths.dictionary.to_pylist()]
    numbers = np.asarray(starts, dtype=np.int64)[paths.indices.to_numpy()]
    numbers += prepared.column(BUCKET).to_numpy()
    return pa.array((numbers & 0x7FFFFFFF).astype(np.int32), pa.int32())


def _quoted(name: str) -> Column:
    return col("`" + name.replace("`", "``") + "`")
