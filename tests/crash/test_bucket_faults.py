"""Fifteen ways in which S3 fails, at every request of an operation (reliability.md, L7).

Whatever happens: nothing acknowledged is lost, nothing is there twice, readers see the old or the
new rows, at most this one call is told of an error, and the next writer and the next run of each
service go on without a person.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass

import pytest

from tests.crash.harness import COW, MOR, Kind, create_with_three_rows, recover
from tests.crash.operations import COLUMNS, OPERATIONS, Operation, rows
from tests.support.crash_ports import StillClock, still_ports
from tests.support.simulated_bucket import KINDS, SimulatedBucket, Stored
from workers.concurrency.outcome import Committed
from workers.errors import LakehouseError
from workers.lakehouse import LakehouseTable, open_table, write_arrow
from workers.write.request import WriteRequest

WRITES = ("upsert", "delete")
TRIALS = [
    (kind, operation)
    for operation in OPERATIONS
    for kind in (COW, MOR)
    if operation.runs_on(kind.name)
]
REFUSALS = ("expired", "skewed")
AFTERWARDS = rows(("z", 9, "Accra", "p"))
DEAD_AFTER_MS = 600_000
STALE = ("stale-list", "stale-get")
Rows = list[tuple[object, ...]]


@dataclass(frozen=True)
class Start:
    stored: dict[str, Stored]
    now_ms: int


def start_of(kind: Kind, operation: Operation) -> Start:
    clock = StillClock()
    bucket = SimulatedBucket(clock)
    create_with_three_rows(kind, bucket.storage(), still_ports(clock, prefix="a"))
    for number, needed in enumerate(operation.needs):
        if needed.runs_on(kind.name):
            clock.sleep(1)
            needed.run(opened(bucket, f"setup{number}-"), kind.options)
    clock.sleep(1)
    return Start(bucket.stored, clock.now_ms())


def opened(bucket: SimulatedBucket, prefix: str) -> LakehouseTable:
    storage = bucket.storage()
    return open_table(
        storage.location, ports=still_ports(bucket.clock, prefix=prefix), storage=storage
    )


def of_start(start: Start, *, kind: str = "", at: int = 0) -> SimulatedBucket:
    return SimulatedBucket(StillClock(start.now_ms), deepcopy(start.stored), kind, at)


def rows_in(bucket: SimulatedBucket) -> Rows:
    snapshot = opened(bucket, "read").read().to_pylist()
    return sorted(tuple(row[name] for name in COLUMNS) for row in snapshot)


def run(bucket: SimulatedBucket, kind: Kind, operation: Operation) -> str:
    """What was raised, or the outcome that is no commit; empty where all went well."""
    try:
        outcome = operation.run(opened(bucket, "x"), kind.options)
    except LakehouseError as error:
        return type(error).__name__
    return "" if outcome is None or isinstance(outcome, Committed) else type(outcome).__name__


def assert_went_on(
    bucket: SimulatedBucket, kind: Kind, operation: Operation, allowed: tuple[Rows, ...]
) -> None:
    if not operation.takes_back:
        assert rows_in(bucket) in allowed
    bucket.clock.sleep(DEAD_AFTER_MS / 1000)
    if operation.takes_back:  # A restore that has begun keeps writers out until it is run again.
        recover(opened(bucket, "before"), kind)
        assert rows_in(bucket) in allowed
    done = write_arrow(
        opened(bucket, "next").table, AFTERWARDS, WriteRequest("upsert"), kind.options
    )
    assert isinstance(done, Committed)
    recover(opened(bucket, "again"), kind)
    added = [tuple(row[name] for name in COLUMNS) for row in AFTERWARDS.to_pylist()]
    assert rows_in(bucket) in [sorted([*listed, *added]) for listed in allowed]
    left = [path for path in bucket.stored if path.startswith((".hoodie/.temp/", ".hoodie/.heart"))]
    assert left == []
    assert list(opened(bucket, "check").table.timeline().pending()) == []


@pytest.mark.sampled(every=30)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("table", "operation"), TRIALS, ids=[f"{one.name}-{kind.name}" for kind, one in TRIALS]
)
def test_some_requests_fail_and_nothing_is_lost(
    table: Kind, operation: Operation, kind: str
) -> None:
    """Of writes every sixth, beginning with another one for each kind of fault."""
    every = 6 if operation.name in WRITES else 60
    assert_nothing_is_lost(table, operation, kind, every=every)


@pytest.mark.slow
@pytest.mark.sampled(every=6)  # A third of the faults for each operation.
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("table", "operation"), TRIALS, ids=[f"{one.name}-{kind.name}" for kind, one in TRIALS]
)
def test_whatever_request_fails_nothing_is_lost(
    table: Kind, operation: Operation, kind: str
) -> None:
    every = 1 if operation.name in WRITES else 6
    assert_nothing_is_lost(table, operation, kind, every=every)


def assert_nothing_is_lost(table: Kind, operation: Operation, kind: str, *, every: int) -> None:
    start = start_of(table, operation)
    old = rows_in(of_start(start))
    calm = of_start(start)
    assert not run(calm, table, operation)
    new, requests = rows_in(calm), len(calm.operations)
    assert (new == old) == operation.keeps_rows
    errors: Counter[str] = Counter()

    for at in range(1 + KINDS.index(kind) % every, requests + 1, every):
        bucket = of_start(start, kind=kind, at=at)
        error = run(bucket, table, operation)
        bucket.kind = ""
        errors[error] += 1
        try:
            assert_went_on(bucket, table, operation, (old, new) if error else (new,))
        except (AssertionError, LakehouseError) as failed:
            where = f"{kind} at request {at}, {bucket.operations[at - 1]}: {error or 'done'}"
            raise AssertionError(where) from failed

    # What is no refusal of rights and no lie is absorbed by asking again.
    assert set(errors) == {""} or kind in (*REFUSALS, *STALE), errors
