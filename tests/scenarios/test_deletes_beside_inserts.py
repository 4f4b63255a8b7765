"""A delete by key looks for a key that is not there yet; it is inserted and committed before the
delete commits. Whatever stands under its keys then is what a delete takes: so it has to look again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from workers import failpoints
from workers.concurrency.conflicts import Conflict, write_set
from workers.concurrency.outcome import Committed, Conflicted
from workers.concurrency.read_keys import ReadKeys, ReadKeysCheck
from workers.errors import PlanChanged
from workers.files.base_keys import SortedKeys
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.spark.placement import stage_prepared
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceOutcome, ServiceRequest
from workers.timeline.metadata import WriteStat, commit_metadata
from workers.write.prepare import prepare
from workers.write.read_set import collect_read_keys

INDEXES = ("BUCKET", "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM")
KINDS = list(itertools.product(("COPY_ON_WRITE", "MERGE_ON_READ"), INDEXES))
every_kind = pytest.mark.parametrize(("table_type", "index"), KINDS)
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
OPTIMISTIC = {
    "hoodie.write.markers.type": "direct",
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "sluice.writer.name": "slow",
}
NON_BLOCKING = OPTIMISTIC | {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
RETRIES = {"hoodie.write.num.retries.on.conflict.failures": "1"}


@pytest.fixture
def made(tables: ScenarioTables) -> Any:
    def make(table_type: str, index: str, buckets: int = 1) -> ScenarioTable:
        options = {"hoodie.index.type": index}
        if index == "BUCKET":
            options["hoodie.bucket.index.num.buckets"] = str(buckets)
        return tables(
            table_type=table_type,
            schema=READINGS,
            ordering=["ts"],
            partition_by=["place"],
            options=options,
        )

    return make


def row(key: str, place: str = "oslo", ts: int = 5) -> Row:
    return {"id": key, "place": place, "ts": ts, "value": 1, "note": None}


def keys(*named: str, place: str = "oslo") -> pa.Table:
    return pa.table({"id": list(named), "place": [place] * len(named)})


class Beside:
    """What happens when a writer has written its files, before it validates its commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, effect: Callable[[], Any]) -> None:
        effects = [effect]

        def reach(point: str, *, writer: str | None = None) -> None:
            if point == "after_data" and writer == "slow" and effects:
                effects.pop()()

        self._patch.setattr(failpoints, "hit_failpoint", reach)


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    return Beside(monkeypatch)


def lost(outcome: Any) -> Conflict:
    assert isinstance(outcome, Conflicted), outcome
    return outcome.conflict


@pytest.mark.sampled(every=2)
@every_kind
@pytest.mark.parametrize("is_empty", [True, False], ids=["into an empty table", "beside a row"])
def test_a_key_that_came_before_its_delete_commits_is_a_conflict(
    made: Any, beside: Beside, table_type: str, index: str, is_empty: bool
) -> None:
    table = made(table_type, index)
    if not is_empty:
        table.writer("setup").upsert_and_commit(row("a"))
    fast = table.writer("fast", options=NEW_FILES)
    beside(lambda: fast.upsert_and_commit(row("n"), row("m")))

    conflict = lost(table.lakehouse.delete(keys("n", "gone"), options=OPTIMISTIC))

    assert (conflict.kind, conflict.rival_writer) == ("write", "fast")
    if conflict.rule != "overlapping_file_groups":  # A log of deletes is in the standing group.
        assert (conflict.rule, conflict.keys, conflict.key_count) == ("deleted_unseen", ("n",), 1)
        assert conflict.message == "1 key(s) to delete were inserted by another writer first"
    assert {one["id"] for one in table.rows()} == {"n", "m"} | (set() if is_empty else {"a"})
    assert table.orphan_files() == table.leftovers() == []


@pytest.mark.sampled(every=2)
@every_kind
def test_tried_again_the_delete_takes_the_row_that_came(
    made: Any, beside: Beside, table_type: str, index: str
) -> None:
    table = made(table_type, index)
    table.writer("setup").upsert_and_commit(row("a"))
    beside(lambda: table.writer("fast").upsert_and_commit(row("n"), row("m")))

    outcome = table.lakehouse.delete(keys("n"), options=OPTIMISTIC | RETRIES)

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 2
    assert [one["id"] for one in table.rows()] == ["a", "m"]


