"""A classic session on a standalone cluster: writes, and the times that Spark reports of stages."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from pyspark.sql import SparkSession

from bench.drivers.queries import content_of
from bench.drivers.serving import Job, serve
from workers.concurrency.outcome import Committed
from workers.lakehouse import create_table, open_table
from workers.spark.cluster import Cluster
from workers.spark.engine_archive import ship_engine
from workers.spark.remote_packages import prepare_executors

_OPTIONS: Final = {"hoodie.write.markers.type": "direct", "sluice.writer.name": "bench"}
_SETTINGS: Final = {
    "spark.executor.memory": "1g",
    # Each file is a partition, so that the tasks are the same with one worker and with two.
    "spark.sql.files.openCostInBytes": "128m",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
}
_REPORTED_AFTER_S: Final = 1.0
"""Spark's listener may be late by so much."""
_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fGMT"


class OnCluster:
    """The jobs of one session on the cluster."""

    def __init__(self, master: str, python: str) -> None:
        cluster = Cluster(master=master, driver_host="127.0.0.1", python=python, settings=_SETTINGS)
        os.environ["PYSPARK_PYTHON"] = python
        # `classic_session` would ship the engine at once.
        builder = SparkSession.builder.master(master).appName("bench")
        for key, value in cluster.driver_settings().items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")

    def register(self) -> int:
        """Run a job without Python, so that executors have started. Return their number."""
        context: Any = self._spark.sparkContext
        self._spark.range(0, 1_000, 1, 4).selectExpr("sum(id)").collect()
        return int(context._jsc.sc().statusStore().executorList(True).size()) - 1

    def ship(self, location: str) -> dict[str, Any]:
        """Ship the engine and wait until each executor has imported it."""
        begun_s = time.perf_counter()
        archive = ship_engine(self._spark)
        call_s = time.perf_counter() - begun_s
        prepare_executors(self._spark, location)
        return {"bytes": 0 if archive is None else archive.bytes, "call_s": round(call_s, 3)}

    def processors(self, workers: int) -> list[list[int]]:
        """Return the processors of the Python of each executor."""

        def read(_: Any) -> list[tuple[str, list[int]]]:
            import os
            import time

            time.sleep(0.5)  # So that the other executor gets the other task.
            return [(os.getcwd(), sorted(os.sched_getaffinity(0)))]  # noqa: PTH109

        tasks = self._spark.sparkContext.parallelize(range(workers), workers)
        return [numbers for _, numbers in sorted(tasks.mapPartitions(read).collect())]

    def bulk_insert(self, table: str, rows: str, buckets: int) -> dict[str, Any]:
        """Write a new copy-on-write table; return the times of the stages."""
        shutil.rmtree(table, ignore_errors=True)
        frame = self._spark.read.parquet(rows)
        created = create_table(
            table,
            name="s1",
            schema=frame.schema,
            record_key=["key"],
            partition_by=["part"],
            ordering=["ts"],
            options={"hoodie.bucket.index.num.buckets": str(buckets)},
        )
        return self._measure(lambda: created.write(frame, "bulk_insert", options=_OPTIONS))

    def upsert(self, table: str, rows: str) -> dict[str, Any]:
        """Return the times of the stages."""
        frame = self._spark.read.parquet(rows)
        opened = open_table(table)
        return self._measure(lambda: opened.write(frame, options=_OPTIONS))

    def content(self, table: str) -> list[int]:
        return content_of(open_table(table).read(self._spark))

    def _measure(self, write: Any) -> dict[str, Any]:
        before = {stage["stageId"] for stage in self._fetch_stages()}
        outcome = write()
        assert isinstance(outcome, Committed), outcome
        stages = [stage for stage in self._fetch_stages() if stage["stageId"] not in before]
        assert stages, "Spark reported no stage of the write"
        spans = [_read_span(stage) for stage in stages]
        return {
            "stage_s": _measure_union(spans),
            "stages": [
                {
                    "name": stage["name"].partition(" at ")[0],
                    "tasks": stage["numCompleteTasks"],
                    "s": round(end_s - begin_s, 3),
                    "task_s": stage["executorRunTime"] / 1000,
                }
                for stage, (begin_s, end_s) in zip(stages, spans, strict=True)
            ],
        }

    def _fetch_stages(self) -> list[dict[str, Any]]:
        """Return the completed stages of the application, as the driver's REST API has them."""
        time.sleep(_REPORTED_AFTER_S)
        context = self._spark.sparkContext
        path = f"api/v1/applications/{context.applicationId}/stages?status=complete"
        with urlopen(f"{context.uiWebUrl}/{path}") as answer:  # noqa: S310 # Our own driver.
            stages: list[dict[str, Any]] = json.load(answer)
        return sorted(stages, key=lambda stage: stage["stageId"])


def _read_span(stage: dict[str, Any]) -> tuple[float, float]:
    """Return the begin of the first task and the end of the last one, in seconds."""
    begin, end = (
        datetime.strptime(stage[name], _TIME).replace(tzinfo=UTC).timestamp()
        for name in ("firstTaskLaunchedTime", "completionTime")
    )
    return begin, end


def _measure_union(spans: list[tuple[float, float]]) -> float:
    """Return the seconds in which at least one of the stages ran."""
    total_s, until_s = 0.0, float("-inf")
    for begin_s, end_s in sorted(spans):
        total_s += max(0.0, end_s - max(begin_s, until_s))
        until_s = max(until_s, end_s)
    return total_s


def jobs() -> dict[str, Job]:
    master, python = sys.argv[1:]
    session = OnCluster(master, str(Path(python)))
    return {
        "register": session.register,
        "ship": session.ship,
        "processors": session.processors,
        "bulk_insert": session.bulk_insert,
        "upsert": session.upsert,
        "content": session.content,
    }


if __name__ == "__main__":
    serve(jobs)
