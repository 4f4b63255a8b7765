"""Statements that people mean well, their answers, and the tables that they are asked of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from controlplane.sql.cells import cells
from controlplane.tables.masks import masked_rows, masks_part
from tests.controlplane.sql_tables import ORDERS, PEOPLE
from tests.support.statement_files import statements
from workers.sql.checking import CheckedSelect, ReadableTable, check_select
from workers.sql.duck import DuckEngine
from workers.sql.type_names import name_of_type

HONEST = statements("honest")
MASKED = frozenset({"ssn", "home.street"})
ORDERS_ROWS = pa.Table.from_pylist(ORDERS)
PEOPLE_ROWS = masked_rows(pa.Table.from_pylist(PEOPLE), MASKED)
ROWS = {
    "orders": ORDERS_ROWS,
    "default.orders": ORDERS_ROWS,
    "people": PEOPLE_ROWS,
}


def readable(names: frozenset[str]) -> Mapping[str, ReadableTable]:
    return {name: _readable(name) for name in names if name in ROWS}


def _readable(name: str) -> ReadableTable:
    columns = {column.name: name_of_type(column.type) for column in ROWS[name].schema}
    masked = MASKED if name == "people" else frozenset()
    return ReadableTable(columns, lambda path: masks_part(path, masked))


def compute(checked: CheckedSelect, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of a checked statement over Arrow rows, in the database that pages use."""
    engine = DuckEngine()
    for name, table in checked.tables.items():
        engine.bind_rows(table.relation, tables[name].select(list(table.columns)))
    return engine.answer(checked.text(engine.dialect))


def answered(text: str) -> tuple[list[list[Any]], Any]:
    """The rows of a statement of the file, and those that stand there."""
    statement, _, expected = text.rpartition("\n=> ")
    checked = check_select(statement, readable)
    answer = compute(checked, ROWS)
    assert answer.num_columns == len(checked.columns)
    return cells(answer), json.loads(expected)
