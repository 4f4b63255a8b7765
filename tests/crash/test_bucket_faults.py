"""Fifteen ways in which S3 fails, at every request of an operation (reliability.md, L7).

Whatever happens: nothing acknowledged is lost, nothing is there twice, readers see the old or the
new rows, at most this one call is told of an error, and the next writer goes on without a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass

import pytest

from tests.crash.harness import COW, MOR, Kind, create_with_three_rows
from tests.crash.operations import COLUMNS, KEYS, SECOND, rows
from tests.support.crash_ports import StillClock, still_ports
from tests.support.simulated_bucket import KINDS, SimulatedBucket, Stored
from workers.concurrency.outcome import Committed
from workers.errors import LakehouseError
from workers.lakehouse import LakehouseTable, open_table, write_arrow
from workers.write.request import WriteRequest

Write = Callable[[LakehouseTable, Mapping[str, str]], object]
WRITES: dict[str, Write] = {
    "upsert": lambda table, options: write_arrow(
        table.table, SECOND, WriteRequest("upsert"), options
    ),
    "delete": lambda table, options: table.delete(KEYS, options=options),
}
REFUSALS = ("expired", "skewed")
AFTERWARDS = rows(("z", 9, "Accra", "p"))
DEAD_AFTER_MS = 600_000
STALE = ("stale-list", "stale-get")
Rows = list[tuple[object, ...]]


@dataclass(frozen=True)
class Start:
    stored: dict[str, Stored]
    now_ms: int


def start_of(kind: Kind) -> Start:
    clock = StillClock()
    bucket = SimulatedBucket(clock)
    create_with_three_rows(kind, bucket.storage(), still_ports(clock, prefix="a"))
    return Start(bucket.stored, clock.now_ms())


def opened(bucket: SimulatedBucket, prefix: str) -> LakehouseTable:
    storage = bucket.storage()
    return open_table(
        storage.location, ports=still_ports(bucket.clock, prefix=prefix), storage=storage
    )


def of_start(start: Start, *, kind: str = "", at: int = 0) -> SimulatedBucket:
    return SimulatedBucket(StillClock(start.now_ms), deepcopy(start.stored), kind, at)


def rows_in(bucket: SimulatedBucket) -> Rows:
    found = opened(bucket, "read").read().to_pylist()
    return sorted(tuple(row[name] for name in COLUMNS) for row in found)


def run(bucket: SimulatedBucket, kind: Kind, write: Write) -> tuple[object, str]:
    """The outcome, or what was raised."""
    try:
        return write(opened(bucket, "x"), kind.options), ""
    except LakehouseError as error:
        return None, type(error).__name__


def assert_went_on(bucket: SimulatedBucket, kind: Kind, allowed: tuple[Rows, ...]) -> None:
    assert rows_in(bucket) in allowed
    bucket.clock.sleep(DEAD_AFTER_MS / 1000)
    done = write_arrow(
        opened(bucket, "next").table, AFTERWARDS, WriteRequest("upsert"), kind.options
    )
    assert isinstance(done, Committed)
    added = [tuple(row[name] for name in COLUMNS) for row in AFTERWARDS.to_pylist()]
    assert rows_in(bucket) in [sorted([*listed, *added]) for listed in allowed]
    left = [path for path in bucket.stored if path.startswith((".hoodie/.temp/", ".hoodie/.heart"))]
    assert left == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("table", [COW, MOR], ids=lambda one: one.name)
def test_some_requests_fail_and_nothing_is_lost(table: Kind, name: str, kind: str) -> None:
    """Every sixth, beginning with another one for each kind of fault."""
    assert_nothing_is_lost(table, WRITES[name], kind, every=6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("table", [COW, MOR], ids=lambda one: one.name)
def test_whatever_request_fails_nothing_is_lost(table: Kind, name: str, kind: str) -> None:
    assert_nothing_is_lost(table, WRITES[name], kind, every=1)


def assert_nothing_is_lost(table: Kind, write: Write, kind: str, *, every: int) -> None:
    start = start_of(table)
    old = rows_in(of_start(start))
    calm = of_start(start)
    assert isinstance(run(calm, table, write)[0], Committed)
    new, requests = rows_in(calm), len(calm.operations)
    assert new != old
    told: Counter[str] = Counter()

    for at in range(1 + KINDS.index(kind) % every, requests + 1, every):
        bucket = of_start(start, kind=kind, at=at)
        outcome, error = run(bucket, table, write)
        bucket.kind = ""
        told[error or type(outcome).__name__] += 1
        try:
            is_known = isinstance(outcome, Committed)
            assert_went_on(bucket, table, (new,) if is_known else (old, new))
        except (AssertionError, LakehouseError) as failed:
            where = f"{kind} at request {at}, {bucket.operations[at - 1]}: {error or outcome}"
            raise AssertionError(where) from failed

    # What is no refusal of rights and no lie is absorbed by asking again.
    assert set(told) == {"Committed"} or kind in (*REFUSALS, *STALE), told
