"""`spark.dataSource.register(SluiceDataSource)`, then `spark.read.format("sluice")` and
`df.write.format("sluice")`.

Spark plans in processes of its own, which have registered no merger: `source_with` makes a source
that carries those of its user.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from workers.merge.mergers import Merger, get_merger, install_mergers
from workers.read.request import Query, check_columns
from workers.spark.datasource.options import (
    check_is_no_stream,
    condition_of,
    location,
    opened,
    request_of,
    stream_options_of,
    stream_request_of,
    write_options_of,
)
from workers.spark.datasource.reader import (
    SluiceReader,
    check_declared,
    plan_work,
    rows_schema,
)
from workers.spark.datasource.refusing import in_one_sentence
from workers.spark.datasource.stream_reader import SluiceStreamReader
from workers.spark.datasource.stream_writer import SluiceStreamWriter
from workers.spark.datasource.writer import SluiceWriter
from workers.spark.types import to_spark
from workers.table.table import Table


class SluiceDataSource(DataSource):
    """Tables must exist: `create_table` makes them, with their key."""

    mergers: ClassVar[Mapping[str, Merger]] = {}
    """By name, as the user's process has registered them."""

    @classmethod
    def name(cls) -> str:
        """The format's name: `spark.read.format("sluice")`."""
        return "sluice"

    def schema(self) -> StructType:
        """The columns that a read of the table gives. Raises TableNotFound, InvalidInput."""
        with in_one_sentence():
            table, request = self._table(), request_of(self.options)
            if request.query is not Query.CDC:
                return to_spark(plan_work(table, request, condition_of(self.options))[1])
            # Planning looks for files of every commit, some of which may be cleaned away.
            rows = rows_schema(table, request)
            check_columns(request.columns or (), rows.names)
            return to_spark(rows)

    def reader(self, schema: StructType) -> SluiceReader:
        """A reader of what the options ask for, planned now, with the columns of `schema`: our own
        from when the frame was made, or what somebody declared.

        Raises as `plan_work`, TableNotFound, and InvalidInput for options that do not go together,
        or a schema that is not the table's.
        """
        with in_one_sentence():
            table = self._table()
            check_is_no_stream(self.options)
            request = request_of(self.options)
            names = tuple(schema.fieldNames())
            if request.columns is None:
                request = replace(request, columns=names)
            work, rows = plan_work(table, request, condition_of(self.options))
            check_declared(schema, rows)
            return SluiceReader(work, rows)

    def writer(self, schema: StructType, overwrite: bool) -> SluiceWriter:
        """A writer that stages rows in tasks and commits them in the driver. Raises TableNotFound,
        InvalidInput, UnsupportedTable before anything is written.
        """
        with in_one_sentence():
            operation, options = write_options_of(self.options, overwrite=overwrite)
            self._table().check_writable()
            where = location(self.options)
            return SluiceWriter(where, operation, options, schema, self.mergers)

    def streamReader(self, schema: StructType) -> SluiceStreamReader:  # noqa: N802 (Spark's)
        """A reader of windows, each from the commit where the one before ended; `schema` is that of
        the query's start. Raises InvalidInput for options that are not of streams.
        """
        with in_one_sentence():
            request, start = stream_request_of(self.options)
            where, condition = location(self.options), condition_of(self.options)
            return SluiceStreamReader(where, request, condition, start, schema, self.mergers)

    def streamWriter(  # noqa: N802 (Spark's)
        self, schema: StructType, overwrite: bool
    ) -> SluiceStreamWriter:
        """A writer of one commit for each epoch. Raises as `writer`, and InvalidInput without a
        name for the stream.
        """
        with in_one_sentence():
            name, operation, options = stream_options_of(self.options, overwrite=overwrite)
            self._table().check_writable()
            where = location(self.options)
            return SluiceStreamWriter(
                where, name, operation, options, schema, self.mergers, replaces=overwrite
            )

    def _table(self) -> Table:
        install_mergers(self.mergers)
        return opened(location(self.options))


def source_with(*mergers: str) -> type[SluiceDataSource]:
    """The source for tables that these registered mergers fold, to register in its place.

    Raises UnsupportedTable for a name that is not registered here.
    """
    carried = {name: get_merger(name) for name in mergers}

    class SluiceDataSourceWithMergers(SluiceDataSource):
        mergers = carried

    return SluiceDataSourceWithMergers