@pytest.mark.sampled(every=2)
@every_kind
def test_other_keys_that_came_are_no_conflict(
    made: Any, beside: Beside, table_type: str, index: str
) -> None:
    table = made(table_type, index)
    beside(lambda: table.writer("fast").upsert_and_commit(row("m"), row("n", place="rome")))
    is_anywhere = index.startswith("GLOBAL")

    outcome = table.lakehouse.delete(keys("o" if is_anywhere else "n"), options=OPTIMISTIC)

    assert isinstance(outcome, Committed)
    assert [one["id"] for one in table.rows()] == ["m", "n"]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_under_a_global_index_the_key_may_come_anywhere(
    made: Any, beside: Beside, table_type: str, index: str
) -> None:
    table = made(table_type, index)
    beside(lambda: table.writer("fast").upsert_and_commit(row("n", place="rome")))

    conflict = lost(table.lakehouse.delete(keys("n").select(["id"]), options=OPTIMISTIC))

    assert (conflict.rule, conflict.keys) == ("deleted_unseen", ("n",))
    assert [partition for partition, _ in conflict.file_groups] == ["rome"]


@pytest.mark.parametrize("mode", ["optimistic", "non-blocking"])
def test_a_delete_that_only_appends_looks_again_where_a_bucket_began_meanwhile(
    made: Any, beside: Beside, mode: str
) -> None:
    """There was no file group to append to."""
    table = made("MERGE_ON_READ", "BUCKET")
    beside(lambda: table.writer("fast", mode=mode).upsert_and_commit(row("n"), row("m")))

    outcome = table.lakehouse.delete(keys("n"), options=NON_BLOCKING | RETRIES)

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 2
    assert [one["id"] for one in table.rows()] == ["m"]


def test_a_delete_that_appends_to_a_standing_file_group_never_conflicts(
    made: Any, beside: Beside
) -> None:
    table = made("MERGE_ON_READ", "BUCKET")
    table.writer("setup").upsert_and_commit(row("a"))
    beside(lambda: table.writer("fast", mode="non-blocking").upsert_and_commit(row("m")))

    assert isinstance(table.lakehouse.delete(keys("n", "m"), options=NON_BLOCKING), Committed)
    assert [one["id"] for one in open_table(table.location).read().to_pylist()] == ["a"]
    table.excuse_referee("hudi-rs merges by request, where the delete came before the row")


def test_a_log_that_began_its_bucket_meanwhile_is_looked_into(made: Any, beside: Beside) -> None:
    table = made("MERGE_ON_READ", "BUCKET")

    def logs() -> None:
        for key in ("m", "n"):
            table.writer(f"log of {key}", mode="non-blocking").upsert_and_commit(row(key))

    beside(logs)
    conflict = lost(table.lakehouse.delete(keys("n"), options=OPTIMISTIC))

    assert (conflict.rule, conflict.keys) == ("deleted_unseen", ("n",))
    assert conflict.rival_writer == "log of n"


@pytest.mark.parametrize(("table_type", "index"), [one for one in KINDS if one[1] != "BUCKET"])
def test_a_row_that_says_that_it_is_deleted_is_looked_for_again_as_well(
    made: Any, beside: Beside, table_type: str, index: str
) -> None:
    table = made(table_type, index)
    table.writer("setup").upsert_and_commit(row("a"))
    beside(lambda: table.writer("fast", options=NEW_FILES).upsert_and_commit(row("n", ts=5)))
    marked = table.batch([row("n", ts=6) | {"_hoodie_is_deleted": True}, row("b")])

    conflict = lost(table.lakehouse.write(marked, options=OPTIMISTIC | NEW_FILES))

    assert (conflict.rule, conflict.keys) == ("deleted_unseen", ("n",))
    assert isinstance(table.lakehouse.write(marked, options=OPTIMISTIC), Committed)
    assert [one["id"] for one in table.rows()] == ["a", "b"]


@pytest.mark.parametrize("path", ["oslo/gone.parquet", "oslo/.gone.log.1_0-0-0"])
def test_a_file_that_is_gone_since_is_taken_for_one_of_the_keys(made: Any, path: str) -> None:
    table = made("COPY_ON_WRITE", "SIMPLE")
    stat = WriteStat("f", path, "oslo", "null", num_inserts=1, num_writes=1, is_log="log" in path)
    sought = ReadKeys("oslo", None, SortedKeys.of(pa.array(["n"])))
    commits = [
        commit_metadata([stat], extra={}, operation_type=one) for one in ("UPSERT", "COMPACT")
    ]
    ours, *theirs = (write_set(at, commits[0], None) for at in ("1", "2", "3"))
    check = ReadKeysCheck(table.storage, lambda: [sought])

    conflict, moved = (check.find_conflict(ours, theirs[0], one) for one in commits)

    assert conflict is not None
    assert (conflict.rule, conflict.key_count) == ("deleted_unseen", 0)
    assert "cannot be read any more" in conflict.message
    assert moved is None


