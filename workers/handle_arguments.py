"""What users hand to a table's handle, as the engine takes it.

Spark is loaded only for a session, or for a schema of Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.options.service_keys import INSTANT, SCHEDULE_ONLY
from workers.schema.table_schema import TableSchema
from workers.table_services.rewrite_execution import RunnerMaker, local_runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def service_parameters(
    given: Mapping[str, str] | None, schedule: bool, instant: InstantTime | None
) -> dict[str, str]:
    """The parameters of a rewriting service, with what the handle takes as arguments of its own."""
    return {**(given or {}), SCHEDULE_ONLY: str(schedule).lower(), INSTANT: instant or ""}


def runner_maker(spark: SparkSession | None) -> RunnerMaker:
    """Rewrites run on the session's executors, without a session in threads of this process."""
    if spark is None:
        return local_runner
    from workers.spark.table_services import spark_runner

    return spark_runner(spark)


def column_names(given: Sequence[str], what: str) -> tuple[str, ...]:
    """As a tuple. Raises InvalidInput for one text, which would be taken letter by letter."""
    if isinstance(given, str):
        raise InvalidInput(f"{what} is a list of column names", given=given)
    return tuple(given)


def table_schema(schema: Any, name: str) -> TableSchema | None:
    """The schema of Arrow or Spark as the table's; None for None. Raises InvalidInput."""
    if schema is None:
        return None
    if not isinstance(schema, pa.Schema):
        from workers.spark.types import to_arrow

        schema = to_arrow(schema)
    parsed = TableSchema.from_arrow(schema, table_name=name)
    if not parsed.field_names:
        raise InvalidInput("a table needs at least one column", table=name)
    return parsed
