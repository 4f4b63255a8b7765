"""Two writers bring a deleted key again at the same time, while logs still remember it. Each finds
its old place, or none, and the key must not end in two.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.scenarios.services import run
from tests.scenarios.test_deletes_beside_inserts import OPTIMISTIC, Beside, run_delete
from tests.scenarios.test_inserted_keys import (
    ALONE,
    GLOBAL,
    LOCAL,
    NEW_FILES,
    every_kind,
    row,
    rows_of,
    table_maker,
)
from tests.support.scenario_table import ScenarioTable
from tests.support.watched_storage import At, WatchedStorage
from workers.concurrency.conflicts import write_set
from workers.concurrency.inserted_keys import InsertedKeys
from workers.concurrency.outcome import Committed
from workers.errors import PlanChanged
from workers.lakehouse import open_table
from workers.timeline.metadata import WRITER_KEY, commit_metadata

every_global = pytest.mark.parametrize("index", GLOBAL)
EVERY_INDEX = LOCAL + GLOBAL
make = pytest.fixture(table_maker)


def delete(table: ScenarioTable, key: str, *places: str) -> None:
    named = [row(key, 0, place) for place in places]
    outcome = table.lakehouse.delete(table.batch(named).select(["id", "place"]))
    assert isinstance(outcome, Committed), outcome


def with_deleted_key(make: Any, index: str, kind: str = "MERGE_ON_READ") -> ScenarioTable:
    """Return a table in which `a` was deleted in oslo, with `b` in oslo and `c` in rome."""
    table: ScenarioTable = make(index, kind)
    table.writer("setup").upsert_and_commit(row("a", 0), row("b", 0), row("c", 0, "rome"))
    delete(table, "a", "oslo")
    return table


@pytest.mark.sampled(every=2)
@every_kind
@every_global
@pytest.mark.parametrize("place", ["oslo", "rome"], ids=["log is second", "log is first"])
def test_a_deleted_key_that_two_bring_again_stands_once(
    make: Any, kind: str, index: str, place: str
) -> None:
    table = with_deleted_key(make, index, kind)
    other = "rome" if place == "oslo" else "oslo"
    slow, fast = table.writer("slow", options=NEW_FILES), table.writer("fast", options=NEW_FILES)
    slow.upsert(row("a", 1, place, ts=9), row("d", 1, place))
    fast.upsert_and_commit(row("a", 2, other, ts=9))

    conflict = slow.loses()

    assert (conflict.kind, conflict.rule) == ("write", "inserted_twice")
    assert (conflict.keys, conflict.rival_writer) == (("a",), "fast")
    assert conflict.message == "1 new key(s) were inserted by another writer first"
    assert rows_of(table) == {(other, "a"): 2, ("oslo", "b"): 0, ("rome", "c"): 0}
    assert table.orphan_files() == []


@pytest.mark.sampled(every=2)
@every_global
def test_a_key_with_deleted_rows_in_two_partitions_comes_back_in_one(make: Any, index: str) -> None:
    table = with_deleted_key(make, index)
    table.writer("setup").upsert_and_commit(row("a", 0, "rome", ts=2))
    delete(table, "a", "rome")
    slow, fast = table.writer("slow"), table.writer("fast")
    slow.upsert(row("a", 1, "oslo", ts=9))
    fast.upsert_and_commit(row("a", 2, "rome", ts=9))
    logs = [status.stat for writer in (slow, fast) for status in writer.written]
    assert [(log.is_log, log.num_inserts, log.num_updates) for log in logs] == [(True, 1, 0)] * 2

    conflict = slow.loses()

    assert (conflict.rule, conflict.keys) == ("inserted_twice", ("a",))
    assert rows_of(table)[("rome", "a")] == 2


@pytest.mark.parametrize("writer", [None, "fast"], ids=["of another engine", "of Sluice"])
def test_a_log_of_another_engine_may_bring_keys_back_that_it_counts_as_updates(
    make: Any, writer: str | None
) -> None:
    table = with_deleted_key(make, "GLOBAL_SIMPLE")
    slow, fast = table.writer("slow", options=NEW_FILES), table.writer("fast")
    slow.upsert(row("a", 1, "rome", ts=9))
    fast.upsert(row("a", 2, ts=9))
    stats = [
        [replace(status.stat, num_inserts=inserts) for status in some.written]
        for some, inserts in ((slow, 1), (fast, 0))
    ]
    extra = {} if writer is None else {WRITER_KEY: writer}
    commits = [commit_metadata(some, extra=extra, operation_type="UPSERT") for some in stats]
    ours, theirs = (
        write_set(writer.last_instant, commits[0], writer.name) for writer in (slow, fast)
    )

    conflict = InsertedKeys(table.table, slow.last_instant, commits[0]).find_conflict(
        ours, theirs, commits[1]
    )

    assert (conflict.keys if conflict else None) == (("a",) if writer is None else None)
    slow.abort()
    fast.abort()


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("index", EVERY_INDEX)
@pytest.mark.parametrize("is_second", [True, False], ids=["log is second", "log is first"])
def test_a_compaction_between_them_does_not_hide_the_key(
    make: Any, index: str, is_second: bool
) -> None:
    """It forgets where the key was, so the later writer puts it into a file group of its own."""
    table = with_deleted_key(make, index)
    old = table.writer("old", options=NEW_FILES)
    old.upsert(row("a", 1, ts=9))
    run(table, "compaction")
    new = table.writer("new", options=NEW_FILES)
    new.upsert(row("a", 2, ts=9))
    first, second = (new, old) if is_second else (old, new)
    first.wins()

    conflict = second.loses()

    assert (conflict.rule, conflict.keys) == ("inserted_twice", ("a",))
    assert rows_of(table)[("oslo", "a")] == (2 if is_second else 1)


@pytest.mark.sampled(every=2)
@every_global
@pytest.mark.parametrize("columns", [["id"], ["id", "place"]], ids=["anywhere", "in oslo"])
def test_a_delete_looks_again_for_a_key_that_came_back(
    make: Any, index: str, columns: list[str]
) -> None:
    table = with_deleted_key(make, index)
    table.writer("setup").upsert_and_commit(row("a", 0, "rome", ts=2))
    delete(table, "a", "rome")
    keys = table.batch([row("a", 0)]).select(columns)
    slow = table.writer("slow").begin(keys.schema, "delete")
    slow.write_batch(keys)
    table.writer("fast").upsert_and_commit(row("a", 2, "rome", ts=9))

    conflict = slow.loses()

    assert (conflict.rule, conflict.keys) == ("deleted_unseen", ("a",))
    assert rows_of(table)[("rome", "a")] == 2


@pytest.mark.sampled(every=2)
@every_global
def test_the_delete_service_looks_again_for_a_key_that_came_back(
    make: Any, monkeypatch: pytest.MonkeyPatch, index: str
) -> None:
    table = with_deleted_key(make, index)
    table.writer("setup").upsert_and_commit(row("a", 0, "rome", ts=2))
    delete(table, "a", "rome")
    fast = table.writer("fast")
    Beside(monkeypatch)(lambda: fast.upsert_and_commit(row("a", 2, "rome", ts=9)))

    with pytest.raises(PlanChanged):
        run_delete(table, '["a", "b"]', OPTIMISTIC)

    assert rows_of(table)[("rome", "a")] == 2


@pytest.mark.sampled(every=2)
@every_global
def test_the_loser_tries_again_and_moves_the_row_that_came_back(make: Any, index: str) -> None:
    table = with_deleted_key(make, index)
    fast = table.writer("fast", options=NEW_FILES)

    def commit_beside() -> None:
        fast.upsert_and_commit(row("a", 1, "rome", ts=8))

    beside = At("create_data", ".log", commit_beside)
    slow = open_table(table.location, storage=WatchedStorage(table.location, before=beside))
    retries = {"hoodie.write.num.retries.on.conflict.failures": "1"}

    outcome = slow.write(table.batch([row("a", 2, ts=9)]), options=ALONE | NEW_FILES | retries)

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 2
    assert rows_of(table) == {("oslo", "a"): 2, ("oslo", "b"): 0, ("rome", "c"): 0}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("index", EVERY_INDEX)
def test_writers_that_bring_different_keys_again_both_commit(make: Any, index: str) -> None:
    table = with_deleted_key(make, index)
    delete(table, "c", "rome")
    slow, fast = table.writer("slow", options=NEW_FILES), table.writer("fast", options=NEW_FILES)
    slow.upsert(row("a", 1, ts=9), row("b", 1, ts=9))
    fast.upsert_and_commit(row("c", 2, "rome", ts=9), row("d", 2, "rome"))

    slow.wins()

    came = {("oslo", "a"): 1, ("oslo", "b"): 1, ("rome", "c"): 2, ("rome", "d"): 2}
    assert rows_of(table) == came


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("index", EVERY_INDEX)
def test_logs_that_bring_no_key_back_are_not_read(make: Any, index: str) -> None:
    table = with_deleted_key(make, index)
    opened: list[str] = []
    storage = WatchedStorage(
        table.location, before=lambda call, path: opened.append(path) if "open" in call else None
    )
    slow = table.writer("slow", options=NEW_FILES, storage=storage)
    slow.upsert(row("a", 1, ts=9), row("d", 1))
    fast = table.writer("fast")
    fast.upsert_and_commit(row("c", 2, "rome", ts=9))

    slow.wins()

    assert not {status.stat.path for status in fast.written} & set(opened)
