"""`table.top_n(...)` through Spark: tasks give the n first rows of their slices, and Spark compares
only these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql.functions import col, isnan, row_number

from workers.options.top_n_request import Term, TopN
from workers.read.completions import COMPLETED_FIELD, Completions
from workers.read.file_slice import read_slice, slice_schema
from workers.read.top_n_query import TIES, first_rows, plan_top_n, wanted_columns
from workers.spark.remote_packages import prepare_executors
from workers.spark.scan import ReadContext, python_scan
from workers.spark.types import to_spark
from workers.table.file_group import FileSlice
from workers.table.table import Table

_PLACE = "_sluice_place"


@dataclass(frozen=True, slots=True)
class TopNWork:
    """The n first rows of each slice."""

    context: ReadContext
    slices: tuple[FileSlice, ...]
    request: TopN
    columns: tuple[str, ...]
    completions: Completions

    def __len__(self) -> int:
        return len(self.slices)

    def tables(self, number: int) -> Iterator[pa.Table]:
        """At most n rows of each of the request's groups in one slice, with the completion time of
        the commit that wrote each. Raises NotFound for a file that was cleaned away.
        """
        context = self.context
        rows = read_slice(
            context.storage,
            context.config,
            context.schema,
            self.slices[number],
            columns=self.columns,
            rule=context.rule,
        )
        yield first_rows(self.request, self.completions.with_completed_at(rows))


def top_n_dataframe(
    table: Table, spark: SparkSession, request: TopN, columns: Sequence[str] | None
) -> DataFrame:
    """As `read_top_n`; the rows come in no order."""
    prepare_executors(spark, table.storage.location)
    plan, names = plan_top_n(table, request, columns)
    wanted = wanted_columns(request, plan, names)
    schema = slice_schema(plan.schema)
    wire = pa.schema([*(schema.field(name) for name in wanted), COMPLETED_FIELD])
    if not plan.slices:
        return spark.createDataFrame([], to_spark(wire)).select(*map(_quoted, names))
    context = ReadContext(table.storage.location, table.config, plan.schema)
    completions = Completions.load(table, table.timeline())
    work = TopNWork(context, plan.slices, request, tuple(wanted), completions)
    rows = python_scan(spark, work, wire)
    order = [key for one in request.order_by for key in _keys(one, schema)]
    order += [_quoted(name).asc() for name in TIES]
    if not request.partition_by:
        return rows.orderBy(*order).limit(request.n).select(*map(_quoted, names))
    groups = Window.partitionBy(*map(_quoted, request.partition_by)).orderBy(*order)
    placed = rows.withColumn(_PLACE, row_number().over(groups))
    return placed.where(col(_PLACE) <= request.n).select(*map(_quoted, names))


def _keys(term: Term, schema: pa.Schema) -> Iterator[Column]:
    """Nulls last, NaN before them: Spark takes NaN for the greatest number."""
    column = _quoted(term.column)
    yield column.isNull().asc()
    if pa.types.is_floating(schema.field(term.column).type):
        yield isnan(column).asc()
    yield column.desc() if term.is_descending else column.asc()


def _quoted(name: str) -> Column:
    return col(f"`{name}`")
