"""What is asked of tables, in Spark's functions, so that every Spark engine is asked the same."""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import functions

ROW_TYPE: Final = (
    "key string, ts long, part string, amount double, name string, cat string, u string"
)


def aggregated(frame: Any) -> list[list[Any]]:
    """Per partition: rows, sum, newest, categories; four of seven columns, every row."""
    by_part = frame.groupBy("part").agg(
        functions.count("*").alias("rows"),
        functions.round(functions.sum("amount"), 0).alias("amount"),
        functions.max("ts").alias("newest"),
        functions.countDistinct("cat").alias("categories"),
    )
    return [list(row) for row in by_part.orderBy("part").collect()]


def content_of(frame: Any) -> list[int]:
    """Number of rows, and a sum of checksums over all their values that no order changes."""
    cents = functions.round(functions.col("amount") * 100).cast("long")
    text = functions.concat_ws("|", "key", "ts", "part", cents, "name", "cat", "u")
    checksums = frame.select(functions.crc32(text).alias("c"))
    return list(checksums.agg(functions.count("c"), functions.sum("c")).collect()[0])


def sums_of(frame: Any) -> list[float]:
    """Number of rows, and of each double column a sum, over every row and column."""
    names = sorted(one.name for one in frame.schema if one.dataType.typeName() == "double")
    sums = [functions.round(functions.sum(name), 3).alias(name) for name in names]
    return list(frame.agg(functions.count("*").alias("rows"), *sums).collect()[0])
