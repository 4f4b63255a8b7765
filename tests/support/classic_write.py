"""A write in a Spark session without Spark Connect, which others roll back while its tasks run.

A process of its own, because one process has sessions of either kind.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from tests.support.fencing import roll_back, wait_until
from tests.support.scenario_table import ScenarioTable, schema_of
from tests.support.spark_faults import start_then_wait_for_the_rival, started
from tests.support.spark_tasks import run_tasks
from workers.concurrency.read_set import ReadSet
from workers.options.write_options import write_options
from workers.spark.write import carry_out
from workers.write.client import WriteClient

SLOTS = 2
KEYS = schema_of(id=pa.int64(), city=pa.string())
ROWS = pa.table({"id": pa.array(range(200)), "city": ["Bergen"] * 200}, KEYS)


def main(folder: str) -> None:
    """Prints the outcome's type, and which attempts of tasks started."""
    flags = Path(folder) / "flags"
    flags.mkdir()
    options = {"hoodie.bucket.index.num.buckets": "12"}
    table = ScenarioTable(Path(folder) / "table", schema=KEYS, options=options)
    with _session() as spark:
        transaction = WriteClient(
            table.table, write_options({"hoodie.write.markers.type": "direct"})
        ).begin(KEYS)
        context, frame = transaction.context, spark.createDataFrame(ROWS)
        write = partial(start_then_wait_for_the_rival, str(flags))
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(
                carry_out,
                table.table,
                transaction,
                spark,
                lambda tag, watch: (
                    run_tasks(frame, context, tag, write, task_bytes=1, watch=watch),
                    (),
                    ReadSet(),
                ),
            )
            wait_until(lambda: len(started(flags)) == SLOTS, job)
            roll_back(table, transaction.instant)
            outcome = job.result()
    said = {"outcome": type(outcome).__name__, "started": started(flags)}
    sys.stdout.write(json.dumps(said) + "\n")


def _session() -> SparkSession:
    return (
        SparkSession.builder.master(f"local[{SLOTS},4]")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
