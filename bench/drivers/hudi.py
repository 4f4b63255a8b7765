"""Apache Hudi's side, run by the Python of its own environment with the bundle as argument.

At Hudi's defaults, save for what makes the tables comparable (bucket index, buckets, the key,
partition and ordering columns) and, for the lines "same codec", the codec.
"""

from __future__ import annotations

import sys
from typing import Any

from bench.drivers.queries import ROW_TYPE, aggregated, content_of
from bench.drivers.serving import Job, serve
from bench.drivers.sessions import spark_session

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

    def load(self, table: str, rows: str, kind: str, buckets: int, codec: str) -> None:
        """A new table by bulk insert."""
        self._write(table, rows, "bulk_insert", kind, buckets, codec, "overwrite")

    def upsert(self, table: str, rows: str, kind: str, buckets: int, codec: str) -> None:
        self._write(table, rows, "upsert", kind, buckets, codec, "append")

    def upsert_one(self, table: str, row: list[Any], kind: str, buckets: int, codec: str) -> None:
        frame = self._spark.createDataFrame([tuple(row)], ROW_TYPE)
        self._save(frame, table, "upsert", kind, buckets, codec, "append")

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

    def _write(
        self, table: str, rows: str, operation: str, kind: str, buckets: int, codec: str, mode: str
    ) -> None:
        frame = self._spark.read.parquet(rows)
        self._save(frame, table, operation, kind, buckets, codec, mode)

    def _save(
        self,
        frame: Any,
        table: str,
        operation: str,
        kind: str,
        buckets: int,
        codec: str,
        mode: str,
    ) -> None:
        options = {
            "hoodie.table.name": "s1",
            "hoodie.datasource.write.table.type": TYPES[kind],
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": "key",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": str(buckets),
            # Otherwise every fifth upsert compacts as well, and no logs are left to be read.
            "hoodie.compact.inline": "false",
        }
        if codec != "defaults":
            options["hoodie.parquet.compression.codec"] = codec
        frame.write.format("hudi").options(**options).mode(mode).save(table)


def jobs() -> dict[str, Job]:
    hudi = Hudi(sys.argv[1])
    return {
        "load": hudi.load,
        "upsert": hudi.upsert,
        "upsert_one": hudi.upsert_one,
        "aggregate": hudi.aggregate,
        "compact": hudi.compact,
        "content": hudi.content,
    }


if __name__ == "__main__":
    serve(jobs)
