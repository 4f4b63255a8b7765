"""`spark.dataSource.register(SluiceDataSource)`, then `spark.read.format("sluice")` and
`df.write.format("sluice")`.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from workers.spark.scan import Work
from workers.spark.source.options import location, opened, request_of, write_options_of
from workers.spark.source.reader import SluiceReader, plan_work
from workers.spark.source.writer import SluiceWriter
from workers.spark.types import to_spark


class SluiceDataSource(DataSource):
    """Tables must exist: `create_table` makes them, with their key."""

    @classmethod
    def name(cls) -> str:
        return "sluice"

    def schema(self) -> StructType:
        """Raises TableNotFound, InvalidInput."""
        return to_spark(self._planned()[1])

    def reader(self, schema: StructType) -> SluiceReader:
        return SluiceReader(*self._planned())

    def writer(self, schema: StructType, overwrite: bool) -> SluiceWriter:
        """Raises TableNotFound, InvalidInput, UnsupportedTable before anything is written."""
        where = location(self.options)
        operation, options = write_options_of(self.options, overwrite=overwrite)
        opened(where).check_writable()
        return SluiceWriter(where, operation, options, schema)

    def _planned(self) -> tuple[Work, pa.Schema]:
        return plan_work(opened(location(self.options)), request_of(self.options))
