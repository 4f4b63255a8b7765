"""Conversion of the arguments of a table's handle to the engine's values.

Spark is loaded only for a session, or for a schema of Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.loading.row_source import RowSource
from workers.options.service_keys import INSTANT, SCHEDULE_ONLY
from workers.schema.table_schema import TableSchema
from workers.table_services.rewrite_execution import RunnerMaker, make_local_runner
from workers.write.local import ArrowData

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def service_parameters(
    parameters: Mapping[str, str] | None, schedule: bool, instant: InstantTime | None
) -> dict[str, str]:
    """Return the parameters of a rewriting service, with the handle's own arguments."""
    return {**(parameters or {}), SCHEDULE_ONLY: str(schedule).lower(), INSTANT: instant or ""}


def make_runner_factory(spark: SparkSession | None) -> RunnerMaker:
    """Return a factory of runners: on the session's executors, or in threads of this process
    without a session.
    """
    if spark is None:
        return make_local_runner
    from workers.spark.table_services import spark_runner

    return spark_runner(spark)


def column_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the names as a tuple. Raises InvalidInput for a single text, which would be split into
    characters.
    """
    if isinstance(names, str):
        raise InvalidInput(f"{what} is a list of column names", given=names)
    return tuple(names)


def convert_to_arrow(data: Any) -> ArrowData | RowSource:
    """Return rows as Arrow: of Arrow, files that were opened, pandas, Polars, or another library
    that exports Arrow streams (`__arrow_c_stream__`).

    Raises InvalidInput if the data is none of these, or a column mixes types.
    """
    if isinstance(data, ArrowData | RowSource):
        return data
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _convert_pandas(data)
    if hasattr(data, "collect_schema") and hasattr(data, "collect"):
        raise InvalidInput("a lazy frame has no rows yet; give frame.collect()", type=type(data))
    if not hasattr(data, "__arrow_c_stream__"):
        raise InvalidInput(
            "data is neither Arrow nor a pandas, Polars or Spark frame", type=type(data)
        )
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(data, polars.DataFrame):
        # Polars exports such a column as addresses of memory.
        objects = [name for name, kind in data.schema.items() if kind == polars.Object]
        if objects:
            raise InvalidInput("columns of the frame hold Python objects", columns=objects)
    try:
        return pa.RecordBatchReader.from_stream(data).read_all()
    except (pa.ArrowException, TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            "the frame does not export its rows as Arrow", type=type(data), why=error
        ) from error


def _convert_pandas(frame: Any) -> pa.Table:
    """Return the columns and the named levels of the index."""
    levels = [name for name in frame.index.names if name is not None]
    names = [str(name) for name in (*levels, *frame.columns)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput("the frame has columns of the same name", columns=twice)
    series = [frame.index.get_level_values(name).to_series() for name in levels]
    series += [frame.iloc[:, at] for at in range(len(frame.columns))]
    arrays: list[Any] = [
        _convert_series(column, name) for name, column in zip(names, series, strict=True)
    ]
    return pa.table(dict(zip(names, arrays, strict=True)))


def _convert_series(series: Any, name: str) -> Any:
    refused = (pa.ArrowException, TypeError, ValueError, OverflowError)
    try:
        values: Any = pa.array(series, from_pandas=True)
        is_zoned = pa.types.is_timestamp(values.type) and values.type.tz
        if is_zoned and series.dtype == object and any(_lacks_zone(value) for value in series):
            raise InvalidInput("column mixes times with and without a time zone", column=name)
        return values
    except refused as error:
        integers = [None if value is None or value != value else value for value in series]
        if any(isinstance(value, bool) or not isinstance(value, int | None) for value in integers):
            raise InvalidInput(
                "column of the frame mixes types, or has one that Arrow lacks",
                column=name,
                why=str(error),
            ) from error
        try:
            return pa.array([None if value is None else Decimal(value) for value in integers])
        except refused as too_long:
            raise InvalidInput(
                "column holds integers of too many digits", column=name
            ) from too_long


def _lacks_zone(value: Any) -> bool:
    return hasattr(value, "tzinfo") and value.tzinfo is None and value == value


def table_schema(schema: Any, name: str) -> TableSchema | None:
    """Convert the schema of Arrow or Spark to the table's; None for None. Raises InvalidInput."""
    if schema is None:
        return None
    if not isinstance(schema, pa.Schema):
        from workers.spark.types import to_arrow

        schema = to_arrow(schema)
    parsed = TableSchema.from_arrow(schema, table_name=name)
    if not parsed.field_names:
        raise InvalidInput("a table needs at least one column", table=name)
    return parsed
