"""Our sink as a Spark application of its own, and what it costs once it runs."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psutil
import pyarrow as pa

from bench.drivers.serving import Job, serve
from bench.drivers.sessions import spark_session
from workers.clock import SystemClock
from workers.lakehouse import open_table
from workers.ports import system_ports
from workers.sink.state_file import SinkState, read_state
from workers.sink.stop_request import StopKind, StopRequest, request_stop
from workers.sink.tables import create_append_table
from workers.spark.sink import SinkEnded, run_sink
from workers.storage.local import LocalStorage
from workers.table.table import open_

PARTITIONS: Final = 8
_TYPES: Final[dict[str, pa.DataType]] = {
    "id": pa.int64(),
    "at": pa.int64(),
    "city": pa.string(),
    "amount": pa.float64(),
    "note": pa.string(),
}
_SECRET: Final = b"the secret of the bench"
_TIMEOUT_S: Final = 600.0


class Sink:
    def __init__(self) -> None:
        # Tasks that die are tried again, as on any cluster.
        self._spark = spark_session({"spark.master": "local[2,4]"})

    def consume(self, folder: str, bootstrap: str, topic: str, count: int) -> dict[str, Any]:
        """Processor seconds and seconds from the first START to the commit of all records."""
        location = f"{folder}/sink-{topic}"
        with _Running(self._spark, location, _options(bootstrap, topic, 5)) as running:
            running.wait(lambda state: state.state == "STARTED_COMMIT")
            cpu_s, started = _cpu_s(), time.perf_counter()
            running.wait(lambda state: _committed(state) >= count)
            told = {
                "cpu_s": _cpu_s() - cpu_s,
                "s": time.perf_counter() - started,
                "memory_mb": _memory_mb(),
            }
        rows = open_table(location).read(columns=["_kafka_partition", "_kafka_offset"])
        distinct = rows.group_by(rows.column_names).aggregate([]).num_rows
        return {**told, "rows": rows.num_rows, "distinct": distinct}

    def recover(self, folder: str, bootstrap: str) -> float:
        """Seconds from the death of the coordinator's process to the START of the next one."""
        location = f"{folder}/sink-warm-again"
        with _Running(self._spark, location, _options(bootstrap, "warm", 600)) as running:
            first = running.wait(lambda state: state.state == "STARTED_COMMIT")
            worker = next(one.worker for one in first.participants if one.partition == 0)
            os.kill(int(worker.partition(":")[2]), signal.SIGKILL)
            died = time.perf_counter()
            running.wait(
                lambda state: (
                    state.epoch > first.epoch
                    and state.state == "STARTED_COMMIT"
                    and any(
                        one.kind == "START_COMMIT" and one.instant == state.instant
                        for one in state.trace
                    )
                )
            )
            return time.perf_counter() - died


class _Running:
    """The sink in a thread, on a fresh table; stopped when the block ends."""

    def __init__(self, spark: Any, location: str, options: dict[str, str]) -> None:
        shutil.rmtree(location, ignore_errors=True)
        self._location, self._topic = location, options["hoodie.kafka.topic"]
        create_append_table(
            LocalStorage(location),
            system_ports(),
            name="sink",
            schema=pa.schema(_TYPES),
            topic=self._topic,
            partitions=PARTITIONS,
        )
        self._ended: list[SinkEnded] = []
        table = open_(LocalStorage(location), system_ports())
        self._thread = threading.Thread(
            target=lambda: self._ended.append(run_sink(table, spark, options, secret=_SECRET))
        )

    def __enter__(self) -> _Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        request = StopRequest(StopKind.HARD, "bench", SystemClock().now_ms())
        request_stop(LocalStorage(self._location), self._topic, request)
        self._thread.join(_TIMEOUT_S)

    def wait(self, is_so: Callable[[SinkState], bool]) -> SinkState:
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + _TIMEOUT_S
        while True:
            state = read_state(LocalStorage(self._location), self._topic)
            if state is not None and is_so(state):
                return state
            assert not self._ended, self._ended
            assert clock.monotonic_s() < deadline_s, state
            clock.sleep(0.1)


def _options(bootstrap: str, topic: str, interval_s: int) -> dict[str, str]:
    return {
        "hoodie.kafka.topic": topic,
        "bootstrap.servers": bootstrap,
        "hoodie.kafka.control.topic": f"{topic}-control",
        "hoodie.kafka.commit.interval.secs": str(interval_s),
        "hoodie.kafka.start.offsets": "earliest",
        "hoodie.kafka.compaction.async.enable": "false",
    }


def _committed(state: SinkState) -> int:
    return sum(one.table_offset or 0 for one in state.participants)


def _tree() -> list[psutil.Process]:
    mine = psutil.Process()
    return [mine, *mine.children(recursive=True)]


def _cpu_s() -> float:
    total = 0.0
    for process in _tree():
        with suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


def _memory_mb() -> int:
    """Of the largest Python process below the JVM: a worker with its participants."""
    found = [0]
    for process in _tree()[1:]:
        with suppress(psutil.NoSuchProcess):
            if "python" in process.name():
                found.append(process.memory_info().rss >> 20)
    return max(found)


def jobs() -> dict[str, Job]:
    sink = Sink()
    return {"consume": sink.consume, "recover": sink.recover}


if __name__ == "__main__":
    serve(jobs)
