"""Reader of every entry point: files of rows as Arrow batches of the table's types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workers.errors import InvalidInput
from workers.loading.content import Content, InputFile
from workers.loading.findings import BadRow, LoadCounts
from workers.loading.inference import Guess
from workers.loading.json_lines import Line, json_batches
from workers.loading.json_types import Convert, JsonGuess, Misfit, converter
from workers.loading.names import stored_names
from workers.loading.options import LoadOptions
from workers.loading.text import CsvText, TextBlock
from workers.loading.values import ArrowColumn, Converter, UnfitAt, nulls

__all__ = ["BadRow", "InputFile", "LoadCounts", "LoadOptions", "RowSource", "open_rows"]

KEY_SEPARATOR: Final = "|"
EVERYTHING: Final = 1 << 62


class RowSource(Protocol):
    """Rows of files, decoded while they are iterated; each iteration starts from the beginning."""

    @property
    def schema(self) -> pa.Schema:
        """Columns as they will be stored."""
        ...

    @property
    def counts(self) -> LoadCounts:
        """Numbers of the last iteration, whole when it has ended."""
        ...

    @property
    def is_all_known(self) -> bool:
        """Types of new columns come from all rows, and not from the first ones only."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def open_rows(
    files: Sequence[str | Path | InputFile],
    options: LoadOptions,
    table_schema: pa.Schema | None = None,
    *,
    keys: Sequence[str] = (),
    look_bytes: int = EVERYTHING,
    empty_type: pa.DataType | None = None,
) -> RowSource:
    """Open files of one format as rows of the types of `table_schema`. Columns that it lacks are
    typed by `options.column_types`, or by a first pass over as many bytes as `look_bytes`. The
    `keys` may have no missing value. A new column without any value is left out, or has the
    `empty_type`.

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
            return _CsvRows(inputs, options, existing, keys, look_bytes, empty_type)
        case "json":
            return _JsonRows(inputs, options, existing, keys, look_bytes, empty_type)
        case _:
            from workers.loading.parquet_rows import ParquetRows

            return ParquetRows(inputs, options, existing, keys)


def read_rows(rows: RowSource) -> pa.Table:
    """Return everything, in memory."""
    return pa.Table.from_batches(list(rows), schema=rows.schema)


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


@dataclass(frozen=True, slots=True)
class _Columns:
    """What one CSV has: its header, the stored name of each place, and which places are read."""

    header: Sequence[str]
    names: Sequence[str]
    read: Sequence[int]


class _CsvRows:
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
        self._has_no_rows = False
        self._left_out: list[str] = []
        self._renamed: dict[str, str] = {}
        self._columns = [self._get_columns(file) for file in files]
        self._present = list(dict.fromkeys(name for entry in self._columns for name in entry.names))
        self._check_key()
        self.schema = self._get_schema(look_bytes)

    @contextmanager
    def _open_text(self, file: InputFile) -> Iterator[CsvText]:
        with file.opened() as stored:
            yield CsvText(Content(stored, file, self._options), file, self._options)

    def _get_columns(self, file: InputFile) -> _Columns:
        options = self._options
        with self._open_text(file) as text:
            header = text.header
        if not options.header:
            width = len(header)
            fits = len(self._known) == width
            requested = options.columns or (self._known.names if fits else ())
            names = [f"column_{at}" for at in range(1, width + 1)]
            names = list(requested) if len(requested) == width else names
            return _Columns(header, names, range(width))
        names = stored_names(
            header,
            known=self._known.names,
            is_clean=options.names == "clean",
            file=file.name,
            delimiter=options.get_delimiter(file.name),
        )
        self._renamed |= {old: new for old, new in zip(header, names, strict=True) if old != new}
        selected = {*options.columns, *options.key_from} if options.columns else set(names)
        read = [at for at, name in enumerate(names) if name in selected]
        return _Columns(header, names, read)

    def _check_key(self) -> None:
        options = self._options
        if missing := [name for name in options.key_from if name not in self._present]:
            raise InvalidInput(
                "the key is to be made of columns that the file does not have",
                missing=missing,
                columns=self._present,
            )
        if options.key in self._present and options.key:
            raise InvalidInput(
                "the key that is made needs a name that no column of the file has",
                name=options.key,
            )
        result = {options.key} if options.key else set()
        if missing := [n for n in options.columns if n not in self._present and n not in result]:
            raise InvalidInput("file lacks columns", path=self._files[0].name, missing=missing)

    def _get_schema(self, look_bytes: int) -> pa.Schema:
        options = self._options
        chosen = options.columns or tuple(self._present)
        selected = dict.fromkeys([*([options.key] if options.key else []), *chosen])
        requested = {name: self._known.field(name).type for name in self._known.names}
        requested = {**options.column_types, **requested}
        if options.key:
            requested.setdefault(options.key, pa.string())
        new = [name for name in selected if name not in requested]
        if new:
            guesses = self._guess_types(new, look_bytes)
            if doubtful := [name for name, guess in guesses.items() if guess.is_doubtful]:
                guesses |= self._guess_types(doubtful, look_bytes, is_thorough=True)
            empty_type = pa.string() if self._has_no_rows else self._empty_type
            types = {name: guess.type or empty_type for name, guess in guesses.items()}
            self._left_out = [name for name, kind in types.items() if kind is None]
            requested |= {name: kind for name, kind in types.items() if kind is not None}
        return pa.schema(
            [pa.field(name, requested[name]) for name in selected if name in requested]
        )

    def _guess_types(
        self, names: Sequence[str], look_bytes: int, *, is_thorough: bool = False
    ) -> dict[str, Guess]:
        guesses = {name: Guess(self._options, is_thorough=is_thorough) for name in names}
        looked = 0
        for file, columns in zip(self._files, self._columns, strict=True):
            places = [at for at in columns.read if columns.names[at] in guesses]
            with self._open_text(file) as text:
                for block in text.blocks():
                    if looked >= look_bytes:
                        self.is_all_known = False
                        break
                    looked += len(block.data)
                    open_places = [at for at in places if not guesses[columns.names[at]].is_text]
                    # One place at least, so that each row of the file is checked.
                    texts, _ = self._texts(block, columns, open_places or [0])
                    for at in open_places:
                        column = texts.column(str(at))
                        guess = guesses[columns.names[at]]
                        if block.has_quotes:
                            bare = self._without_words(column)
                            guess.has_quoted_words |= bare.null_count > column.null_count
                            column = bare
                        guess.look(column)
        # A file that has only a header shows no types.
        self._has_no_rows = looked == 0
        return guesses

    def _texts(
        self, block: TextBlock, columns: _Columns, places: Sequence[int]
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the fields as texts, missing ones null; and with the null words still in them."""
        width, words = len(columns.header), self._options.null_words
        plain = block.texts(width, places, ())
        if not any(word.encode() in block.data for word in words):
            return plain, plain
        if block.has_quotes:
            return block.texts(width, places, words), plain
        return (
            pa.RecordBatch.from_arrays(
                [self._without_words(column) for column in plain.columns], plain.schema.names
            ),
            plain,
        )

    def _without_words(self, texts: ArrowColumn) -> ArrowColumn:
        words = pa.array(["", *self._options.null_words], pa.string())
        is_word = pc.is_in(texts, value_set=words)
        return pc.if_else(is_word, pa.scalar(None, pa.string()), texts)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.counts = counts = LoadCounts()
        counts.left_out = list(self._left_out)
        counts.renamed = dict(self._renamed)
        converters = {
            field.name: Converter(field.name, field.type, self._options, counts)
            for field in self.schema
        }
        read_before = 0
        for file, columns in zip(self._files, self._columns, strict=True):
            with self._open_text(file) as text:
                for block in text.blocks():
                    batch = self._batch(block, columns, converters)
                    counts.bytes_read = read_before + text.bytes_read
                    if batch.num_rows:
                        counts.rows += batch.num_rows
                        yield batch
                read_before += text.bytes_read

    def _batch(
        self, block: TextBlock, columns: _Columns, converters: Mapping[str, Converter]
    ) -> pa.RecordBatch:
        texts, plain = self._texts(block, columns, columns.read)
        self._count_words(texts, plain)
        places = {columns.names[at]: str(at) for at in columns.read}
        arrays = []
        for field in self.schema:
            if field.name == self._options.key:
                column = _join_parts(
                    [texts.column(places[name]) for name in self._options.key_from]
                )
            elif field.name in places:
                column = texts.column(places[field.name])
            else:
                arrays.append(nulls(texts.num_rows, field.type))
                continue
            is_text = pa.types.is_string(field.type)
            if block.has_quotes and not is_text:
                column = self._without_words(column)
            try:
                arrays.append(converters[field.name].convert(column))
            except UnfitAt as error:
                raise self._bad_row(block, error, field) from error
            self._check_has_key(block, field.name, column, plain, places)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _count_words(self, texts: pa.RecordBatch, plain: pa.RecordBatch) -> None:
        if texts is plain:
            return
        counts = self.counts
        for missing, column in zip(texts.columns, plain.columns, strict=True):
            if missing.null_count == column.null_count:
                continue
            words = column.filter(pc.is_null(missing)).drop_null()
            often: Any = pc.value_counts(words)
            for entry in often.to_pylist():
                counts.nulls_by_word[entry["values"]] += entry["counts"]

    def _check_has_key(
        self,
        block: TextBlock,
        name: str,
        column: ArrowColumn,
        plain: pa.RecordBatch,
        places: Mapping[str, str],
    ) -> None:
        if name not in self._keys or not column.null_count:
            return
        is_missing: ArrowColumn = pc.is_null(column)
        row = pc.index(is_missing, True).as_py()
        sources = self._options.key_from if name == self._options.key else (name,)
        words = [plain.column(places[entry])[row].as_py() for entry in sources]
        word = next((word for word in words if word in self._options.null_words), "")
        raise BadRow(
            f"the key column has no value{f', because {word} means a missing one' if word else ''}",
            file=block.file,
            line=block.get_line(row),
            column=name,
            advice="give null_words=none if the word is a value, or quote it" if word else "",
        )

    def _bad_row(self, block: TextBlock, error: UnfitAt, field: pa.Field[Any]) -> BadRow:
        origin = "" if field.name in self._known.names else " that column_types names"
        return BadRow(
            f"{error.unfit.reason} ({field.type}{origin})",
            file=block.file,
            line=block.get_line(error.position),
            column=field.name,
            advice=error.unfit.advice,
            value=error.value,
        )


def _join_parts(parts: Sequence[ArrowColumn]) -> ArrowColumn:
    """The made key: null where a part is null, so that no two keys are confused."""
    joined: Any = pc.binary_join_element_wise(*parts, KEY_SEPARATOR)
    return joined


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
