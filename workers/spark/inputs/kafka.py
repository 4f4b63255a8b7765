"""A topic of Kafka as the source of one write: from settled offsets to the end that the topic had
when the write began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from workers.clock import SystemClock
from workers.errors import InvalidInput
from workers.files.arrow_streams import parquet_schema
from workers.sink.bounded_read import OFFSETS, BoundedRead, OffsetRanges, parse_bounded_read
from workers.sink.bounded_reader import TopicReader, resolve_offsets
from workers.spark.inputs.source import JobSource, Surroundings, WrittenOnce
from workers.spark.types import to_spark
from workers.table.schema_history import load_schema


@dataclass(frozen=True, slots=True)
class KafkaSource(WrittenOnce):
    """One round: the records of its offsets, decoded under the table's columns."""

    read: BoundedRead
    offsets: OffsetRanges
    around: Surroundings

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> KafkaSource:
        """Settles the offsets with the broker. Raises InvalidInput, NotFound, OffsetExpired,
        KafkaFailed.
        """
        read = parse_bounded_read(job_source.values)
        return cls(read, resolve_offsets(read, around.environment), around)

    @property
    def settled(self) -> Mapping[str, str]:
        """The offsets, so that a writer in the place of this one reads the same records."""
        return {OFFSETS: self.offsets.encode()}

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """All records, whatever `number`. Raises InvalidInput naming a record that is no row."""
        spool = self._spooled()
        return spark.read.schema(to_spark(parquet_schema(spool))).parquet(f"file://{spool}")

    def _spooled(self) -> Path:
        spool = self.around.scratch / "records.parquet"
        if spool.exists():
            return spool  # Another attempt at the commit; the records are the same.
        table = self.around.table
        known = load_schema(table)
        if known is None:
            raise InvalidInput(
                "the table has no columns yet, so records have no types",
                table=table.storage.location,
            )
        required = [*table.config.record_key, *table.config.partition_by]
        reader = TopicReader(self.read, self.around.environment, SystemClock())
        fresh = spool.with_suffix(".new")
        reader.spool(self.offsets, known.declared, required, fresh)
        fresh.replace(spool)
        return spool
