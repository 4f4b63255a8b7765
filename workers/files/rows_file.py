"""Files that bring rows: CSV with a word for missing values, JSON lines and Parquet. Read whole, by
Arrow.

Column types of a CSV are decided here and nowhere else: Spark's tasks read the same file with
exactly these types, so every way of loading it sees the same rows.
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
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from workers.errors import InvalidInput

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

    def read(self, known: pa.Schema | None = None) -> pa.Table:
        """Everything; `known` decides the types of the columns that it names.

        Raises InvalidInput for a file that is no CSV, or has other values.
        """
        try:
            return self._with_key(self.typed(known))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
            raise InvalidInput("file is not read as CSV", path=self.path, why=error) from error

    def typed(self, known: pa.Schema | None = None) -> pa.Table:
        """The file's own columns, without the made key. Raises InvalidInput, ArrowInvalid."""
        flat = [field for field in known or () if not pa.types.is_nested(field.type)]
        convert = pa_csv.ConvertOptions(
            column_types={field.name: field.type for field in flat},
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
            self._check_key(table.column_names)
            texts = pa_csv.read_csv(self.path, convert_options=convert)
            parts: Any = [texts.column(name) for name in self.key_from]
            keys = pc.binary_join_element_wise(*parts, KEY_SEPARATOR)
            table = table.add_column(0, pa.field(self.key, pa.string()), keys)
        return table.select(self.chosen(table.column_names))

    def _check_key(self, present: Sequence[str]) -> None:
        """Raises InvalidInput."""
        if missing := [name for name in self.key_from if name not in present]:
            raise InvalidInput(
                "the key is to be made of columns that the file does not have",
                missing=missing,
                columns=list(present),
            )
        if self.key in present:
            raise InvalidInput(
                "the key that is made needs a name that no column of the file has", name=self.key
            )

    def chosen(self, present: Sequence[str]) -> list[str]:
        """Those of the columns that are wanted. Raises InvalidInput."""
        if not self.columns:
            return list(present)
        wanted = list(dict.fromkeys([*([self.key] if self.key else []), *self.columns]))
        if missing := [name for name in wanted if name not in present]:
            raise InvalidInput("file lacks columns", path=self.path, missing=missing)
        return wanted


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """One Parquet file."""

    path: str

    def read(self) -> pa.Table:
        """Everything. Raises InvalidInput for a file that is no Parquet."""
        try:
            # A file that Arrow opens itself: its threads call no Python.
            return pq.read_table(self.path, partitioning=None)  # noqa: TID251
        except pa.ArrowInvalid as error:
            raise InvalidInput("file is not read as Parquet", path=self.path, why=error) from error

    def head(self, rows_max: int) -> tuple[pa.Table, bool]:
        """The first rows, and whether these are all. Reads no more of the file than it needs.

        Raises InvalidInput for a file that is no Parquet.
        """
        try:
            # A file that Arrow opens itself: its threads call no Python.
            with pq.ParquetFile(self.path) as file:  # noqa: TID251
                batches = []
                rows_left = rows_max
                for batch in file.iter_batches(batch_size=rows_max):
                    batches.append(batch.slice(0, rows_left))
                    rows_left -= batches[-1].num_rows
                    if rows_left == 0:
                        break
                table = pa.Table.from_batches(batches, schema=file.schema_arrow)
                return table, table.num_rows == file.metadata.num_rows
        except pa.ArrowInvalid as error:
            raise InvalidInput("file is not read as Parquet", path=self.path, why=error) from error


@dataclass(frozen=True, slots=True)
class JsonFile:
    """One file of JSON objects, one a line."""

    path: str

    def read(self) -> pa.Table:
        """Everything; a field that a line lacks is null there. Raises InvalidInput for a file that
        has other lines.
        """
        try:
            table = pa_json.read_json(self.path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInput(
                "file is not read as JSON lines", path=self.path, why=error
            ) from error
        for name in table.column_names:
            if not _COLUMN.match(name):
                raise InvalidInput("column name is not plain", column=name[:80])
        return table.cast(pa.schema([_settled(field) for field in table.schema]))


def names(text: str) -> tuple[str, ...]:
    """`a, b` as names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _settled(field: pa.Field[Any]) -> pa.Field[Any]:
    """A type that the format holds: times in microseconds, a column without any value as text."""
    if pa.types.is_null(field.type):
        return field.with_type(pa.string())
    if pa.types.is_timestamp(field.type):
        return field.with_type(pa.timestamp("us", tz="UTC" if field.type.tz else None))
    return field
