"""A checked statement, computed over opened tables or rows, by either engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workers.sql.checking.checked import CheckedSelect
from workers.sql.engine import Engine
from workers.sql.relations import Tables, opened, rows_given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compute(checked: CheckedSelect, tables: Tables, spark: SparkSession | None = None) -> Any:
    """The rows: an Arrow table, with a session a DataFrame. `tables`: by the names of
    `checked.tables`, as `run_sql` takes them; nothing is masked here, so rows of a table with
    masked columns come masked.

    Raises InvalidInput for what the engine refuses, otherwise as `run_sql`.
    """
    engine = _engine(spark)
    try:
        bind(engine, checked, tables)
        return engine.answer(checked.text(engine.dialect))
    finally:
        engine.close()


def bind(engine: Engine, checked: CheckedSelect, tables: Tables) -> None:
    """The statement's relations in the engine, with the columns that it reads."""
    for name, table in checked.tables.items():
        if (rows := rows_given(name, tables)) is not None:
            engine.bind_rows(table.relation, rows.select(list(table.columns)))
        else:
            engine.bind_table(table.relation, opened(name, tables), table.columns)


def _engine(spark: SparkSession | None) -> Engine:
    if spark is None:
        from workers.sql.duck import DuckEngine

        return DuckEngine()
    from workers.spark.statements import SparkEngine

    return SparkEngine(spark)
