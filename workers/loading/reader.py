"""Reader of every entry point: files of rows as Arrow batches of the table's types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workers.errors import InvalidInput
from workers.loading.content import Content, InputFile
from workers.loading.csv_rows import CsvRows
from workers.loading.findings import BadRow, LoadCounts
from workers.loading.json_lines import Line, json_batches
from workers.loading.json_types import Convert, JsonGuess, Misfit, converter
from workers.loading.names import stored_names
from workers.loading.options import LoadOptions
from workers.loading.row_source import FollowedRows, RowSource

__all__ = [
    "BadRow",
    "FollowedRows",
    "InputFile",
    "LoadCounts",
    "LoadOptions",
    "RowSource",
    "open_rows",
]

EVERYTHING: Final = 1 << 62


def open_rows(
    files: Sequence[str | Path | InputFile],
    options: LoadOptions,
    table_schema: pa.Schema | None = None,
    *,
    keys: Sequence[str] = (),
    look_bytes: int = EVERYTHING,
    empty_type: pa.DataType | None = None,
    on_batch: Callable[[RowSource], None] | None = None,
) -> RowSource:
    """Open files of one format as rows of the types of `table_schema`. Columns that it lacks are
    typed by `options.column_types`, or by a first pass over as many bytes as `look_bytes`. The
    `keys` may have no missing value. A new column without any value is left out, or has the
    `empty_type`. `on_batch` is called after each block of a first pass.

    Raises BadRow, InvalidInput for a file that is not as its name or its options declare.
    """
    inputs = [InputFile.of(file) for file in files]
    if not inputs:
        raise InvalidInput("no file to load")
    formats = {options.get_format(file.name) for file in inputs}
    if len(formats) > 1:
        raise InvalidInput("files of one load must have one format", formats=sorted(formats))
    existing = table_schema if table_schema is not None else pa.schema([])
    for name, kind in options.column_types.items():
        if name in existing.names and existing.field(name).type != kind:
            raise InvalidInput(
                "the table has this column with another type, which a load does not change",
                column=name,
                table=existing.field(name).type,
                asked=kind,
            )
    (only,) = formats
    if only != "csv" and options.key_from:
        raise InvalidInput("a key is made of columns of a CSV only", format=only)
    match only:
        case "csv":
            return CsvRows(inputs, options, existing, keys, look_bytes, empty_type, on_batch)
        case "json":
            return _JsonRows(inputs, options, existing, keys, look_bytes, empty_type)
        case _:
            from workers.loading.parquet_rows import ParquetRows

            return ParquetRows(inputs, options, existing, keys)


def read_rows(rows: RowSource) -> pa.Table:
    """Return everything, in memory."""
    return pa.Table.from_batches(list(rows), schema=rows.schema)


def read_up_to(rows: RowSource, size: int) -> pa.Table | None:
    """Return everything, in memory; None if it has more than so many bytes."""
    batches = []
    for batch in rows:
        batches.append(batch)
        size -= batch.nbytes
        if size < 0:
            return None
    return pa.Table.from_batches(batches, schema=rows.schema)


def spool_rows(
    rows: RowSource, file: Path, on_batch: Callable[[RowSource], None] | None = None
) -> None:
    """Write all rows into a Parquet `file`, which appears when it is whole. Memory holds one batch;
    `on_batch` is called after each. Raises as iterating `rows` does.
    """
    beside = file.with_name(f"{file.name}.part")
    try:
        with beside.open("wb") as stream, pq.ParquetWriter(stream, rows.schema) as writer:
            for batch in rows:
                writer.write_table(pa.Table.from_batches([batch], rows.schema))
                if on_batch is not None:
                    on_batch(rows)
        beside.rename(file)
    finally:
        beside.unlink(missing_ok=True)


class _JsonRows:
    """See RowSource."""

    def __init__(
        self,
        files: Sequence[InputFile],
        options: LoadOptions,
        existing: pa.Schema,
        keys: Sequence[str],
        look_bytes: int,
        empty_type: pa.DataType | None,
    ) -> None:
        self._empty_type = empty_type
        self._files = files
        self._options = options
        self._known = existing
        self._keys = keys
        self.counts = LoadCounts()
        self.is_all_known = True
        self._left_out: list[str] = []
        self._names: dict[str, str] = {}
        self.schema = self._get_schema(look_bytes)

    def _get_schema(self, look_bytes: int) -> pa.Schema:
        options = self._options
        guesses: dict[str, JsonGuess] = {}
        fixed = {**options.column_types}
        for field in self._known:
            if not pa.types.is_nested(field.type):
                fixed[field.name] = field.type
        for file in self._files:
            with file.opened() as stored:
                content = Content(stored, file, options)
                for lines in json_batches(content, file):
                    if content.bytes_read > look_bytes:
                        self.is_all_known = False
                        break
                    self._look(lines, guesses, fixed, file.name)
        if not guesses and self._known:
            return self._known
        self._name_columns(list(guesses))
        fields = []
        for old, guess in guesses.items():
            name = self._names[old]
            existing = fixed.get(name)
            if existing is None and name in self._known.names:
                existing = self._known.field(name).type
            empty_type = None if guess.has_value else self._empty_type
            if name in self._keys and not guess.has_value:
                empty_type = pa.string()
            kind = existing if name in fixed else guess.type(existing) or empty_type
            if name not in fixed and (kind is None or guess.has_value):
                self._left_out += guess.empty_places(existing)
            if kind is not None:
                fields.append(pa.field(name, kind))
        chosen = options.columns or [field.name for field in fields]
        by_name = {field.name: field for field in fields}
        if missing := [name for name in options.columns if name not in by_name]:
            raise InvalidInput("file lacks columns", path=self._files[0].name, missing=missing)
        return pa.schema([by_name[name] for name in chosen])

    def _look(
        self,
        lines: Sequence[Line],
        guesses: dict[str, JsonGuess],
        fixed: Mapping[str, Any],
        name: str,
    ) -> None:
        options = self._options
        for number, row in lines:
            for column, value in row.items():
                guess = guesses.get(column)
                if guess is None:
                    guess = guesses[column] = JsonGuess(column, options)
                if column in fixed:
                    continue
                try:
                    guess.look(value)
                except Misfit as error:
                    raise _misfit(error, name, number) from error

    def _name_columns(self, names: Sequence[str]) -> None:
        stored = stored_names(
            names,
            known=self._known.names,
            is_clean=self._options.names == "clean",
            file=self._files[0].name,
        )
        self._names = dict(zip(names, stored, strict=True))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.counts = counts = LoadCounts()
        counts.left_out = list(self._left_out)
        counts.renamed = {old: new for old, new in self._names.items() if old != new}
        converters = {
            field.name: converter(
                field.type, self._options, lambda place, what: counts.convert(place, what, 1)
            )
            for field in self.schema
        }
        read_before = 0
        for file in self._files:
            with file.opened() as stored:
                content = Content(stored, file, self._options)
                for lines in json_batches(content, file):
                    counts.bytes_read = read_before + content.bytes_read
                    counts.rows += len(lines)
                    yield self._batch(lines, converters, file.name)
                read_before += content.bytes_read

    def _batch(
        self, lines: Sequence[Line], converters: Mapping[str, Convert], file: str
    ) -> pa.RecordBatch:
        by_name = {new: old for old, new in self._names.items()}
        arrays = []
        for field in self.schema:
            convert, old = converters[field.name], by_name.get(field.name, field.name)
            result: list[Any] = []
            try:
                result.extend(convert(row.get(old), field.name) for _, row in lines)
                arrays.append(pa.array(result, field.type))
            except Misfit as error:
                raise _misfit(error, file, lines[len(result)][0], f" ({field.type})") from error
            except UnicodeEncodeError as error:
                raise BadRow(
                    "a text holds half of a character (a lone surrogate)",
                    file=file,
                    line=lines[0][0],
                    column=field.name,
                    advice="the line is this one or one of those that follow",
                ) from error
            if field.name in self._keys and arrays[-1].null_count:
                number = lines[pc.index(pc.is_null(arrays[-1]), True).as_py()][0]
                raise BadRow(
                    "the key column has no value", file=file, line=number, column=field.name
                )
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _misfit(error: Misfit, file: str, line: int, kind: str = "") -> BadRow:
    return BadRow(
        f"{error.reason}{kind}",
        file=file,
        line=line,
        column=error.place,
        advice=error.advice,
        value=error.value,
    )
