"""The n first rows of each group, however the rows lie in files."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.services import run
from tests.scenarios.test_column_groups import CLICK, SHOWN, click, made, shown, write
from tests.support.scenario_table import ScenarioTable, ScenarioTables, schema_of
from workers.errors import InvalidInput
from workers.read.snapshot import read_snapshot

SCORES = schema_of(id=pa.string(), cat=pa.string(), score=pa.float64(), ts=pa.int64())
KEY = "hoodie.multistream.topn"
BEST = {"partition_by": ["cat"], "order_by": "score desc", "n": 3}
KEEP_FEW = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
NAN = float("nan")
VALUES = [5.0, 1.0, NAN, None, 5.0, 2.0, 5.0, 7.0, 2.0, 4.0, 5.0, -1.0]
ROWS = [
    {"id": f"k{n:02}", "cat": [None, "a", "b"][n % 3], "score": score, "ts": n}
    for n, score in enumerate(VALUES)
]


def ranked(scores: ScenarioTable, **query: Any) -> list[tuple[Any, ...]]:
    rows = scores.lakehouse.top_n(**query, columns=["cat", "id"]).to_pylist()
    return [(row["cat"], row["id"]) for row in rows]


@pytest.fixture(params=["1", "5"], ids=["one slice", "five slices"])
def scores(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    scores = tables(
        table_type="MERGE_ON_READ",
        schema=SCORES,
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": request.param, KEY: json.dumps(BEST)},
    )
    scores.writer("w").upsert_and_commit(*ROWS)
    return scores


def test_first_of_each_group_with_ties_by_key(scores: ScenarioTable) -> None:
    assert ranked(scores) == [
        ("a", "k07"),
        ("a", "k04"),
        ("a", "k10"),
        ("b", "k05"),
        ("b", "k08"),
        ("b", "k11"),
        (None, "k00"),
        (None, "k06"),
        (None, "k09"),
    ]


def test_what_is_asked_stands_over_what_the_table_says(scores: ScenarioTable) -> None:
    assert ranked(scores, partition_by=[], order_by="score, ts desc", n=2) == [
        ("b", "k11"),
        ("a", "k01"),
    ]
    assert ranked(scores, partition_by=[], n=12)[-2:] == [("b", "k02"), (None, "k03")]


def test_newer_versions_and_deletes_count_in_logs_and_after_compaction(
    scores: ScenarioTable,
) -> None:
    scores.writer("w").upsert_and_commit({"id": "k01", "cat": "a", "score": 9.0, "ts": 50})
    scores.writer("w").upsert({"id": "k07"}, operation="delete").wins()

    best = ranked(scores, n=2)

    assert best[:2] == [("a", "k01"), ("a", "k04")]
    run(scores, "compaction")
    assert ranked(scores, n=2) == best


def overtaken(scores: ScenarioTable) -> None:
    """Three commits of one score: `late` was requested first and completed second."""
    late = scores.writer("late", mode="non-blocking").upsert(
        {"id": "x2", "cat": "tie", "score": 8.0, "ts": 1}
    )
    rival = scores.writer("rival", mode="non-blocking")
    rival.upsert_and_commit({"id": "x3", "cat": "tie", "score": 8.0, "ts": 1})
    late.wins()
    last = {"id": "x1", "cat": "tie", "score": 8.0, "ts": 1}
    scores.writer("last").upsert_and_commit(last)


def test_of_equal_rows_that_stands_first_whose_commit_completed_first(
    scores: ScenarioTable,
) -> None:
    overtaken(scores)

    best = [key for cat, key in ranked(scores) if cat == "tie"]

    assert best == ["x3", "x2", "x1"]
    assert [key for cat, key in ranked(scores, n=1) if cat == "tie"] == ["x3"]


def test_order_of_completion_is_known_of_compacted_and_archived_commits(
    scores: ScenarioTable,
) -> None:
    overtaken(scores)
    run(scores, "compaction")
    for n in range(3):
        scores.writer("w").upsert_and_commit({"id": "k00", "cat": "b", "score": 5.0, "ts": 60 + n})
    scores.lakehouse.archive(KEEP_FEW)
    assert all(one.requested_at > first_of(scores, "x2") for one in scores.instants())

    assert [key for cat, key in ranked(scores) if cat == "tie"] == ["x3", "x2", "x1"]


def first_of(scores: ScenarioTable, key: str) -> str:
    rows = read_snapshot(scores.table, with_meta_columns=True).to_pylist()
    return next(str(row["_hoodie_commit_time"]) for row in rows if row["id"] == key)


def test_version_that_is_written_again_with_its_score_is_a_later_one(
    scores: ScenarioTable,
) -> None:
    overtaken(scores)

    scores.writer("w").upsert_and_commit({"id": "x3", "cat": "tie", "score": 8.0, "ts": 2})

    assert [key for cat, key in ranked(scores) if cat == "tie"] == ["x2", "x1", "x3"]


def test_rows_that_the_join_hides_are_not_counted(tables: ScenarioTables) -> None:
    ads = made(tables, "MERGE_ON_READ", SHOWN, CLICK, hoodie__multistream__join="inner")
    write(ads, shown("a", 1, "s", 9.0), shown("b", 1, "s", 8.0), shown("c", 1, "s", 7.0))
    write(ads, click("b", 1), click("c", 1))

    best = ads.lakehouse.top_n(["site"], "price desc", 1)

    assert best.column("id").to_pylist() == ["b"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"order_by": "score desc"}, "missing=.'n'."),
        ({"order_by": "nope", "n": 1}, "no such column: column=nope"),
        ({"order_by": "score down", "n": 1}, "is written `score desc"),
        ({"order_by": "score, score desc", "n": 1}, "twice"),
        ({"order_by": "score", "n": 0}, "whole number"),
        ({"order_by": "score", "n": 1, "partition_by": "cat"}, "list of column names"),
    ],
)
def test_what_cannot_be_ordered_is_refused(
    tables: ScenarioTables, query: dict[str, Any], why: str
) -> None:
    scores = tables(schema=SCORES)
    scores.writer("w").upsert_and_commit(*ROWS)

    with pytest.raises(InvalidInput, match=why):
        scores.lakehouse.top_n(**query)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("[1]", "is an object"),
        ("{", "is not JSON"),
        (json.dumps(BEST | {"by": 1}), "is an object"),
        (json.dumps(BEST | {"partition_by": ["nope"]}), "no such column"),
    ],
)
def test_table_that_says_it_wrongly_is_not_made(
    tables: ScenarioTables, setting: str, why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        tables(schema=SCORES, options={KEY: setting})
