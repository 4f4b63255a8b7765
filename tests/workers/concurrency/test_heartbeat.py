"""Heartbeats: what they say, when they are too old, and what keeps them going."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clocks import MortalScheduler
from tests.support.watched_storage import At, WatchedStorage, fails
from workers.clock import SystemClock
from workers.concurrency.heartbeat import (
    Heartbeat,
    HeartbeatContent,
    HeartbeatKeeper,
    path_of,
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
QUICK = {"hoodie.client.heartbeat.interval_in_ms": "100", "sluice.operation.id": "op-1"}


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


def keeper(storage: LocalStorage) -> HeartbeatKeeper:
    content = HeartbeatContent(write_options(QUICK), "w1", "upsert", "clicks")
    ports = Ports(SystemClock(), RandomIds(), MortalScheduler())
    return HeartbeatKeeper(storage, ports, INSTANT, content)


def beat(storage: LocalStorage) -> Heartbeat:
    heartbeat = read_heartbeat(storage, INSTANT)
    assert heartbeat is not None
    return heartbeat


def test_heartbeat_says_who_writes_and_how_to_judge(storage: LocalStorage) -> None:
    beating = keeper(storage)
    beating.start()

    said = beat(storage)
    beating.stop()

    assert (said.writer, said.stream, said.operation) == ("w1", "clicks", "upsert")
    assert (said.operation_id, said.mode) == ("op-1", "SINGLE_WRITER")
    assert (said.interval_ms, said.tolerable_misses, said.bound_ms) == (100, 2, 200)
    assert said.pid is not None
    assert said.host


def test_first_beat_is_there_when_starting_returns_and_later_ones_are_newer(
    storage: LocalStorage,
) -> None:
    beating = keeper(storage)
    beating.start()
    first = beat(storage).beat_ms

    await_true(lambda: beat(storage).beat_ms > first)

    beating.stop()
    last = beat(storage).beat_ms
    time.sleep(0.25)
    assert beat(storage).beat_ms == last


def test_removed_heartbeat_is_gone(storage: LocalStorage) -> None:
    beating = keeper(storage)
    beating.start()

    beating.remove()

    assert read_heartbeats(storage) == []


def test_age_counts_from_the_beat_and_the_bound_is_still_alive() -> None:
    said = Heartbeat(INSTANT, beat_ms=1_000, interval_ms=100, tolerable_misses=2)

    assert not said.is_expired(1_200)
    assert said.is_expired(1_201)
    assert not replace(said, tolerable_misses=3).is_expired(1_201)


def test_foreign_heartbeat_is_judged_by_hudis_bounds(storage: LocalStorage) -> None:
    storage.put(path_of(INSTANT), b"")

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
def test_beat_that_fails_is_tried_again(tmp_path: Path, error: Exception) -> None:
    """A timer that dies of one error declares a live writer dead (bug C1)."""
    failing = At("put", ".heartbeat", fails(error), times=0)
    storage = WatchedStorage(tmp_path / "table", before=failing)
    beating = keeper(storage)
    beating.start()
    failing.times = 2
    await_true(lambda: failing.hits >= 1)
    failed_at = beat(storage).beat_ms

    try:
        await_true(lambda: beat(storage).beat_ms > failed_at, patience_s=3)
    finally:
        beating.stop()


def test_writer_whose_instant_was_decided_stops_beating_and_knows(storage: LocalStorage) -> None:
    beating = keeper(storage)
    beating.start()
    decisions.decide(storage, INSTANT, RollbackDecision(by="x", nonce="n", reason="test"))

    await_true(lambda: beating.is_fenced)

    last = beat(storage).beat_ms
    time.sleep(0.25)
    assert beat(storage).beat_ms == last
    beating.stop()


def await_true(is_true: Callable[[], bool], *, patience_s: float = 10) -> None:
    deadline = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
