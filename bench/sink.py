"""The set `sink`: records of a real Kafka to committed rows, per second of processor time.

Broker and sink share the machine, so seconds say little; what counts is the processor time of the
sink's processes (driver, JVM and Python workers), from its first transaction to the commit of the
last record. The peer reads the same topic by Structured Streaming into Apache Hudi.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench.engine import JobFailed, Measured, engine
from bench.lines import Goal, Line
from bench.peer import hudi_engine
from bench.workloads import HUDI
from workers.sink.config import sink_config
from workers.sink.kafka.broker import Broker, load_class_path
from workers.sink.kafka.client_config import connection_settings
from workers.sink.kafka.topics import Topics, produce

PARTITIONS: Final = 8
SMALL: Final = (2_000_000, 130)
LARGE: Final = (400_000, 1_000)
_WARM: Final = 40_000
KEPT: Final = Path(__file__).resolve().parents[1] / "var" / "peers" / "kafka"
_PEER: Final = f"Structured Streaming and {HUDI}"


def sink(folder: Path) -> Iterator[Line]:
    """Raises JobFailed where a side lacks a record or has one twice."""
    folder.mkdir(parents=True, exist_ok=True)
    broker = Broker(folder / "kafka", load_class_path(KEPT))
    broker.start()
    try:
        yield from _lines(folder, broker)
    finally:
        broker.stop()


def _lines(folder: Path, broker: Broker) -> Iterator[Line]:
    for name, (count, size) in (("small", SMALL), ("warm", (_WARM, SMALL[1])), ("large", LARGE)):
        _fill(broker, name, count, size)
    with engine("sink", folder) as ours:
        _consumed(ours, folder, broker, "warm", _WARM)
        small = _consumed(ours, folder, broker, "small", SMALL[0])
        large = _consumed(ours, folder, broker, "large", LARGE[0])
        recovered = ours.do("recover", folder=str(folder), bootstrap=broker.bootstrap)
    rate = SMALL[0] / small.cpu_s
    yield _of(f"sink, JSON of {SMALL[1]} bytes", small, rate / 1e3, Goal(100, " k records/s/core"))
    yield _of(
        f"sink, JSON of {LARGE[1]} bytes",
        large,
        LARGE[0] * LARGE[1] / large.cpu_s / 1e6,
        Goal(80, " MB/s/core"),
    )
    seconds = float(recovered.answer)
    goal = Goal(5, " s", is_least=False)
    yield Line("sink, death of the coordinator to the next START", "", seconds, None, seconds, goal)
    yield from _against_hudi(folder, broker, small, rate)


def _against_hudi(folder: Path, broker: Broker, small: Measured, rate: float) -> Iterator[Line]:
    with hudi_engine("hudi_stream", folder) as hudi:
        where = {"folder": str(folder), "bootstrap": broker.bootstrap}
        hudi.do("consume", topic="warm", **where)
        theirs = hudi.do("consume", topic="small", **where)
    if theirs.answer != SMALL[0]:
        raise JobFailed(f"the peer has {theirs.answer} records of {SMALL[0]}")
    ratio = rate / (SMALL[0] / theirs.cpu_s)
    details = {"ours": _spent(small), "peer": _spent(theirs)}
    name = f"sink, JSON of {SMALL[1]} bytes: records per second of processor time"
    yield Line(name, _PEER, small.seconds, theirs.seconds, ratio, Goal(3), details)


def _consumed(ours: Any, folder: Path, broker: Broker, topic: str, count: int) -> Measured:
    where = {"folder": str(folder), "bootstrap": broker.bootstrap}
    consumed = ours.do("consume", topic=topic, count=count, **where).answer
    if consumed["rows"] != count or consumed["distinct"] != count:
        raise JobFailed(f"the table has {consumed} of {count} records")
    return Measured(consumed["s"], consumed["cpu_s"], consumed)


def _of(name: str, measured: Measured, value: float, goal: Goal) -> Line:
    return Line(name, "", measured.seconds, None, value, goal, {"ours": _spent(measured)})


def _spent(measured: Measured) -> dict[str, Any]:
    more = measured.answer if isinstance(measured.answer, dict) else {}
    return {"cpu_s": round(measured.cpu_s, 2), "s": round(measured.seconds, 2), **more}


def _fill(broker: Broker, topic: str, count: int, size: int) -> None:
    config = sink_config({"hoodie.kafka.topic": topic, "bootstrap.servers": broker.bootstrap})
    settings = connection_settings(config, {})
    Topics(settings).create(topic, PARTITIONS)
    each = count // PARTITIONS
    for partition in range(PARTITIONS):
        produce(
            settings, topic, partition, ((None, one) for one in records_of(partition, each, size))
        )


def records_of(partition: int, count: int, size: int, first: int = 0) -> Iterator[bytes]:
    chance = np.random.default_rng((partition, count, first))
    amounts = np.round(chance.gamma(2.0, 30.0, count), 2).tolist()
    for number, amount in enumerate(amounts, first):
        row = {
            "id": partition * 10**9 + number,
            "at": 1_763_000_000_000 + number,
            "city": ("oslo", "rome", "lima", "bonn")[number % 4],
            "amount": amount,
            "note": "",
        }
        row["note"] = "x" * (size - len(json.dumps(row)))
        yield json.dumps(row).encode()
