"""A statement answers how many rows it changed: what is as it was is not written again."""

from __future__ import annotations

import json

import pytest

from tests.scenarios.test_column_groups import shown, write
from tests.scenarios.test_sql import ads, sql
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput

__all__ = ["ads"]  # A fixture of two table types.


def rows_changed(table: ScenarioTable, statement: str) -> int:
    outcome = sql(table, statement)
    assert isinstance(outcome, Committed)
    return outcome.rows


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def readings(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    """Three whole rows of age 1."""
    table = tables(
        schema=READINGS, ordering=["ts"], partition_by=["place"], table_type=request.param
    )
    table.writer("w").upsert_and_commit(
        *({"id": key, "place": "oslo", "ts": 1, "value": 2, "note": None} for key in "abc")
    )
    return table


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("UPDATE ads SET value = value", 0),
        ("UPDATE ads SET value = 2, note = NULL", 0),
        ("UPDATE ads SET value = CASE id WHEN 'a' THEN 3 ELSE value END", 1),
        ("UPDATE ads SET note = 'n' WHERE id <> 'a'", 2),
        ("UPDATE ads SET value = 9, ts = 0", 0),
        ("UPDATE ads SET value = 9, ts = 1", 3),
        (
            """MERGE INTO ads USING (SELECT 'a' AS id, 2 AS value UNION ALL SELECT 'b', 5
                 UNION ALL SELECT 'new', 2) s
               ON ads.id = s.id WHEN MATCHED THEN UPDATE SET value = s.value
               WHEN NOT MATCHED THEN INSERT (id, place, ts, value)
               VALUES (s.id, 'oslo', 1, s.value)""",
            2,
        ),
    ],
)
def test_rows_are_those_that_hold_something_else_afterwards(
    readings: ScenarioTable, statement: str, changed: int
) -> None:
    before = {row["id"]: row for row in readings.rows()}

    answered = rows_changed(readings, statement)

    after = {row["id"]: row for row in readings.rows()}
    assert answered == changed == sum(before.get(key) != row for key, row in after.items())


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("UPDATE ads SET price = price", 0),
        ("UPDATE ads SET site = 'x', shown_at = 4", 0),
        ("UPDATE ads SET site = 'x', shown_at = 6", 2),
        ("UPDATE ads SET site = id", 1),
        ("UPDATE ads SET site = 'x', shown_at = 4, x = 1, clicked_at = 1", 2),
    ],
)
def test_a_column_group_is_changed_by_what_is_not_older_than_it(
    ads: ScenarioTable, statement: str, changed: int
) -> None:
    write(ads, shown("k", 5, "k"), shown("l", 5, "k"))
    before = {row["id"]: row for row in ads.rows()}

    answered = rows_changed(ads, statement)

    after = {row["id"]: row for row in ads.rows()}
    assert answered == changed == sum(before.get(key) != row for key, row in after.items())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ads SET shown_at = NULL",
        "UPDATE ads SET shown_at = NULL, site = 'x', price = 2.0",
        "UPDATE ads SET shown_at = nullif(shown_at, 5), x = 1, clicked_at = 1",
        "UPDATE ads SET clicked_at = NULL, x = 1",
        """MERGE INTO ads USING ads s ON ads.id = s.id
           WHEN MATCHED THEN UPDATE SET shown_at = NULL, site = 'x', price = 2.0""",
    ],
)
def test_an_ordering_column_of_a_group_is_not_set_to_null(
    ads: ScenarioTable, statement: str
) -> None:
    write(ads, shown("k", 5, "k"), shown("l", 5, "k"))
    before = ads.rows()

    with pytest.raises(InvalidInput, match=r"is not set to null.*column=(shown|clicked)_at"):
        rows_changed(ads, statement)

    assert ads.rows() == before
    assert ads.leftovers() == []


@pytest.mark.parametrize("statement", ["ts = NULL", "ts = nullif(ts, 1), note = 'x'"])
def test_the_ordering_column_of_a_table_is_not_set_to_null(
    readings: ScenarioTable, statement: str
) -> None:
    before = readings.rows()

    with pytest.raises(InvalidInput, match=r"is not set to null.*column=ts"):
        rows_changed(readings, f"UPDATE ads SET {statement}")

    assert readings.rows() == before


def test_an_ordering_value_that_is_null_already_stays_so(tables: ScenarioTables) -> None:
    table = tables(schema=READINGS, ordering=["ts"])
    table.writer("w").upsert_and_commit({"id": "a", "ts": None, "value": 1})

    assert rows_changed(table, "UPDATE ads SET ts = NULL, value = 2") == 1
    assert rows_changed(table, "UPDATE ads SET ts = NULL WHERE id = 'none'") == 0

    assert table.rows("ts", "value") == [{"ts": None, "value": 2}]


def test_the_later_commit_of_a_group_is_not_said_without_a_value(tables: ScenarioTables) -> None:
    late = {"name": "late", "ordering": ["ts"], "columns": ["value"], "on_late": "overwrite"}
    table = tables(
        table_type="MERGE_ON_READ",
        schema=READINGS,
        options={"hoodie.multistream.groups": json.dumps([late])},
    )
    write(table, {"id": "a", "ts": 5, "value": 1})

    with pytest.raises(InvalidInput, match=r"is not set to null.*column=ts"):
        rows_changed(table, "UPDATE ads SET ts = NULL, value = 2")

    assert rows_changed(table, "UPDATE ads SET ts = 1, value = 2") == 1
    assert table.rows("ts", "value") == [{"ts": 1, "value": 2}]
