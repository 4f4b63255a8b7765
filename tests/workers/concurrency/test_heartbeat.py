"""Heartbeats: what they say, when they are too old, and what keeps them going."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clocks import ManualClock, MortalScheduler
from tests.support.watched_storage import At, ClockedStorage, fails
from workers.concurrency.heartbeat import (
    Heartbeat,
    HeartbeatContent,
    HeartbeatKeeper,
    heartbeat_path,
    read_heartbeat,
    read_heartbeats,
)
from workers.errors import StorageFailed, WriteOutcomeUnknown
from workers.options.write_options import write_options
from workers.ports import Ports, RandomIds
from workers.storage.local import LocalStorage
from workers.timeline import decisions
from workers.timeline.decisions import RollbackDecision

INSTANT = "20240101000000000"
INTERVAL_MS = 10_000
OPTIONS = {
    "hoodie.client.heartbeat.interval_in_ms": str(INTERVAL_MS),
    "sluice.operation.id": "op-1",
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(tmp_path: Path, clock: ManualClock) -> LocalStorage:
    return ClockedStorage(tmp_path / "table", clock)


def keeper(storage: LocalStorage, clock: ManualClock) -> HeartbeatKeeper:
    content = HeartbeatContent(write_options(OPTIONS), "w1", "upsert", "clicks")
    ports = Ports(clock, RandomIds(), MortalScheduler(clock))
    return HeartbeatKeeper(storage, ports, INSTANT, content)


def beat(storage: LocalStorage) -> Heartbeat:
    heartbeat = read_heartbeat(storage, INSTANT)
    assert heartbeat is not None
    return heartbeat


def test_heartbeat_says_who_writes_and_how_to_judge(
    storage: LocalStorage, clock: ManualClock
) -> None:
    beating = keeper(storage, clock)
    beating.start()

    said = beat(storage)
    beating.stop()

    assert (said.writer, said.stream, said.operation) == ("w1", "clicks", "upsert")
    assert (said.operation_id, said.mode) == ("op-1", "SINGLE_WRITER")
    assert (said.interval_ms, said.tolerable_misses, said.bound_ms) == (10_000, 2, 20_000)
    assert said.pid is not None
    assert said.host


def test_first_beat_is_there_when_starting_returns_and_later_ones_are_newer(
    storage: LocalStorage, clock: ManualClock
) -> None:
    beating = keeper(storage, clock)
    beating.start()
    first_ms = clock.now_ms()
    assert beat(storage).beat_ms == first_ms

    clock.advance(INTERVAL_MS - 1)
    assert beat(storage).beat_ms == first_ms
    clock.advance(1)
    assert beat(storage).beat_ms == first_ms + INTERVAL_MS

    beating.stop()
    clock.advance(3 * INTERVAL_MS)
    assert beat(storage).beat_ms == first_ms + INTERVAL_MS


def test_removed_heartbeat_is_gone(storage: LocalStorage, clock: ManualClock) -> None:
    beating = keeper(storage, clock)
    beating.start()

    beating.remove()
    clock.advance(3 * INTERVAL_MS)

    assert read_heartbeats(storage) == []


def test_age_counts_from_the_beat_and_the_bound_is_still_alive() -> None:
    said = Heartbeat(INSTANT, beat_ms=1_000, interval_ms=100, tolerable_misses=2)

    assert not said.is_expired(1_200)
    assert said.is_expired(1_201)
    assert not replace(said, tolerable_misses=3).is_expired(1_201)


def test_foreign_heartbeat_is_judged_by_hudis_bounds(storage: LocalStorage) -> None:
    storage.put(heartbeat_path(INSTANT), b"")

    said = beat(storage)

    assert (said.bound_ms, said.writer) == (120_000, None)


@pytest.mark.parametrize(
    "error",
    [
        StorageFailed("503"),
        OSError("disk"),
        WriteOutcomeUnknown("timeout"),
    ],
    ids=["failed", "system", "unknown"],
)
def test_beat_that_fails_is_tried_again(
    tmp_path: Path, clock: ManualClock, error: Exception
) -> None:
    """A timer that dies of one error declares a live writer dead (bug C1)."""
    failing = At("put", ".heartbeat", fails(error), times=0)
    storage = ClockedStorage(tmp_path / "table", clock, before=failing)
    beating = keeper(storage, clock)
    beating.start()
    first_ms = clock.now_ms()
    failing.times = 2

    clock.advance(2 * INTERVAL_MS)
    assert failing.hits == 2
    assert beat(storage).beat_ms == first_ms
    clock.advance(INTERVAL_MS)

    assert beat(storage).beat_ms == first_ms + 3 * INTERVAL_MS
    beating.stop()


def test_writer_whose_instant_was_decided_stops_beating_and_knows(
    storage: LocalStorage, clock: ManualClock
) -> None:
    beating = keeper(storage, clock)
    beating.start()
    first_ms = clock.now_ms()
    decisions.decide(storage, INSTANT, RollbackDecision(by="x", nonce="n", reason="test"))

    clock.advance(INTERVAL_MS)
    assert beating.is_fenced
    clock.advance(3 * INTERVAL_MS)

    assert beat(storage).beat_ms == first_ms
    beating.stop()
