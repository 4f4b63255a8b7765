"""Checked statements of people, computed by Spark: the same answers as DuckDB gives, and nothing at
all of what is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.controlplane.sql_tables import CANARY
from tests.support.honest_statements import HONEST, ROWS, answered, readable
from tests.support.statement_files import planted, statements
from workers.sql.checking import StatementRefused, check_select, compute

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_spark_answers_as_duckdb_does(spark: SparkSession) -> None:
    differing = {}
    for title, text in HONEST:
        rows, expected = answered(text, spark)
        if rows != expected:
            differing[title] = rows

    assert differing == {}


def test_spark_is_asked_nothing_hostile(spark: SparkSession, tmp_path: Path) -> None:
    """With a file to read, and another table that the session knows by its name."""
    canary_file = tmp_path / "canary.csv"
    canary_file.write_text(CANARY)
    spark.createDataFrame([(1, CANARY)], ["id", "salary"]).createOrReplaceTempView("payroll")
    assert spark.table("payroll").count() == 1
    answers = []

    for title, text in statements("hostile"):
        try:
            checked = check_select(planted(text, canary_file), readable)
        except StatementRefused:
            continue
        answers.append((title, compute(checked, ROWS, spark)))

    spark.catalog.dropTempView("payroll")
    assert answers == []
