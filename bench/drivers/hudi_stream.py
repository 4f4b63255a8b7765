"""Spark Structured Streaming from Kafka into a merge-on-read table of Apache Hudi.

Run by the Python of its own environment with the bundle as argument.
"""

from __future__ import annotations

import shutil
import sys

from bench.drivers.serving import Job, serve
from bench.drivers.sessions import spark_session

_KAFKA = "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1"
_WITHIN_SPARK = (
    "org.slf4j:slf4j-api",
    "org.xerial.snappy:snappy-java",
    "org.lz4:lz4-java",
    "com.github.luben:zstd-jni",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.hadoop:hadoop-client-api",
    "commons-logging:commons-logging",
    "com.google.code.findbugs:jsr305",
)
_RECORD = "id long, at long, city string, amount double, note string"


class HudiStream:
    def __init__(self, jar: str) -> None:
        self._spark = spark_session(
            {
                "spark.jars": jar,
                "spark.jars.packages": _KAFKA,
                "spark.jars.excludes": ",".join(_WITHIN_SPARK),
                "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
                "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
                "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            }
        )

    def consume(self, folder: str, bootstrap: str, topic: str) -> int:
        """All that the topic has, in batches like our transactions, append only; rows of the table.

        Rows have the same key as ours: where they came from.
        """
        table, checkpoint = f"{folder}/hudi-{topic}", f"{folder}/hudi-{topic}-checkpoint"
        for path in (table, checkpoint):
            shutil.rmtree(path, ignore_errors=True)
        read = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 1_000_000)
            .load()
        )
        rows = read.selectExpr(
            "partition AS _kafka_partition",
            "offset AS _kafka_offset",
            f"from_json(CAST(value AS STRING), '{_RECORD}') AS record",
        ).selectExpr("_kafka_partition", "_kafka_offset", "record.*")
        query = (
            rows.writeStream.format("hudi")
            .options(
                **{
                    "hoodie.table.name": "sink",
                    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
                    "hoodie.datasource.write.operation": "insert",
                    "hoodie.datasource.write.recordkey.field": "_kafka_partition,_kafka_offset",
                    "hoodie.datasource.write.precombine.field": "_kafka_offset",
                    "hoodie.datasource.compaction.async.enable": "false",
                    "hoodie.compact.inline": "false",
                }
            )
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start(table)
        )
        query.awaitTermination()
        return int(self._spark.read.format("hudi").load(table).count())


def jobs() -> dict[str, Job]:
    stream = HudiStream(sys.argv[1])
    return {"consume": stream.consume}


if __name__ == "__main__":
    serve(jobs)
