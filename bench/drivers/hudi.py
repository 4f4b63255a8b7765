"""Apache Hudi's side, run by the Python of its own environment with the bundle as argument.

At Hudi's defaults, save for what makes the tables comparable (index, buckets, the key, partition
and ordering columns) and, for the lines "same codec", the codec.
"""

from __future__ import annotations

import sys
from typing import Any

from bench.drivers.index_options import BUCKET, index_options
from bench.drivers.queries import ROW_TYPE, aggregated, content_of, sums_of
from bench.drivers.serving import Job, serve
from bench.drivers.sessions import spark_session

_PARTIAL = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "8",
    "hoodie.compact.inline": "false",
    "hoodie.spark.sql.merge.into.partial.updates": "true",
}
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


class Hudi:
    def __init__(self, jar: str) -> None:
        self._spark = spark_session(
            {
                "spark.jars": jar,
                "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
                "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
                "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": (
                    "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
                ),
            }
        )

    def load(
        self, table: str, rows: str, kind: str, buckets: int, codec: str, index: str = BUCKET
    ) -> None:
        """A new table by bulk insert."""
        options = _options("bulk_insert", kind, codec, index_options(index, buckets))
        self._save(self._spark.read.parquet(rows), table, options, "overwrite")

    def upsert(
        self, table: str, rows: str, kind: str, buckets: int, codec: str, index: str = BUCKET
    ) -> None:
        options = _options("upsert", kind, codec, index_options(index, buckets))
        self._save(self._spark.read.parquet(rows), table, options, "append")

    def upsert_one(self, table: str, row: list[Any], kind: str, buckets: int, codec: str) -> None:
        frame = self._spark.createDataFrame([tuple(row)], ROW_TYPE)
        options = _options("upsert", kind, codec, index_options(BUCKET, buckets))
        self._save(frame, table, options, "append")

    def aggregate(self, table: str) -> list[Any]:
        return aggregated(self._spark.read.format("hudi").load(table))

    def compact(self, table: str) -> None:
        """Schedule and execute."""
        now = "hoodie.compact.inline.max.delta.commits=1"  # By default only every fifth commit.
        call = (
            f"CALL run_compaction(op => 'scheduleAndExecute', path => '{table}', "
            f"options => '{now}')"
        )
        assert self._spark.sql(call).collect(), "there was nothing to compact"

    def content(self, table: str) -> list[Any]:
        """Number of rows, and a hash of them all that every engine computes alike."""
        return content_of(self._spark.read.format("hudi").load(table))

    def partial_load(self, folder: str) -> None:
        """A table by bulk insert that `MERGE INTO` then knows by name; one ordering column."""
        rows = self._spark.read.parquet(f"{folder}/rows").withColumnRenamed("ts_a", "ts")
        rows.drop("ts_b", "ts_c").write.format("hudi").options(
            **{
                "hoodie.table.name": "partial",
                "hoodie.datasource.write.table.type": "MERGE_ON_READ",
                "hoodie.datasource.write.operation": "bulk_insert",
                "hoodie.datasource.write.recordkey.field": "key",
                "hoodie.datasource.write.precombine.field": "ts",
                **_PARTIAL,
            }
        ).mode("overwrite").save(f"{folder}/hudi")
        self._spark.sql("DROP TABLE IF EXISTS partial")
        self._spark.sql(f"CREATE TABLE partial USING hudi LOCATION '{folder}/hudi'")
        for key, value in _PARTIAL.items():
            self._spark.sql(f"SET {key}={value}")

    def partial_update(self, folder: str, number: int) -> None:
        stream = "abc"[number % 3]
        rows = self._spark.read.parquet(f"{folder}/update-{number}")
        rows.withColumnRenamed(f"ts_{stream}", "ts").createOrReplaceTempView("newer")
        columns = ["ts", *(f"{stream}{n}" for n in range(10))]
        assignments = ", ".join(f"target.{name} = newer.{name}" for name in columns)
        self._spark.sql(
            "MERGE INTO partial AS target USING newer ON target.key = newer.key "
            f"WHEN MATCHED THEN UPDATE SET {assignments}"
        )

    def partial_content(self, folder: str) -> list[float]:
        return sums_of(self._spark.read.format("hudi").load(f"{folder}/hudi"))

    def _save(self, frame: Any, table: str, options: dict[str, str], mode: str) -> None:
        frame.write.format("hudi").options(**options).mode(mode).save(table)


def _options(operation: str, kind: str, codec: str, index: dict[str, str]) -> dict[str, str]:
    options = {
        "hoodie.table.name": "s1",
        "hoodie.datasource.write.table.type": TYPES[kind],
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": "key",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        # Otherwise every fifth upsert compacts as well, and no logs are left to be read.
        "hoodie.compact.inline": "false",
        **index,
    }
    if codec != "defaults":
        options["hoodie.parquet.compression.codec"] = codec
    return options


def jobs() -> dict[str, Job]:
    hudi = Hudi(sys.argv[1])
    return {
        "load": hudi.load,
        "upsert": hudi.upsert,
        "upsert_one": hudi.upsert_one,
        "aggregate": hudi.aggregate,
        "compact": hudi.compact,
        "content": hudi.content,
        "partial_load": hudi.partial_load,
        "partial_update": hudi.partial_update,
        "partial_content": hudi.partial_content,
    }


if __name__ == "__main__":
    serve(jobs)
