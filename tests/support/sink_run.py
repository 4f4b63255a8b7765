"""A sink's workers as processes of their own, without Spark: what the tests start, kill and count.

python -m tests.support.sink_run <launch.json> <number> <attempt>
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.kafka import client
from workers.lakehouse import open_table
from workers.ports import system_ports
from workers.sink.config import SinkConfig, sink_config
from workers.sink.epoch import read_epoch
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import produce
from workers.sink.runtime.launch import Launch
from workers.sink.runtime.worker import SinkWorker
from workers.sink.state_file import SinkState, read_state
from workers.sink.stop_request import StopKind, StopRequest, clear_stop, request_stop
from workers.sink.tables import OFFSET, PARTITION
from workers.storage.opener import open_storage
from workers.table.table import open_

PROJECT = Path(__file__).resolve().parents[2]


@dataclass
class SinkRun:
    """One launch of a sink with a process for each worker."""

    location: str
    options: Mapping[str, str]
    """Of the sink."""
    workers: int
    folder: Path
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _attempts: int = 0

    def __post_init__(self) -> None:
        storage = open_storage(self.location)
        epoch = read_epoch(storage, self.sink_id)
        clear_stop(storage, self.sink_id, requested_before_ms=int(time.time() * 1000))
        self._file = self.folder / f"launch-{self.run_id}.json"
        launch = {
            "location": self.location,
            "options": dict(self.options),
            "run_id": self.run_id,
            "workers": self.workers,
            "epoch_before": epoch.number if epoch else 0,
        }
        self._file.write_text(json.dumps(launch))

    @property
    def config(self) -> SinkConfig:
        return sink_config(self.options)

    @property
    def sink_id(self) -> str:
        return self.config.sink_id

    @property
    def log(self) -> Path:
        return self.folder / f"workers-{self.run_id}.log"

    def start(self, numbers: Sequence[int] | None = None) -> None:
        for number in range(self.workers) if numbers is None else numbers:
            self._attempts += 1
            words = [str(self._file), str(number), str(self._attempts)]
            with self.log.open("ab") as log:
                self.processes[number] = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.sink_run", *words],
                    cwd=PROJECT,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()

    def keep_up(self) -> None:
        """Start again what has died, as Spark does."""
        dead = [number for number, one in self.processes.items() if one.poll() is not None]
        self.start(dead)

    def stop(self, *, within_s: float = 60.0) -> None:
        """Gracefully; what does not end in time fails the test."""
        ask_to_stop(self.location, self.sink_id)
        deadline = time.monotonic() + within_s
        for number, process in self.processes.items():
            code = process.wait(max(0.1, deadline - time.monotonic()))
            assert code == 0, (number, self.log.read_text()[-3000:])

    def end(self) -> None:
        """Whatever still runs, at the end of a test."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def state(self) -> SinkState | None:
        return read_state(open_storage(self.location), self.sink_id)

    def await_offsets(self, offsets: Mapping[int, int], *, within_s: float = 60.0) -> None:
        """Until the table has them, starting again what has died."""
        deadline = time.monotonic() + within_s
        while not has_committed(self.location, self.sink_id, offsets):
            state_and_log = (self.state(), self.log.read_text()[-4000:])
            assert time.monotonic() < deadline, state_and_log
            self.keep_up()
            time.sleep(0.2)


def ask_to_stop(location: str, sink_id: str, kind: StopKind = StopKind.GRACEFUL) -> None:
    request = StopRequest(kind, "a test", int(time.time() * 1000))
    request_stop(open_storage(location), sink_id, request)


def has_committed(location: str, sink_id: str, offsets: Mapping[int, int]) -> bool:
    """Whether the table has come so far, as the coordinator shows it."""
    state = read_state(open_storage(location), sink_id)
    shown = {one.partition: one.table_offset or 0 for one in state.participants} if state else {}
    return all(shown.get(one, 0) >= at for one, at in offsets.items())


def records(first: int, count: int) -> list[tuple[bytes | None, bytes | None]]:
    numbers = range(first, first + count)
    return [(None, json.dumps({"id": n, "told": f"record {n}"}).encode()) for n in numbers]


def send(broker: Broker, topic: str, partition: int, first: int, count: int) -> None:
    produce(client(broker), topic, partition, records(first, count))


def say(
    broker: Broker, topic: str, partition: int, *values: bytes | None, key: bytes = b""
) -> None:
    produce(client(broker), topic, partition, [(key or None, one) for one in values])


def assert_each_offset_once(location: str, ends: Mapping[int, int]) -> pa.Table:
    """(partition, offset) to row is a bijection."""
    rows: pa.Table = open_table(location).read()
    positions = sorted(
        zip(rows.column(PARTITION).to_pylist(), rows.column(OFFSET).to_pylist(), strict=True)
    )
    wanted = [(one, offset) for one, end in sorted(ends.items()) for offset in range(end)]
    assert len(positions) == len(set(positions)), "an offset is there twice"
    assert positions == wanted, (
        len(positions),
        len(wanted),
        sorted(set(wanted) - set(positions))[:10],
    )
    return rows


def main(launch_file: str, number: str, attempt: str) -> None:
    order: dict[str, Any] = json.loads(Path(launch_file).read_text())
    launch = Launch(
        config=sink_config(order["options"]),
        run_id=order["run_id"],
        secret=b"a secret of the tests" + order["run_id"].encode(),
        workers=order["workers"],
        epoch_before=order["epoch_before"],
        options={},
        environment={},
    )
    table = open_(open_storage(order["location"]), system_ports())
    print(SinkWorker(table, launch, int(number), attempt).run(), flush=True)  # noqa: T201 # Its log.


if __name__ == "__main__":
    main(*sys.argv[1:])
