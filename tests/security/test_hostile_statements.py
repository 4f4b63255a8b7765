"""Threat T23, and by its way T12, T15 and T19: SQL from a user who wants more than rows of his own
tables: files, the environment, other tables, code, the engine's settings, or the machine's memory.
The checker refuses all of it before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.counted_calls import count_calls
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
CALLS_MAX = 1_000_000
"""More than twice as many as any of the hostile statements makes the checker do."""
GROWTH_MAX = 2.5
"""For twice as many parts. Work that grows with their square would make it 4."""


def readable(names: frozenset[str]) -> Mapping[str, ReadableTable]:
    known = {"orders": ORDERS, "people": PEOPLE, "hr.people": PEOPLE}
    return {name: known[name] for name in names if name in known}


@pytest.mark.parametrize(("title", "text"), HOSTILE, ids=[title for title, _ in HOSTILE])
def test_a_hostile_statement_is_refused_at_once(title: str, text: str, tmp_path: Path) -> None:
    statement = planted(text, tmp_path / "canary.csv")

    with pytest.raises(StatementRefused):
        count_calls(lambda: check_select(statement, readable), calls_max=CALLS_MAX)


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


def joined(count: int) -> str:
    joins = "".join(f" JOIN orders a{at} USING (id)" for at in range(1, count))
    return f"SELECT a0.id FROM orders a0 {joins}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("long", "count"),
    [
        (lambda count: f"SELECT {', '.join(['city'] * count)} FROM orders", 1_900),
        (lambda count: f"SELECT id FROM orders WHERE {' AND '.join(['id = 1'] * count)}", 150),
        (lambda count: f"SELECT {'(' * count}id{')' * count} FROM orders", 20),
        (joined, 30),
    ],
    ids=["columns", "conditions", "parentheses", "joins"],
)
def test_the_work_of_a_check_grows_with_the_length_of_the_statement(
    long: Callable[[int], str], count: int
) -> None:
    def check(count: int) -> int:
        text, calls = count_calls(lambda: check_select(long(count), readable).text("duckdb"))
        assert text
        return calls

    check(count)  # The first one also fills caches.

    assert check(count) < GROWTH_MAX * check(count // 2)