@pytest.mark.parametrize("index", INDEXES)
def test_keys_that_tasks_staged_are_sought_as_those_in_memory(made: Any, index: str) -> None:
    table = made("COPY_ON_WRITE", index, buckets=4)
    batch = pa.concat_tables([keys("a", "b", "c"), keys("c", "d", place="rome")])
    context = table.writer("w").begin(batch.schema, "delete").transaction.context
    prepared = prepare(context, batch)
    half = [stage_prepared(context, prepared.slice(at, 3), table.storage, f"{at}") for at in (0, 3)]

    (in_memory, staged) = (
        collect_read_keys(context, some, files, table.storage)
        for some, files in ((prepared, []), (prepared.slice(0, 0), half))
    )

    assert in_memory is not None
    assert staged is not None
    assert named(staged()) == named(in_memory())
    assert {key for *_, key in named(staged())} == set("abcd")


def named(sought: Iterable[ReadKeys]) -> set[tuple[str | None, int | None, str]]:
    return {(one.partition, one.bucket, key) for one in sought for key in one.keys}


def run_delete(table: ScenarioTable, listed: str, options: dict[str, str]) -> ServiceOutcome:
    request = ServiceRequest("test", parameters={"keys": listed})
    return get_service("delete").run(table.table, request, write_options(options))


LISTS = {"keys alone": '["n", "gone"]', "with partitions": '[{"id": "n", "place": "oslo"}]'}


@pytest.mark.sampled(every=4)
@every_kind
@pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("is_empty", [True, False], ids=["nothing found", "beside a row"])
def test_the_service_meets_a_key_that_came_before_it_commits(
    made: Any, beside: Beside, table_type: str, index: str, listed: str, is_empty: bool
) -> None:
    table = made(table_type, index, buckets=4)
    table.writer("setup").upsert_and_commit(row("gone" if not is_empty else "a"))
    beside(lambda: table.writer("fast", options=NEW_FILES).upsert_and_commit(row("n")))

    with pytest.raises(PlanChanged) as refused:
        run_delete(table, listed, OPTIMISTIC)

    conflict = refused.value.values["conflict"]
    assert isinstance(conflict, Conflict)
    assert conflict.rival_writer == "fast"
    assert {one["id"] for one in table.rows()} == {"a" if is_empty else "gone", "n"}
    assert table.orphan_files() == table.leftovers() == []


@pytest.mark.sampled(every=2)
@every_kind
def test_the_service_tried_again_takes_the_row_that_came(
    made: Any, beside: Beside, table_type: str, index: str
) -> None:
    table = made(table_type, index)
    table.writer("setup").upsert_and_commit(row("a"), row("gone"))
    beside(lambda: table.writer("fast").upsert_and_commit(row("n"), row("m")))

    outcome = run_delete(table, LISTS["keys alone"], OPTIMISTIC | RETRIES)

    assert outcome.figures["rows"] == 2
    assert [one["id"] for one in table.rows()] == ["a", "m"]


@pytest.mark.parametrize("index", ["BUCKET", "SIMPLE"])
def test_the_service_takes_a_key_without_its_partition_for_one_of_every_partition(
    made: Any, beside: Beside, index: str
) -> None:
    table = made("COPY_ON_WRITE", index)
    table.writer("setup").upsert_and_commit(row("n"))
    beside(lambda: table.writer("fast").upsert_and_commit(row("n", place="rome"), row("m")))

    with pytest.raises(PlanChanged):
        run_delete(table, LISTS["keys alone"], OPTIMISTIC)

    beside(lambda: table.writer("other").upsert_and_commit(row("n", place="turku")))
    run_delete(table, LISTS["with partitions"], OPTIMISTIC)
    assert {(one["id"], one["place"]) for one in table.rows()} == {
        ("n", "rome"),
        ("m", "oslo"),
        ("n", "turku"),
    }


def test_a_non_blocking_service_goes_by_its_found_keys_and_meets_the_others(
    made: Any, beside: Beside
) -> None:
    table = made("MERGE_ON_READ", "BUCKET")
    table.writer("setup").upsert_and_commit(row("gone"), row("a"))
    ingest = table.writer("ingest", mode="non-blocking")
    beside(lambda: ingest.upsert_and_commit(row("gone", ts=9)))

    run_delete(table, LISTS["keys alone"], NON_BLOCKING)

    assert [one["id"] for one in table.rows()] == ["a"]
    beside(lambda: table.writer("late", mode="non-blocking").upsert_and_commit(row("n")))
    with pytest.raises(PlanChanged):
        run_delete(table, LISTS["keys alone"], NON_BLOCKING)
    assert [one["id"] for one in table.rows()] == ["a", "n"]
