"""Streaming queries through the data source `sluice`, from one table into another, until all that
is there was delivered; and a driver program of its own that runs one and can be killed.

    python -m tests.support.stream_queries <source> <sink> <checkpoint> <stream>
"""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from workers.options.read_keys import STREAM_NAME
from workers.spark.datasource import SluiceDataSource

_STARTS_MAX = 6
_TOO_LATE = ("connect back", "failed to initialize", "SocketTimeoutException")
"""Spark gives each Python process of a query ten seconds to come up, whatever else the machine has
to do.
"""


def run_stream(spark: SparkSession, source: str, sink: str, checkpoint: str, stream: str) -> None:
    """Deliver all that is in `source` and was not delivered yet, in one epoch. Raises as Spark."""
    for left in reversed(range(_STARTS_MAX)):
        try:
            _started(spark, source, sink, checkpoint, stream).awaitTermination()
        except PySparkException as error:
            if left and any(text in str(error) for text in _TOO_LATE):
                continue
            raise
        return


def _started(
    spark: SparkSession, source: str, sink: str, checkpoint: str, stream: str
) -> StreamingQuery:
    rows = spark.readStream.format("sluice").load(source).writeStream.format("sluice")
    options = {
        STREAM_NAME: stream,
        "checkpointLocation": checkpoint,
        "hoodie.write.markers.type": "direct",
        "hoodie.datasource.write.operation": "insert",
    }
    return rows.options(**options).trigger(availableNow=True).start(sink)


def main(*arguments: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.dataSource.register(SluiceDataSource)
    run_stream(spark, *arguments)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
