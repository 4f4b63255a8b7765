"""Conditions that are built from a column, an operator and a value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from controlplane.rows.answers import RowColumn
from web.row_filters import FilterFields, FilterProblem, add_condition
from workers.read.predicate import predicate_of

COLUMNS = [
    RowColumn(name="id", type="bigint", is_masked=False),
    RowColumn(name="city", type="string", is_masked=False),
    RowColumn(name="is open", type="boolean", is_masked=False),
    RowColumn(name="day", type="date", is_masked=False),
    RowColumn(name="ssn", type="string", is_masked=True),
]
TYPES: dict[str, Any] = {
    "id": pa.int64(),
    "city": pa.string(),
    "is open": pa.bool_(),
    "day": pa.date32(),
}
SCHEMA = pa.schema(TYPES)


@pytest.mark.parametrize(
    ("where", "fields", "expected"),
    [
        ("", ("city", "=", "Oslo"), "city = 'Oslo'"),
        ("", ("city", "=", "L'Aquila"), "city = 'L''Aquila'"),
        ("", ("id", ">=", " -12 "), "id >= -12"),
        ("id > 1", ("city", "null", ""), "id > 1 AND city IS NULL"),
        ("id > 1 or id < 0", ("city", "not-null", ""), "(id > 1 or id < 0) AND city IS NOT NULL"),
        ("", ("is open", "=", "True"), "`is open` = TRUE"),
        ("", ("id", "in", "1, 2,"), "id IN (1, 2)"),
        ("", ("city", "contains", "sl"), "city LIKE '%sl%'"),
        ("", ("city", "starts", "Os"), "city LIKE 'Os%'"),
        ("", ("day", "<", "2026-01-31"), "day < '2026-01-31'"),
    ],
)
def test_fields_become_a_condition_that_the_engine_takes(
    where: str, fields: tuple[str, str, str], expected: str
) -> None:
    built = add_condition(where, FilterFields(*fields), COLUMNS)

    assert built == expected
    predicate_of(built, SCHEMA)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (("town", "=", "Oslo"), "Choose a column"),
        (("ssn", "=", "1"), "is masked"),
        (("id", "=", "1 OR 1"), "enter a number"),
        (("is open", "=", "yes"), "enter true or false"),
        (("id", "contains", "1"), "only text"),
        (("city", "in", " , "), "one or more values"),
        (("city", "contains", "50%"), "LIKE"),
        (("city", "~", "x"), "Choose an operator"),
    ],
)
def test_fields_that_are_no_condition_are_refused(fields: tuple[str, str, str], words: str) -> None:
    with pytest.raises(FilterProblem, match=words):
        add_condition("", FilterFields(*fields), COLUMNS)
