"""The set `sink_memory`: what a participant holds while records come in steadily, minute by minute.

One worker process per partition, so a process is a participant. What it holds at rest, after a
first small transaction, is taken off. Other work on the machine changes seconds, not this.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.engine import JobFailed, engine
from bench.lines import Goal, Line
from bench.sink import KEPT, records_of
from workers.clock import SystemClock
from workers.sink.config import sink_config
from workers.sink.kafka.broker import Broker, load_class_path
from workers.sink.kafka.client_config import QUEUE_BYTES_MAX, ClientSettings, connection_settings
from workers.sink.kafka.topics import Topics, produce

MINUTES: Final = 10
BUFFER_MB: Final = 64
_TOPIC: Final = "steady"
_PARTITIONS: Final = 2
_EACH_SECOND: Final = 6_000
"""Records of each partition: per transaction more than what it holds before it writes."""
_SIZE: Final = 130
_INTERVAL_S: Final = 30
_WARM: Final = 1_000


def sink_memory(folder: Path, minutes: int = MINUTES) -> Iterator[Line]:
    """Raises JobFailed where the sink does not keep up with the flow."""
    if minutes < 3:
        raise JobFailed("three minutes are the least: the second is compared with the last")
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder / "kafka", load_class_path(KEPT))
    broker.start()
    try:
        watched = _measured(folder, broker, minutes)
    finally:
        broker.stop()
    by_minute = watched["peak_mb"]
    peak, growth = max(by_minute[1:]), by_minute[-1] - by_minute[1]
    name = f"sink, memory of a participant above rest, buffer {BUFFER_MB} MB"
    bound = Goal(2 * BUFFER_MB, " MB", is_least=False)
    yield Line(name, "(a limit)", minutes * 60.0, None, peak, bound, watched)
    flat = Goal(
        QUEUE_BYTES_MAX >> 20, " MB", is_least=False
    )  # What was fetched ahead comes and goes.
    name = f"sink, growth of that from minute 2 to {minutes}"
    yield Line(name, "(a limit)", minutes * 60.0, None, growth, flat)


def _measured(folder: Path, broker: Broker, minutes: int) -> dict[str, Any]:
    config = sink_config({"hoodie.kafka.topic": _TOPIC, "bootstrap.servers": broker.bootstrap})
    settings = connection_settings(config, {})
    Topics(settings).create(_TOPIC, _PARTITIONS)
    _send(settings, 0, _WARM)
    with engine("sink", folder) as ours, _flowing(settings) as flows:
        where = {"folder": str(folder), "bootstrap": broker.bootstrap, "topic": _TOPIC}
        shape = {"partitions": _PARTITIONS, "interval_s": _INTERVAL_S}
        ours.do("rest", count=_WARM * _PARTITIONS, buffer_mb=BUFFER_MB, **shape, **where)
        flows.set()
        watched: dict[str, Any] = ours.do("watch", minutes=minutes).answer
    if watched["behind"] > 3 * _INTERVAL_S * _EACH_SECOND * _PARTITIONS:
        raise JobFailed(f"the sink does not keep up: {watched}")
    return watched


@contextmanager
def _flowing(settings: ClientSettings) -> Iterator[threading.Event]:
    """Records at an even pace in the background, once the event is set, until the block ends."""
    begins, ends = threading.Event(), threading.Event()

    def flow() -> None:
        begins.wait()
        clock, first = SystemClock(), _WARM
        while not ends.is_set():
            due = clock.monotonic_s() + 1.0
            _send(settings, first, _EACH_SECOND)
            first += _EACH_SECOND
            ends.wait(max(0.0, due - clock.monotonic_s()))

    with ThreadPoolExecutor(1, "flow") as pool:
        flowing = pool.submit(flow)
        try:
            yield begins
        finally:
            ends.set()
            begins.set()
        flowing.result()


def _send(settings: ClientSettings, first: int, count: int) -> None:
    for partition in range(_PARTITIONS):
        values = records_of(partition, count, _SIZE, first)
        produce(settings, _TOPIC, partition, ((None, one) for one in values))
