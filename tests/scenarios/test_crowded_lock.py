"""What a begin and a commit ask of storage does not grow with the writers beside them."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import WatchedStorage
from workers.table_layout import LOCK

FEW, MANY = 12, 40


class Calls:
    """Of one writer, without the lock's, which hang on who else wants it, and the heartbeats."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __call__(self, call: str, path: str) -> None:
        if path != LOCK.path and ".heartbeat" not in path:
            self.counts[call] += 1


def a_row(writer: str, ts: int) -> Row:
    return {"id": writer, "place": "p", "ts": ts, "value": ts, "note": writer}


def calls_among(table: ScenarioTable, others: int, calls: Calls) -> Counter[str]:
    """Of a begin and a commit, while so many others are at work and commit meanwhile."""
    crowd = [table.writer(f"w{n}", mode="non-blocking") for n in range(others)]
    for writer in crowd:
        writer.upsert(a_row(writer.name, 1))
    storage = WatchedStorage(table.location, before=calls)
    mine = table.writer("mine", mode="non-blocking", storage=storage)
    beside = table.writer("beside", mode="non-blocking")
    calls.counts.clear()
    mine.upsert(a_row("mine", 1))
    beside.upsert(a_row("beside", 1))
    for writer in crowd[: others // 2]:
        writer.wins()
    beside.wins()  # A writer of the same process meets those first.
    mine.wins()
    call_counts = calls.counts.copy()
    for writer in crowd[others // 2 :]:
        writer.wins()
    return call_counts


def a_table(tables: ScenarioTables) -> ScenarioTable:
    buckets = {"hoodie.bucket.index.num.buckets": "2"}
    return tables(table_type="MERGE_ON_READ", schema=READINGS, ordering=["ts"], options=buckets)


@pytest.mark.slow
def test_begin_and_commit_ask_storage_as_often_among_many_as_among_few(
    tables: ScenarioTables,
) -> None:
    among_few = calls_among(a_table(tables), FEW, Calls())
    among_many = calls_among(a_table(tables), MANY, Calls())

    assert among_few["read"] > 0
    assert among_many == among_few
