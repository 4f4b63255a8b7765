"""`spark.dataSource.register(SluiceDataSource)`, then `spark.read.format("sluice")` and
`df.write.format("sluice")`.

Spark plans in processes of its own, which have registered no merger: `source_with` makes a source
that carries those of its user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from workers.errors import InvalidInput
from workers.merge.mergers import Merger, adopt_mergers, merger_named
from workers.options.read_keys import FILTER
from workers.spark.datasource.options import location, opened, request_of, write_options_of
from workers.spark.datasource.reader import SluiceReader, plan_work
from workers.spark.datasource.refusing import RefusingStreamReader, in_one_sentence
from workers.spark.datasource.writer import SluiceWriter
from workers.spark.scan import Work
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
            return to_spark(self._planned()[1])

    def reader(self, schema: StructType) -> SluiceReader:
        """A reader of what the options ask for, planned now; `schema` is ignored, it is our own
        again.

        Raises as `plan_work`, TableNotFound, and InvalidInput for options that do not go together.
        """
        with in_one_sentence():
            return SluiceReader(*self._planned())

    def writer(self, schema: StructType, overwrite: bool) -> SluiceWriter:
        """A writer that stages rows in tasks and commits them in the driver. Raises TableNotFound,
        InvalidInput, UnsupportedTable before anything is written.
        """
        with in_one_sentence():
            operation, options = write_options_of(self.options, overwrite=overwrite)
            self._table().check_writable()
            where = location(self.options)
            return SluiceWriter(where, operation, options, schema, self.mergers)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        """A reader that raises InvalidInput as soon as Spark asks it where the stream begins."""
        return RefusingStreamReader()

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802 (Spark's)
        """Refuse to write as a stream. Raises InvalidInput."""
        with in_one_sentence():
            raise InvalidInput(
                "the sluice source writes no streams; write each batch from foreachBatch, with "
                "table.write(batch)"
            )

    def _planned(self) -> tuple[Work, pa.Schema]:
        return plan_work(self._table(), request_of(self.options), self.options.get(FILTER))

    def _table(self) -> Table:
        adopt_mergers(self.mergers)
        return opened(location(self.options))


def source_with(*mergers: str) -> type[SluiceDataSource]:
    """The source for tables that these registered mergers fold, to register in its place.

    Raises UnsupportedTable for a name that is not registered here.
    """
    carried = {name: merger_named(name) for name in mergers}

    class SluiceDataSourceWithMergers(SluiceDataSource):
        mergers = carried

    return SluiceDataSourceWithMergers
