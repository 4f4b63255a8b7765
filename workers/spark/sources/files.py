"""Files as sources: CSV with a word for missing values, and Parquet.

Column types are decided once, by Arrow's reader over the whole file; Spark's tasks then read the
file by path with exactly these types. So both ways of loading see the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit
from pyspark.sql.types import StringType, StructField, StructType

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.spark.roots import source_under_root
from workers.spark.sources.source import Asked, Surroundings, WrittenOnce
from workers.spark.types import to_spark

KEY_SEPARATOR = "|"
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


@dataclass(frozen=True, slots=True)
class CsvFile:
    """One CSV file with a header line."""

    path: str
    missing: str = "NA"
    key: str = ""
    """The name of a column made of `key_from`; empty where the file has its own key."""
    key_from: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """Only these, in this order; empty for all. The made key is always among them."""

    def __post_init__(self) -> None:
        if bool(self.key) != bool(self.key_from):
            raise InvalidInput("a made key needs a name and columns", key=self.key)
        if not Path(self.path).is_absolute():
            raise InvalidInput("path is not absolute", path=self.path)

    def read(self) -> pa.Table:
        """Everything, by Arrow. Raises InvalidInput for a file that is no CSV."""
        try:
            return self._with_key(self._typed())
        except (pa.ArrowInvalid, KeyError) as error:
            raise InvalidInput("file is not read as CSV", path=self.path, why=error) from error

    def frame(self, spark: SparkSession) -> DataFrame:
        """Everything, read by Spark's tasks as text and cast to the types that Arrow found."""
        typed = self._typed()
        names = typed.column_names
        texts = StructType([StructField(name, StringType()) for name in names])
        lines = (
            spark.read.schema(texts)
            .option("header", "true")
            .option("nullValue", self.missing)
            .option("enforceSchema", "false")
            .csv(f"file://{self.path}")
        )
        types = to_spark(typed.schema)
        made = [self._made_key()] if self.key else []
        cast = [col(field.name).cast(field.dataType).alias(field.name) for field in types]
        frame = lines.select(*made, *cast)
        return frame.select(*self._chosen(frame.columns))

    def _made_key(self) -> Column:
        """Null where a part is null, so that the row is refused and no two keys are confused."""
        parts: list[Column] = []
        for name in self.key_from:
            parts += [lit(KEY_SEPARATOR), col(name)] if parts else [col(name)]
        return concat(*parts).alias(self.key)

    def _typed(self) -> pa.Table:
        convert = pa_csv.ConvertOptions(
            null_values=["", self.missing],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        table = pa_csv.read_csv(self.path, convert_options=convert)
        for name in table.column_names:
            if not _COLUMN.match(name):
                raise InvalidInput("column name is not plain", column=name[:80])
        return table.cast(pa.schema([_settled(field) for field in table.schema]))

    def _with_key(self, table: pa.Table) -> pa.Table:
        if self.key:
            # The texts as they stand in the file, so that nobody's formatting is part of a key.
            convert = pa_csv.ConvertOptions(
                include_columns=list(self.key_from),
                column_types=dict.fromkeys(self.key_from, pa.string()),
            )
            texts = pa_csv.read_csv(self.path, convert_options=convert)
            parts: Any = [texts.column(name) for name in self.key_from]
            keys = pc.binary_join_element_wise(*parts, KEY_SEPARATOR)
            table = table.add_column(0, pa.field(self.key, pa.string()), keys)
        return table.select(self._chosen(table.column_names))

    def _chosen(self, present: Sequence[str]) -> list[str]:
        if not self.columns:
            return list(present)
        wanted = list(dict.fromkeys([*([self.key] if self.key else []), *self.columns]))
        if missing := [name for name in wanted if name not in present]:
            raise InvalidInput("file lacks columns", path=self.path, missing=missing)
        return wanted


def _settled(field: pa.Field[Any]) -> pa.Field[Any]:
    """A type that the format holds: times in microseconds, a column without any value as text."""
    if pa.types.is_null(field.type):
        return field.with_type(pa.string())
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.timestamp("us", tz="UTC" if field.type.tz else None))
    return field


@dataclass(frozen=True, slots=True)
class FileSource(WrittenOnce):
    """A file as one round."""

    file: CsvFile | Path

    @classmethod
    def from_asked(cls, asked: Asked, around: Surroundings) -> FileSource:
        path = source_under_root(asked.text("path"), around.environment)
        if asked.values["kind"] == "parquet":
            asked.only("path")
            return cls(path)
        asked.only("path", "missing", "key", "key_from", "columns")
        file = CsvFile(
            path=str(path),
            missing=asked.text("missing", "NA"),
            key=asked.text("key", ""),
            key_from=names(asked.text("key_from", "")),
            columns=names(asked.text("columns", "")),
        )
        return cls(file)

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        if isinstance(self.file, CsvFile):
            return self.file.frame(spark)
        schema = to_spark(pq.read_schema(self.file))
        return spark.read.schema(schema).parquet(f"file://{self.file}")

    def before_commit(self, instant: InstantTime) -> None:
        return


def names(text: str) -> tuple[str, ...]:
    """`a, b` as names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
