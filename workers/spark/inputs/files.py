"""Files as sources of a Spark write. The driver decodes them with the reader of every other way to
load (`workers.loading`), and Spark reads what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from workers.connections import BucketConnection
from workers.files.arrow_streams import parquet_schema
from workers.given_connection import load_connection_of_kind
from workers.loading.options import OPTION_KEYS, LoadOptions, load_options
from workers.loading.reader import InputFile, open_rows, spool_rows
from workers.loading.source_files import files_here, rows_in_bucket, rows_under_root
from workers.spark.inputs.source import JobSource, Surroundings, WrittenOnce
from workers.spark.types import to_spark
from workers.table.schema_history import load_schema

COPIED_BYTES_MAX = 8_000_000_000
"""Of all objects that a driver copies beside its own files."""


@dataclass(frozen=True, slots=True)
class FileSource(WrittenOnce):
    """Files of one format as one round."""

    files: list[InputFile]
    options: LoadOptions
    around: Surroundings

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> FileSource:
        """Open the files that the job names: one, a folder, or a pattern of names.
        Objects of a bucket are copied first, by the named connection where the job has one.

        Raises InvalidInput for an unknown key or option, a path outside the source roots or the
        prefix of the connection, or no such file; NotFound for an object that there is not.
        """
        job_source.only("path", "connection", *OPTION_KEYS)
        requested = {
            name: value for name, value in job_source.values.items() if name in OPTION_KEYS
        }
        kind = job_source.text("kind")
        options = load_options({**requested, "format": kind})
        return cls(_files_here(job_source, around), options, around)

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """Return all rows of the files, whatever `number`, with the types of the table.

        Raises BadRow for a row that the table cannot take.
        """
        table = self.around.table
        schema = load_schema(table)
        rows = open_rows(
            self.files,
            self.options,
            schema.arrow if schema is not None else None,
            keys=table.config.record_key,
        )
        spool = self.around.scratch / "rows.parquet"
        spool_rows(rows, spool)
        return parquet_frame(spark, spool)


def _files_here(job_source: JobSource, around: Surroundings) -> list[InputFile]:
    path, kind, connection = job_source.text("path"), job_source.text("kind"), None
    if name := job_source.text("connection", ""):
        connection = load_connection_of_kind(name, BucketConnection, around.environment)
        files = rows_in_bucket(connection, path, around.environment, kind)
    else:
        files = rows_under_root(path, around.environment, kind)
    return files_here(files, around.scratch, bytes_max=COPIED_BYTES_MAX, connection=connection)


def parquet_frame(spark: SparkSession, file: Path) -> DataFrame:
    """The rows of a Parquet file of this machine, with the types that Arrow sees in it."""
    return spark.read.schema(to_spark(parquet_schema(file))).parquet(f"file://{file}")
