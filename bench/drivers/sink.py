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
            costs = {
                "cpu_s": _cpu_s() - cpu_s,
                "s": time.perf_counter() - started,
                "memory_mb": _memory_mb(),
            }
        rows = open_table(location).read(columns=["_kafka_partition", "_kafka_offset"])
        distinct = rows.group_by(rows.column_names).aggregate([]).num_rows
        return {**costs, "rows": rows.num_rows, "distinct": distinct}

    def rest(
        self,
        folder: str,
        bootstrap: str,
        topic: str,
        count: int,
        partitions: int,
        interval_s: int,
        buffer_mb: int,
    ) -> None:
        """Start the sink, a process for each partition, and commit what is there."""
        options = {
            **_options(bootstrap, topic, interval_s),
            "hoodie.kafka.buffer.max.bytes": str(buffer_mb << 20),
            "hoodie.kafka.partitions.per.task": "1",
            "hoodie.kafka.coordinator.write.timeout.secs": "60",
        }
        self._running = _Running(self._spark, f"{folder}/sink-{topic}", options, partitions)
        self._running.__enter__()
        self._running.wait(lambda state: _committed(state) >= count)

    def watch(self, minutes: int) -> dict[str, Any]:
        """What the largest of its processes holds above what it holds now, at most, by minute; and
        how many records the table lacks in the end.
        """
        clock = SystemClock()
        clock.sleep(5.0)
        rest = _workers_mb()
        peaks: list[int] = []
        for minute in range(minutes):
            ends_s = clock.monotonic_s() + 60.0
            peaks.append(0)
            while clock.monotonic_s() < ends_s:
                now = _workers_mb()
                if now.keys() != rest.keys():
                    raise RuntimeError(f"a worker died in minute {minute + 1}")
                peaks[-1] = max(peaks[-1], *(now[one] - rest[one] for one in rest))
                clock.sleep(0.2)
        state = self._running.wait(lambda _: True)
        behind = sum(
            (one.broker_offset or 0) - (one.table_offset or 0) for one in state.participants
        )
        self._running.__exit__()
        return {
            "rest_mb": max(rest.values()),
            "peak_mb": peaks,
            "records": _committed(state),
            "behind": behind,
        }

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

    def __init__(
        self, spark: Any, location: str, options: dict[str, str], partitions: int = PARTITIONS
    ) -> None:
        shutil.rmtree(location, ignore_errors=True)
        self._location, self._topic = location, options["hoodie.kafka.topic"]
        create_append_table(
            LocalStorage(location),
            system_ports(),
            name="sink",
            schema=pa.schema(_TYPES),
            topic=self._topic,
            partitions=partitions,
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
    """Of the largest worker, with its participants."""
    return max(_workers_mb().values(), default=0)


def _workers_mb() -> dict[int, int]:
    """Of each Python process below the JVM that is not the one which only starts others."""
    mb_by_pid: dict[int, int] = {}
    for process in _tree()[1:]:
        with suppress(psutil.NoSuchProcess):
            if "python" in process.name() and not process.children():
                mb_by_pid[process.pid] = process.memory_info().rss >> 20
    return mb_by_pid


def jobs() -> dict[str, Job]:
    sink = Sink()
    return {
        "consume": sink.consume,
        "recover": sink.recover,
        "rest": sink.rest,
        "watch": sink.watch,
    }


if __name__ == "__main__":
    serve(jobs)
