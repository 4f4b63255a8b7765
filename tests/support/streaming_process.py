"""A driver program of its own: Structured Streaming queries, one after the other, that write with
`foreachBatch` until all that is there was delivered: one stream's columns, where the table has
groups of them, else whole rows.

    python -m tests.support.streaming_process <remote> <table> <source> <checkpoint> [...]

<remote> is the address of a Connect server, or `classic` for a session of this process.
"""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from workers.lakehouse import open_table

_STARTS_MAX = 4
_TOO_LATE = "waiting for the Python worker to connect back"
NON_BLOCKING = {
    "hoodie.write.markers.type": "direct",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}


def main(remote: str, location: str, *queries: str) -> None:
    def write(batch: DataFrame, number: int) -> None:
        del number  # Merging is idempotent, so nobody has to remember what was delivered.
        table = open_table(location)
        if table.table.config.groups is not None:
            table.write(batch, stream="views", options=NON_BLOCKING)
        else:
            table.write(batch, options={"hoodie.write.markers.type": "direct"})

    spark = _session(remote)
    for source, checkpoint in zip(queries[::2], queries[1::2], strict=True):
        frames = spark.readStream.schema("id string, seen_at long, views long").parquet(source)
        stream = frames.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
        _started(stream.trigger(availableNow=True)).awaitTermination()
    spark.stop()


def _started(stream: DataStreamWriter) -> StreamingQuery:
    """A Connect server gives the Python process of a query ten seconds to come up, whatever else
    the machine has to do.
    """
    for _ in range(_STARTS_MAX - 1):
        try:
            return stream.start()
        except PySparkException as error:
            if _TOO_LATE not in str(error):
                raise
    return stream.start()


def _session(remote: str) -> SparkSession:
    if remote != "classic":
        return SparkSession.builder.remote(remote).getOrCreate()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


if __name__ == "__main__":
    main(*sys.argv[1:])
