"""Statements that people mean well, their answers, and the tables that they are asked of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from controlplane.sql.cells import cells
from controlplane.tables.masks import masked_rows, masks_part
from tests.controlplane.sql_tables import ORDERS, PEOPLE
from tests.support.statement_files import statements
from workers.sql.checking import ReadableTable, check_select, compute
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


def answered(text: str, spark: SparkSession | None = None) -> tuple[list[list[Any]], Any]:
    """The rows that an engine gives for a statement of the file, and those that stand there."""
    statement, _, expected = text.rpartition("\n=> ")
    checked = check_select(statement, readable)
    answer = compute(checked, {name: ROWS[name] for name in checked.tables}, spark)
    rows = answer if spark is None else answer.toArrow()
    assert rows.num_columns == len(checked.columns)
    return cells(rows), json.loads(expected)
