"""SQL statements computed and written by Spark: see `workers.sql`.

A relation is a temporary view of the session while the statement runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from workers.concurrency.outcome import CommitOutcome
from workers.errors import InvalidInput
from workers.options.write_options import WriteOptions
from workers.read.request import read_request
from workers.read.snapshot import SnapshotPlan
from workers.schema.table_schema import TableSchema
from workers.spark.read import read_dataframe, snapshot_dataframe
from workers.spark.task_process import spare_next_task
from workers.spark.types import to_arrow, to_spark, wire_schema
from workers.spark.write import write_rows_from
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.write.context import WriteContext
from workers.write.request import WriteRequest


class _Home(Protocol):
    table: Table


class _Snapshot(Protocol):
    @property
    def table(self) -> Table: ...
    @property
    def schema(self) -> TableSchema: ...
    @property
    def slices(self) -> tuple[FileSlice, ...]: ...
    @property
    def columns(self) -> tuple[str, ...] | None: ...


class _Conversion(Protocol):
    @property
    def schema(self) -> pa.Schema: ...
    def check(self, given: pa.Schema) -> None: ...
    def of(self, rows: pa.Table) -> pa.Table: ...


class SparkEngine:
    """`workers.sql.engine.Engine` on one Spark session; temporary views hold the relations until
    `close`.
    """

    dialect: Final = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._views: dict[str, DataFrame] = {}
        self._held: dict[str, DataFrame] = {}

    def bind_empty(self, name: str, schema: pa.Schema) -> None:
        """See `Engine`. Raises InvalidInput for a type that Spark does not know."""
        self._bind(name, self._spark.createDataFrame([], to_spark(schema)))

    def bind_table(
        self,
        name: str,
        table: _Home,
        columns: tuple[str, ...] | None,
        hint: str | None = None,  # Spark pushes the filter down to its own scan.
    ) -> None:
        """See `Engine`; files are chosen now and read when a query is computed. Raises as
        `read_dataframe`.
        """
        request = read_request(columns=columns)
        self._bind(name, read_dataframe(table.table, self._spark, request))

    def bind_rows(self, name: str, rows: pa.Table) -> None:
        """See `Engine`; the rows go to Spark at once."""
        self._bind(name, self._spark.createDataFrame(rows))

    def bind_snapshot(self, name: str, snapshot: _Snapshot) -> None:
        """See `Engine`; slices are read when a query is computed. Raises as `read_dataframe`."""
        plan = SnapshotPlan(snapshot.schema, snapshot.slices)
        rows = snapshot_dataframe(snapshot.table, self._spark, plan, snapshot.columns)
        self._bind(name, rows)

    def define(self, name: str, query: str) -> None:
        """See `Engine`; persisted in Spark until `close`, or until the name is defined again.

        Raises InvalidInput for a query that Spark cannot analyse.
        """
        self._let_go(name)
        rows = self._analysed(query).persist()
        self._held[name] = rows
        self._bind(name, rows)

    def schema_of(self, query: str) -> pa.Schema:
        """See `Engine`; nothing is computed. Raises InvalidInput for a query that Spark cannot
        analyse.
        """
        rows = self._analysed(query)
        types = to_arrow(rows.toDF(*_places(rows)).schema)
        named = zip(rows.columns, types, strict=True)
        return pa.schema([one.with_name(name) for name, one in named])

    def answer(self, query: str) -> DataFrame:
        """The relations go along with it: their views are gone when it is computed."""
        text = query.replace("{", "{{").replace("}", "}}")
        for name in self._views:
            text = text.replace(f"`{name}`", f"{{{name}}}")
        return self._looked_at(lambda: self._spark.sql(text, **self._views))

    def first(self, query: str) -> dict[str, Any] | None:
        """See `Engine`; the keys are `_0`, `_1` and so on, by the columns' place in the query."""
        rows = self._numbered(query).limit(1).collect()
        return rows[0].asDict() if rows else None

    def write(
        self,
        table: Table,
        schema: pa.Schema,
        request: WriteRequest,
        options: WriteOptions,
        query_of: Callable[[WriteContext], tuple[str, _Conversion]],
    ) -> CommitOutcome:
        """See `Engine`. Raises InvalidInput for a query that Spark cannot analyse, and as
        `write_rows_from`.
        """

        def frame_of(context: WriteContext) -> DataFrame:
            query, conversion = query_of(context)
            return self._converted(self._numbered(query), conversion)

        return write_rows_from(table, self._spark, schema, request, options, frame_of)

    def close(self) -> None:
        """See `Engine`: views and persisted rows of this engine go, the session stays."""
        for name in list(self._held):
            self._let_go(name)
        for name in self._views:
            self._spark.catalog.dropTempView(name)

    def _bind(self, name: str, rows: DataFrame) -> None:
        rows.createOrReplaceTempView(name)
        self._views[name] = rows

    def _let_go(self, name: str) -> None:
        if name in self._held:
            self._held.pop(name).unpersist()

    def _numbered(self, query: str) -> DataFrame:
        """Columns are told by their place: two of a query may have one name."""
        rows = self._analysed(query)
        return rows.toDF(*_places(rows))

    def _analysed(self, query: str) -> DataFrame:
        return self._looked_at(lambda: self._spark.sql(query))

    def _looked_at(self, make: Callable[[], DataFrame]) -> DataFrame:
        try:
            rows = make()
            rows.schema  # noqa: B018  (Spark Connect looks at a query no sooner.)
        except (AnalysisException, ParseException) as error:
            first, *_ = str(error).splitlines()
            raise InvalidInput("the statement cannot be computed", why=first) from error
        return rows

    def _converted(self, rows: DataFrame, conversion: _Conversion) -> DataFrame:
        conversion.check(to_arrow(rows.schema))
        wire = wire_schema(conversion.schema)
        return rows.mapInArrow(partial(_converted, conversion, wire), to_spark(conversion.schema))


def _places(rows: DataFrame) -> list[str]:
    return [f"_{at}" for at in range(len(rows.columns))]


def _converted(
    conversion: _Conversion, wire: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On executors."""
    spare_next_task()
    for batch in batches:
        yield from conversion.of(pa.Table.from_batches([batch])).cast(wire).to_batches()
