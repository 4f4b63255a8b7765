"""Files as sources of a Spark write: read by Spark's tasks, with the types that Arrow decided."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit
from pyspark.sql.types import StringType, StructField, StructType

from workers.connections import BucketConnection
from workers.files.arrow_streams import parquet_schema
from workers.files.rows_file import KEY_SEPARATOR, CsvFile, JsonFile, names
from workers.given_connection import load_connection_of_kind
from workers.spark.inputs.source import JobSource, Surroundings, WrittenOnce
from workers.spark.types import to_spark
from workers.storage.copying import file_here
from workers.storage.roots import rows_place_in_bucket, rows_place_under_root

COPIED_BYTES_MAX = 8_000_000_000
"""Of an object that a driver copies beside its own files."""


@dataclass(frozen=True, slots=True)
class FileSource(WrittenOnce):
    """A file as one round."""

    file: CsvFile | Path

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> FileSource:
        """The CSV, JSON or Parquet file that the job names; an object of a bucket is copied first,
        by the named connection where the job has one.

        Raises InvalidInput for an unknown key, or a path outside the source roots or the prefix of
        the connection, NotFound for an object that there is not.
        """
        path = _file_here(job_source, around)
        if job_source.values["kind"] in ("json", "parquet"):
            job_source.only("path", "connection")
            return cls(path if job_source.values["kind"] == "parquet" else _spooled(path, around))
        job_source.only("path", "connection", "missing", "key", "key_from", "columns")
        file = CsvFile(
            path=str(path),
            missing=job_source.text("missing", "NA"),
            key=job_source.text("key", ""),
            key_from=names(job_source.text("key_from", "")),
            columns=names(job_source.text("columns", "")),
        )
        return cls(file)

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """The whole file, whatever `number`; a CSV file's columns as it chooses them, with the key
        made.
        """
        if isinstance(self.file, CsvFile):
            return _csv_frame(spark, self.file)
        return parquet_frame(spark, self.file)


def _file_here(job_source: JobSource, around: Surroundings) -> Path:
    path, connection = job_source.text("path"), None
    if name := job_source.text("connection", ""):
        connection = load_connection_of_kind(name, BucketConnection, around.environment)
        place = rows_place_in_bucket(connection, path, around.environment)
    else:
        place = rows_place_under_root(path, around.environment)
    return file_here(place, around.scratch, bytes_max=COPIED_BYTES_MAX, connection=connection)


def parquet_frame(spark: SparkSession, file: Path) -> DataFrame:
    """The rows of a Parquet file of this machine, with the types that Arrow sees in it."""
    return spark.read.schema(to_spark(parquet_schema(file))).parquet(f"file://{file}")


def _spooled(path: Path, around: Surroundings) -> Path:
    """The lines of a JSON file as a Parquet file of the driver's: Arrow reads the whole of it to
    know the types, and Spark would read times in another way.
    """
    spool = around.scratch / "lines.parquet"
    with spool.open("wb") as file:
        pq.write_table(JsonFile(str(path)).read(), file)
    return spool


def _csv_frame(spark: SparkSession, file: CsvFile) -> DataFrame:
    """Everything, read by Spark's tasks as text and cast to the types that Arrow found."""
    typed = file.typed()
    texts = StructType([StructField(name, StringType()) for name in typed.column_names])
    lines = (
        spark.read.schema(texts)
        .option("header", "true")
        .option("nullValue", file.missing)
        .option("enforceSchema", "false")
        .csv(f"file://{file.path}")
    )
    made = [_made_key(file)] if file.key else []
    types = to_spark(typed.schema)
    cast = [col(field.name).cast(field.dataType).alias(field.name) for field in types]
    frame = lines.select(*made, *cast)
    return frame.select(*file.chosen(frame.columns))


def _made_key(file: CsvFile) -> Column:
    """Null where a part is null, so that the row is refused and no two keys are confused."""
    parts: list[Column] = []
    for name in file.key_from:
        parts += [lit(KEY_SEPARATOR), col(name)] if parts else [col(name)]
    return concat(*parts).alias(file.key)
