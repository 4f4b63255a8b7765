"""Deleting what matches a predicate, and what the predicate's text may say."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.behaviours.setups import SETUPS, Lake, reading
from tests.support.scenario_table import READINGS, ScenarioTables
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.errors import InvalidInput
from workers.read.predicate import predicate_of
from workers.write import predicate_delete
from workers.write.prepare import prepare

pytestmark = pytest.mark.sampled(every=2)

PLACES = ("oslo", "bergen", "turku")
MANY = [reading(f"k{n:02}", n, n, place=PLACES[n % 3]) for n in range(30)]
looking = pytest.mark.parametrize(
    "lake", [one for one in SETUPS if not one.appends_only], ids=str, indirect=True
)
ROWS = pa.table(
    {
        "id": ["a", "b", "c", "d'e"],
        "n": pa.array([1, 2, None, 4], pa.int32()),
        "x": [0.5, 1.5, 2.5, None],
        "day": [date(2024, 1, 1), date(2024, 1, 2), None, date(2024, 1, 4)],
        "at": pa.array([datetime(2024, 1, n, tzinfo=UTC) for n in (1, 2, 3, 4)]),
        "price": pa.array([Decimal("1.10"), Decimal(2), None, None], pa.decimal128(6, 2)),
        "ok": [True, False, None, True],
        "odd name": [1, 2, 3, 4],
    }
)


def delete(lake: Lake, predicate: Any) -> CommitOutcome:
    mode = {"hoodie.write.concurrency.mode": lake.writer().options.mode.value}
    return lake.table.lakehouse.delete(predicate=predicate, options=mode | lake.options)


@pytest.mark.sampled(every=2)
@looking
@pytest.mark.parametrize(
    "predicate",
    [
        "value >= 10 AND place != 'turku'",
        (pc.field("value") >= 10) & (pc.field("place") != "turku"),
    ],
    ids=["text", "expression"],
)
def test_matching_rows_are_gone_and_others_stay(lake: Lake, predicate: Any) -> None:
    lake.write(*MANY)
    lake.write(MANY[29] | {"ts": 99, "value": 3})

    outcome = delete(lake, predicate)

    left = [row for row in MANY[:29] if row["value"] < 10 or row["place"] == "turku"]
    assert isinstance(outcome, Committed)
    assert lake.table.rows() == [*left, MANY[29] | {"ts": 99, "value": 3}]


@looking
def test_nothing_matches_and_nothing_is_written(lake: Lake) -> None:
    lake.write(*MANY)
    before = lake.table.data_files()

    delete(lake, "value > 1000")

    assert lake.table.data_files() == before
    assert lake.table.rows() == MANY


@looking
def test_row_that_changed_meanwhile_is_a_conflict_and_not_deleted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.write(reading("a", 1, 1), reading("b", 1, 50))
    changes = iter([reading("a", 2, 99)])

    def interrupted(*given: Any) -> pa.Table:
        for change in changes:
            lake.write(change)
        return prepare(*given)

    monkeypatch.setattr(predicate_delete, "prepare", interrupted)

    outcome = delete(lake, "value < 10")

    assert isinstance(outcome, Conflicted)
    assert lake.values() == {"a": 99, "b": 50}


@pytest.mark.parametrize(
    "lake", [one for one in SETUPS if one.appends_only], ids=str, indirect=True
)
def test_non_blocking_writers_delete_what_they_saw(lake: Lake) -> None:
    lake.write(reading("a", 1, 5), reading("b", 1, 50))

    assert isinstance(delete(lake, "value < 10"), Committed)

    assert lake.values() == {"b": 50}


def test_keys_and_a_predicate_exclude_each_other(tables: ScenarioTables) -> None:
    table = tables(schema=READINGS).lakehouse

    with pytest.raises(InvalidInput, match="either"):
        table.delete()
    with pytest.raises(InvalidInput, match="either"):
        table.delete(READINGS.empty_table(), predicate="id = 'a'")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("n = 1", "a"),
        ("n == 1 or n <> 1", "a b d'e"),
        ("n != 1", "b d'e"),
        ("n > 1 and not n >= 4", "b"),
        ("n IS NULL", "c"),
        ("n is not null", "a b d'e"),
        ("id = 'd''e'", "d'e"),
        ("id IN ('a', 'c')", "a c"),
        ("id NOT IN ('a', 'c')", "b d'e"),
        ("id LIKE 'd%'", "d'e"),
        ("n BETWEEN 2 AND 4", "b d'e"),
        ("x < 1.6 AND x > -1", "a b"),
        ("x < 1e0", "a"),
        ("day < '2024-01-03'", "a b"),
        ("at >= '2024-01-03T00:00:00Z'", "c d'e"),
        ("price = '1.10'", "a"),
        ("ok = true", "a d'e"),
        ("ok = FALSE", "b"),
        ('"odd name" = 3 OR `odd name` = 4', "c d'e"),
        ("n = 1 OR n = 2 AND id = 'b'", "a b"),
        ("(n = 1 OR n = 2) AND id = 'b'", "b"),
        ("NOT NOT n = 1", "a"),
    ],
)
def test_what_a_text_matches(text: str, ids: str) -> None:
    matching = ROWS.filter(predicate_of(text, ROWS.schema).expression)

    assert matching.column("id").to_pylist() == ids.split()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "column"),
        ("n", "sign"),
        ("n =", "text"),
        ("n = NULL", "IS NULL"),
        ("nope = 1", "nope"),
        ("n = 1 n = 2", "nothing more"),
        ("n = 1; DROP", "cannot be read"),
        ("(n = 1", r"\) was expected"),
        ("n IN 1", r"\( was expected"),
        ("n NOT 1", "IN, BETWEEN or LIKE"),
        ("day < 'soon'", "no value of its type"),
        ("__import__('os')", "__import__"),
        ("id < 1", "does not fit"),
        ("(" * 60 + "n = 1" + ")" * 60, "deeply"),
        ("n = 1 OR " * 2000 + "n = 1", "too long"),
    ],
)
def test_text_that_says_nothing_is_refused(text: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        predicate_of(text, ROWS.schema)


def test_columns_that_are_looked_at_are_known() -> None:
    assert predicate_of("n = 1 AND id LIKE 'a%'", ROWS.schema).columns == frozenset(("n", "id"))
    assert predicate_of(pc.field("n") == 1, ROWS.schema).columns == frozenset(("n",))
    with pytest.raises(InvalidInput, match="not by position"):
        predicate_of(pc.field(0) == 1, ROWS.schema)
