"""Apache Hudi in its own Python and Spark: reads one JSON request a line, answers with one.

Runs in the peer's environment, so it imports nothing of ours. Rows travel as Parquet files.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_KRYO = "org.apache.spark.serializer.KryoSerializer"
_META = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


def session(jar: str) -> SparkSession:
    settings = {
        "spark.jars": jar,
        "spark.driver.memory": "2g",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.serializer": _KRYO,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        # What was read travels on as Parquet; how tables are read stays at Spark's default.
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def read(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """The table's rows, without meta columns, as Parquet under `out`."""
    frame = spark.read.format("hudi").options(**request["options"]).load(request["path"])
    rows = frame.drop(*_META)
    if not rows.columns:
        return {"columns": []}
    rows.coalesce(1).write.mode("overwrite").parquet(request["out"])
    return {"columns": rows.columns}


def write(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Append the rows of a Parquet file with the options given."""
    rows = spark.read.parquet(request["rows"])
    rows.write.format("hudi").options(**request["options"]).mode("append").save(request["path"])
    return {}


def sql(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    answers = [spark.sql(one).collect() for one in request["statements"]]
    return {"answers": [[[str(cell) for cell in row] for row in rows] for rows in answers]}


def lock(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """Add one to the number in a file, `times` times, each under Hudi's own LockManager.

    The lock is Hudi's alone; the number is what shows whether it kept others out.
    """
    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for key, value in request["options"].items():
        properties.setProperty(key, value)
    builder = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
    config = builder.withPath(request["path"]).withProps(properties).build()
    conf = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
        spark._jsc.hadoopConfiguration()
    )
    storage = jvm.org.apache.hudi.storage.hadoop.HoodieHadoopStorage(request["path"], conf)
    manager = jvm.org.apache.hudi.client.transaction.lock.LockManager(config, storage)
    file, count = Path(request["file"]), 0
    for _ in range(request["times"]):
        manager.lock()
        try:
            number = int(file.read_text())
            time.sleep(request["hold_s"])
            file.write_text(str(number + 1))
            count += 1
        finally:
            manager.unlock()
    return {"count": count}


def buckets(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """The bucket of each record key, as Hudi's writers place it."""
    jvm: Any = spark._jvm
    identifier = jvm.org.apache.hudi.index.bucket.BucketIdentifier
    bucket_numbers = [
        identifier.getBucketId(key, request["fields"], request["buckets"])
        for key in request["keys"]
    ]
    return {"found": bucket_numbers}


def bloom_filter(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    factory = spark._jvm.org.apache.hudi.common.bloom.BloomFilterFactory
    made = factory.createBloomFilter(
        request["entries"], request["fpp"], request["entries_max"], request["kind"]
    )
    for key in request["keys"]:
        made.add(key)
    return {"text": made.serializeToString()}


def might_contain(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    factory = spark._jvm.org.apache.hudi.common.bloom.BloomFilterFactory
    read = factory.fromString(request["text"], request["kind"])
    return {"found": [read.mightContain(key) for key in request["keys"]]}


def partitions(spark: SparkSession, request: dict[str, Any]) -> dict[str, Any]:
    """What Hudi's timestamp-based key generator makes of each value; None where it fails."""
    jvm: Any = spark._jvm
    properties = jvm.org.apache.hudi.common.config.TypedProperties()
    for key, value in request["options"].items():
        properties.setProperty(key, value)
    generator = jvm.org.apache.hudi.keygen.TimestampBasedAvroKeyGenerator(properties)
    paths = []
    for value in request["values"]:
        value_or_default = generator.getDefaultPartitionVal() if value is None else value
        try:
            paths.append(generator.getPartitionPath(value_or_default))
        except Exception:  # noqa: BLE001 - whatever Hudi raised is that it has no path
            paths.append(None)
    return {"found": paths}


def main() -> None:
    spark = session(sys.argv[1])
    doors = {
        "read": read,
        "write": write,
        "sql": sql,
        "lock": lock,
        "buckets": buckets,
        "bloom_filter": bloom_filter,
        "might_contain": might_contain,
        "partitions": partitions,
    }
    answer_with({"ready": spark.version})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer_with(doors[request["do"]](spark, request))
        except Exception as error:  # noqa: BLE001 - whatever Hudi raised is the answer
            trace = traceback.format_exc()[-2000:]
            answer_with({"error": str(error)[:4000], "trace": trace})


def answer_with(answer: dict[str, Any]) -> None:
    """Spark prints to the same stream; the prefix tells our lines apart."""
    sys.stdout.write(f"@@{json.dumps(answer)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
