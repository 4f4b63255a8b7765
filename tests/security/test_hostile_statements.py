"""Threat T23, and by its way T12, T15 and T19: SQL from a user who wants more than rows of his own
tables: files, the environment, other tables, code, the engine's settings, or the machine's memory.
The checker refuses all of it before anything runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.statement_files import planted, statements
from workers.sql.checking import (
    MaskedColumnUsed,
    ReadableTable,
    StatementRefused,
    check_select,
)

HOSTILE = statements("hostile")
MASKED = statements("masked")
ORDERS = ReadableTable({"id": "bigint", "city": "string", "amount": "double", "day": "date"})
PEOPLE = ReadableTable(
    {"id": "bigint", "city": "string", "ssn": "string", "home": "struct<street:string,zip:int>"},
    lambda path: path in {"ssn", "home", "home.street"},
)


def readable(names: frozenset[str]) -> Mapping[str, ReadableTable]:
    known = {"orders": ORDERS, "people": PEOPLE, "hr.people": PEOPLE}
    return {name: known[name] for name in names if name in known}


@pytest.mark.parametrize(("title", "text"), HOSTILE, ids=[title for title, _ in HOSTILE])
def test_a_hostile_statement_is_refused_at_once(title: str, text: str, tmp_path: Path) -> None:
    statement = planted(text, tmp_path / "canary.csv")
    begun = time.monotonic()

    with pytest.raises(StatementRefused):
        check_select(statement, readable)

    assert time.monotonic() - begun < 2, title


def test_there_are_fifty_hostile_statements_at_least_and_each_is_one_of_its_own() -> None:
    assert len({text for _, text in HOSTILE}) == len(HOSTILE) >= 50


@pytest.mark.parametrize(("title", "text"), MASKED, ids=[title for title, _ in MASKED])
def test_a_masked_column_is_shown_and_nothing_else(title: str, text: str) -> None:
    statement, _, expected = text.rpartition(" -- ")
    column, _, use = expected.partition(": ")

    with pytest.raises(MaskedColumnUsed) as refused:
        check_select(statement, readable)

    assert (refused.value.values["column"], refused.value.values["not_allowed"]) == (column, use)


@pytest.mark.parametrize(
    ("statement", "masked"),
    [
        ("SELECT * FROM people", [False, False, True, True]),
        ("SELECT ssn AS city, city AS ssn FROM people", [True, False]),
        ("SELECT s FROM (SELECT ssn AS s FROM people) q", [True]),
        ("WITH x(a, b) AS (SELECT id, ssn FROM people) SELECT b, a FROM x", [True, False]),
        ("SELECT home.zip, home.street FROM people WHERE home.zip > 1", [False, True]),
        ("SELECT p.ssn, o.city FROM hr.people p JOIN orders o ON p.id = o.id", [True, False]),
        (
            "SELECT id FROM orders o WHERE EXISTS (SELECT * FROM people p WHERE p.id = o.id)",
            [False],
        ),
    ],
)
def test_outputs_that_come_of_a_masked_column_are_known(statement: str, masked: list[bool]) -> None:
    checked = check_select(statement, readable)

    assert [column.is_masked for column in checked.columns] == masked


def test_an_engine_gets_names_of_ours_qualified_and_no_comments() -> None:
    statement = "WITH x AS (SELECT * FROM orders) SELECT city -- payroll\nFROM x"

    text = check_select(statement, readable).text("duckdb")

    assert text.startswith('WITH "_sluice_c0" AS (SELECT "orders"."id" AS "id"')
    assert text.endswith('SELECT "x"."city" AS "city" FROM "_sluice_c0" AS "x"')


def test_only_columns_that_the_statement_names_are_read() -> None:
    checked = check_select("SELECT sum(Amount) AS Total FROM orders WHERE CITY = 'Oslo'", readable)

    assert checked.tables["orders"].columns == ("city", "amount")
    assert [column.name for column in checked.columns] == ["Total"]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT " + ", ".join(["city"] * 1_900) + " FROM orders",
        "SELECT id FROM orders WHERE " + " AND ".join(["id = 1"] * 150),
        "SELECT " + "(" * 20 + "id" + ")" * 20 + " FROM orders",
        "SELECT a0.id FROM orders a0 "
        + "".join(f" JOIN orders a{at} USING (id)" for at in range(1, 30)),
    ],
    ids=["columns", "conditions", "parentheses", "joins"],
)
def test_a_long_statement_is_checked_in_less_than_two_seconds(statement: str) -> None:
    begun = time.monotonic()

    checked = check_select(statement, readable)

    assert checked.text("duckdb")
    assert time.monotonic() - begun < 2
