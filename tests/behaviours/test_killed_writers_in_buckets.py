"""Real processes write into one bucket and are killed: what they were told of stays, and once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from bench.support.s3_server import shared_server
from tests.behaviours.bucket_tables import (
    COW,
    MOR,
    NON_BLOCKING,
    OPTIMISTIC,
    MakeTable,
    assert_agreed,
)
from tests.support.expiry import await_expiry
from workers.lakehouse import LakehouseTable, open_table

_ROOT = Path(__file__).resolve().parents[2]
_KILLS = 6
_WRITERS = 3
_SOON = {
    "hoodie.client.heartbeat.interval_in_ms": "5000",
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
    "hoodie.write.num.retries.on.conflict.failures": "50",
}
_COMMITS_OF_EACH = 3
_WAIT_MAX_S = 120.0


@dataclass
class Writer:
    """One name, and the processes that write under it one after the other."""

    location: str
    name: str
    options: dict[str, str]
    acknowledged: list[str] = field(default_factory=list)
    first: int = 0
    process: subprocess.Popen[str] = field(init=False)

    def start(self) -> None:
        order = {
            "location": self.location,
            "name": self.name,
            "first": self.first,
            "options": self.options,
        }
        # Its environment is ours: the server's address and credentials are there.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.told_writer", json.dumps(order)],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def end(self) -> None:
        """By SIGKILL, and hear what it had said."""
        self.process.kill()
        out, _ = self.process.communicate()
        self.acknowledged += out.split()
        self.first += 1000  # No key of the next process was ever tried.


@contextmanager
def _writing(location: str, options: dict[str, str]) -> Iterator[list[Writer]]:
    writers = [Writer(location, f"{one}w", options) for one in "abc"[:_WRITERS]]
    try:
        for writer in writers:
            writer.start()
        yield writers
    finally:
        for writer in writers:
            writer.end()


def _commits(table: LakehouseTable) -> int:
    return len(table.table.timeline().list_completed_writes())


def _await_commits(location: str, least: int) -> None:
    table = open_table(location)
    deadline = time.monotonic() + _WAIT_MAX_S
    while _commits(table) < least:
        assert time.monotonic() < deadline, f"{_commits(table)} commits of {least}"
        time.sleep(0.2)


@pytest.mark.sampled(every=3)
@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("table_type", "mode"),
    [(COW, OPTIMISTIC), (MOR, OPTIMISTIC), (MOR, NON_BLOCKING)],
    ids=["cow-optimistic", "mor-optimistic", "mor-non-blocking"],
)
def test_what_was_told_is_there_once_whoever_is_killed(
    make: MakeTable, table_type: str, mode: dict[str, str]
) -> None:
    table = make(table_type)
    chance = random.Random(f"{table_type}{mode}")

    with _writing(table.location, mode | _SOON) as writers:
        for kill in range(_KILLS):
            _await_commits(table.location, _COMMITS_OF_EACH * (kill + 1))
            time.sleep(chance.uniform(0, 0.5))
            victim = chance.choice(writers)
            victim.end()
            victim.start()
    acknowledged = [key for one in writers for key in one.acknowledged]
    assert len(acknowledged) >= _KILLS

    last = pa.table({"id": ["z"], "ts": pa.array([1], pa.int64()), "city": ["z"], "day": ["d"]})
    await_expiry(open_table(table.location).table.storage)
    table.write(last, options=mode | _SOON)
    rows_of_key = Counter(open_table(table.location).read()["id"].to_pylist())
    assert set(rows_of_key.values()) == {1}
    assert set(acknowledged) <= set(rows_of_key)
    assert list(open_table(table.location).table.timeline().pending()) == []
    assert_agreed(table)
    assert shared_server().order()["counts"]["put_if_absent"] > 0
