"""Rows of CSV files. Columns that the table lacks are typed by a first pass over the file, which
keeps what it decodes: only columns whose type turned out to be another one are decoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.loading.content import Content, InputFile
from workers.loading.fields import Fields, can_have_fields, count_words, find_fields
from workers.loading.findings import BadRow, LoadCounts
from workers.loading.inference import Guess
from workers.loading.kept_blocks import KeptBlock, KeptBlocks
from workers.loading.names import stored_names
from workers.loading.options import LoadOptions
from workers.loading.row_source import RowSource
from workers.loading.text import CsvText, TextBlock
from workers.loading.values import ArrowColumn, Converter, UnfitAt, is_beyond_exact, nulls
from workers.threads import beside_each_other

KEY_SEPARATOR: Final = "|"


@dataclass(frozen=True, slots=True)
class _Columns:
    """What one CSV has: its header, the stored name of each place, and which places are read."""

    header: Sequence[str]
    names: Sequence[str]
    read: Sequence[int]


@dataclass(slots=True)
class _Decoded:
    """The columns of a block by name: values where Arrow decodes their type exactly, else texts."""

    block: TextBlock
    rows: int
    columns: dict[str, ArrowColumn] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)


class CsvRows:
    """See `RowSource`. Columns without a type are typed by a first pass, which keeps what it
    decodes for the rows themselves.
    """

    def __init__(
        self,
        files: Sequence[InputFile],
        options: LoadOptions,
        existing: pa.Schema,
        keys: Sequence[str],
        look_bytes: int,
        empty_type: pa.DataType | None,
        on_batch: Callable[[RowSource], None] | None = None,
    ) -> None:
        self._on_batch = on_batch
        self._kept = KeptBlocks()
        self._slow: set[str] = set()
        """Columns that are decoded as texts, because a block had values that Arrow's own decoding
        does not read exactly.
        """
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
            guesses = self._look(new, requested, look_bytes)
            if doubtful := [name for name, guess in guesses.items() if guess.is_doubtful]:
                guesses |= self._look_thoroughly(doubtful, look_bytes)
            empty_type = pa.string() if self._has_no_rows else self._empty_type
            types = {
                # The rows of a key without any value are refused, and not the column left out.
                name: guess.type or (pa.string() if name in self._keys else empty_type)
                for name, guess in guesses.items()
            }
            self._left_out = [name for name, kind in types.items() if kind is None]
            requested |= {name: kind for name, kind in types.items() if kind is not None}
        return pa.schema(
            [pa.field(name, requested[name]) for name in selected if name in requested]
        )

    def _look(
        self, names: Sequence[str], requested: Mapping[str, pa.DataType], look_bytes: int
    ) -> dict[str, Guess]:
        """Find the types of columns, and keep the blocks as they are decoded by then."""
        guesses = {name: Guess(self._options) for name in names}
        self.counts = counts = LoadCounts()
        looked = read_before = 0
        for number, (file, columns) in enumerate(zip(self._files, self._columns, strict=True)):
            with self._open_text(file) as text:
                for block in text.blocks():
                    if looked >= look_bytes:
                        self.is_all_known = False
                        break
                    looked += len(block.data)
                    block_counts = LoadCounts()
                    decoded = self._decode(block, columns, requested, guesses, block_counts)
                    arrays = self._convert_for_now(decoded, requested, guesses, block_counts)
                    batch = pa.RecordBatch.from_pydict(arrays)
                    rows, bytes_read = decoded.rows, text.bytes_read
                    self._kept.add(number, batch, rows, bytes_read, block_counts)
                    counts.rows += rows
                    counts.bytes_read = read_before + bytes_read
                    if self._on_batch is not None:
                        self._on_batch(self)
                else:
                    self._kept.end_file(number)
                read_before += text.bytes_read
        # A file that has only a header shows no types.
        self._has_no_rows = looked == 0
        return guesses

    def _convert_for_now(
        self,
        decoded: _Decoded,
        requested: Mapping[str, pa.DataType],
        guesses: Mapping[str, Guess],
        counts: LoadCounts,
    ) -> dict[str, ArrowColumn]:
        """Return the columns that can be converted already. The iteration of the rows decodes the
        others a second time, and refuses their values.
        """
        arrays: dict[str, ArrowColumn] = {}
        names = [*decoded.columns, *([self._options.key] if self._options.key else [])]
        for name in names:
            kind = guesses[name].type if name in guesses else requested.get(name)
            if kind is None:
                continue
            converter = Converter(name, kind, self._options, LoadCounts())
            try:
                array = self._convert(decoded, name, converter)
            except UnfitAt:
                continue
            if name not in self._keys or not array.null_count:
                arrays[name] = array
                counts.conversions.update(converter.counts.conversions)
        return arrays

    def _look_thoroughly(self, names: Sequence[str], look_bytes: int) -> dict[str, Guess]:
        """Find the types of columns from each of their texts."""
        guesses = {name: Guess(self._options, is_thorough=True) for name in names}
        looked = 0
        for file, columns in zip(self._files, self._columns, strict=True):
            places = {columns.names[at]: at for at in columns.read if columns.names[at] in guesses}
            with self._open_text(file) as text:
                for block in text.blocks():
                    if looked >= look_bytes:
                        break
                    looked += len(block.data)
                    texts, _ = self._texts(block, columns, list(places.values()) or [0])
                    for name, at in places.items():
                        self._look_at(guesses[name], block, texts.column(str(at)))
        return guesses

    def _look_at(self, guess: Guess, block: TextBlock, column: ArrowColumn) -> None:
        if guess.is_text:
            return
        if block.has_quotes:
            bare = self._without_words(column)
            guess.has_quoted_words |= bare.null_count > column.null_count
            column = bare
        guess.look(column)

    def _decode(
        self,
        block: TextBlock,
        columns: _Columns,
        types: Mapping[str, pa.DataType],
        guesses: Mapping[str, Guess],
        counts: LoadCounts,
    ) -> _Decoded:
        """Decode a block: as values where that is as exact as by texts, else as texts. The guesses
        take the values into account. Raises BadRow.
        """
        places = {columns.names[at]: at for at in columns.read}
        typed = {}
        for name in places:
            kind = guesses[name].fast_type if name in guesses else types.get(name)
            if kind is not None and self._is_fast(name, kind):
                typed[name] = kind
        if (decoded := self._decode_typed(block, columns, typed, guesses, counts)) is not None:
            return decoded
        texts, plain = self._texts(block, columns, columns.read or [0])
        _count_words(texts, plain, counts)
        result = _Decoded(block, texts.num_rows)
        for name, at in places.items():
            column = result.columns[name] = texts.column(str(at))
            if name in guesses:
                self._look_at(guesses[name], block, column)
            kind = typed.get(name)
            is_as_before = name not in guesses or guesses[name].fast_type == kind
            if kind is not None and is_as_before and not block.has_quotes:
                self._note_slow(name, column, kind)
        return result

    def _note_slow(self, name: str, texts: ArrowColumn, kind: pa.DataType) -> None:
        try:
            texts.cast(kind)
        except pa.ArrowInvalid:
            self._slow.add(name)

    def _is_fast(self, name: str, kind: pa.DataType) -> bool:
        options, types = self._options, pa.types
        if options.decimal_comma or name in self._slow or name in options.key_from:
            return False
        is_number = types.is_signed_integer(kind) or kind in (pa.float32(), pa.float64())
        is_time = types.is_timestamp(kind) or types.is_date32(kind)
        return is_number or is_time or types.is_string(kind)

    def _decode_typed(
        self,
        block: TextBlock,
        columns: _Columns,
        types: Mapping[str, pa.DataType],
        guesses: Mapping[str, Guess],
        counts: LoadCounts,
    ) -> _Decoded | None:
        """Decode a block by Arrow's own types as far as that is exact; None if it is not a block
        that is checked so, or some value is not of its type.
        """
        width, words = len(columns.header), self._options.null_words
        if not types or not can_have_fields(block):
            return None
        kinds = {at: types.get(columns.names[at], pa.string()) for at in columns.read}
        calls: list[Callable[[], Any]] = [
            lambda: find_fields(block, width),
            lambda: block.values(width, kinds, words),
        ]
        try:
            fields, batch = beside_each_other(lambda call: call(), calls, threads=len(calls))
        except pa.ArrowInvalid:
            return None
        if fields is None or batch.num_rows != fields.row_count:
            return None
        result = _Decoded(block, batch.num_rows)
        again = []
        for at, values in zip(columns.read, batch.columns, strict=True):
            name = columns.names[at]
            result.columns[name] = values
            if name not in types:
                if name in guesses:
                    guesses[name].look(values)
            elif not (
                guesses[name].take(values, fields, at)
                if name in guesses
                else _is_exact(values, fields, at)
            ):
                again.append(at)
        if again:
            texts = block.values(width, dict.fromkeys(again, pa.string()), words)
            for at, column in zip(again, texts.columns, strict=True):
                name = columns.names[at]
                self._slow.add(name)
                result.columns[name] = column
                if name in guesses:
                    guesses[name].look(column)
        counts.nulls_by_word.update(count_words(fields, block.data, words, columns.read))
        result.values.update(name for name in types if columns.names.index(name) not in again)
        return result

    def _convert(self, decoded: _Decoded, name: str, converter: Converter) -> ArrowColumn:
        """Return a column in the type of the converter. Raises UnfitAt."""
        options = self._options
        if name == options.key:
            parts = [decoded.columns[entry] for entry in options.key_from]
            return converter.convert(_join_parts(parts))
        column = decoded.columns[name]
        if name in decoded.values:
            return column
        if decoded.block.has_quotes and not pa.types.is_string(converter.type):
            column = self._without_words(column)
        return converter.convert(column)

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
        read_before = 0
        for number, (file, columns) in enumerate(zip(self._files, self._columns, strict=True)):
            bytes_read = 0
            for batch, bytes_read in self._file_batches(number, file, columns, counts):
                counts.bytes_read = read_before + bytes_read
                if batch.num_rows:
                    counts.rows += batch.num_rows
                    yield batch
            read_before += bytes_read

    def _file_batches(
        self, number: int, file: InputFile, columns: _Columns, counts: LoadCounts
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the rows of a file, and how many of its bytes were read: from the blocks that were
        kept, as long as these have all columns in their types.
        """
        blocks = self._kept.of_file(number)
        done = 0
        for block in blocks:
            arrays = self._take_kept(block, columns)
            if len(arrays) < len(self.schema):
                break
            done += 1
            self._add_counts(counts, block, arrays)
            yield self._build(arrays), block.bytes_read
        if done == len(blocks) and self._kept.is_whole(number):
            return
        with self._open_text(file) as text:
            for at, text_block in enumerate(text.blocks()):
                if at < done:
                    continue
                earlier = blocks[at] if at < len(blocks) else None
                arrays = self._take_kept(earlier, columns) if earlier is not None else {}
                if earlier is not None:
                    self._add_counts(counts, earlier, arrays)
                fresh = LoadCounts()
                self._decode_rest(text_block, columns, arrays, fresh)
                counts.conversions.update(fresh.conversions)
                if earlier is None:
                    counts.nulls_by_word.update(fresh.nulls_by_word)
                yield self._build(arrays), text.bytes_read

    def _add_counts(
        self, counts: LoadCounts, block: KeptBlock, arrays: Mapping[str, ArrowColumn]
    ) -> None:
        counts.nulls_by_word.update(block.counts.nulls_by_word)
        for (name, what), count in block.counts.conversions.items():
            if name in arrays:
                counts.convert(name, what, count)

    def _take_kept(self, block: KeptBlock, columns: _Columns) -> dict[str, ArrowColumn]:
        """Return the columns of a block that have the types of the schema, or do exactly by a
        cast.
        """
        batch = self._kept.read(block)
        stored = {*batch.schema.names}
        present = {*(columns.names[at] for at in columns.read), self._options.key}
        arrays = {}
        for entry in self.schema:
            if entry.name not in present:
                arrays[entry.name] = nulls(block.rows, entry.type)
            elif entry.name in stored:
                widened = _widen(batch.column(entry.name), entry.type)
                if widened is not None:
                    arrays[entry.name] = widened
        return arrays

    def _decode_rest(
        self,
        block: TextBlock,
        columns: _Columns,
        arrays: dict[str, ArrowColumn],
        counts: LoadCounts,
    ) -> None:
        """Add the columns that are not there yet. Raises BadRow."""
        missing = [entry for entry in self.schema if entry.name not in arrays]
        needed = {entry.name for entry in missing}
        if self._options.key in needed:
            needed.update(self._options.key_from)
        read = [at for at in columns.read if columns.names[at] in needed]
        types = {entry.name: entry.type for entry in missing}
        decoded = self._decode(block, replace(columns, read=read), types, {}, counts)
        for entry in missing:
            if entry.name not in decoded.columns and entry.name != self._options.key:
                arrays[entry.name] = nulls(decoded.rows, entry.type)
                continue
            converter = Converter(entry.name, entry.type, self._options, counts)
            try:
                array = self._convert(decoded, entry.name, converter)
            except UnfitAt as error:
                raise self._bad_row(block, error, entry) from error
            if entry.name in self._keys and array.null_count:
                raise self._missing_key(block, columns, entry.name, array)
            arrays[entry.name] = array

    def _build(self, arrays: Mapping[str, ArrowColumn]) -> pa.RecordBatch:
        columns = [arrays[entry.name] for entry in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _missing_key(
        self, block: TextBlock, columns: _Columns, name: str, array: ArrowColumn
    ) -> BadRow:
        is_missing: ArrowColumn = pc.is_null(array)
        row = pc.index(is_missing, True).as_py()
        sources = self._options.key_from if name == self._options.key else (name,)
        places = [columns.names.index(entry) for entry in sources]
        plain = block.texts(len(columns.header), places, ())
        words = [column[row].as_py() for column in plain.columns]
        word = next((word for word in words if word in self._options.null_words), "")
        return BadRow(
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


def _widen(column: ArrowColumn, kind: pa.DataType) -> ArrowColumn | None:
    """Return the values in a type that holds them as exactly; None if the texts are needed."""
    if column.type == kind:
        return column
    if column.null_count == len(column):
        return nulls(len(column), kind)
    if column.type == pa.int64() and (pa.types.is_decimal(kind) or kind == pa.float64()):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            return None
    return None


def _is_exact(values: ArrowColumn, fields: Fields, at: int) -> bool:
    """Check whether Arrow's decoding of a column of the table is what the conversion of its texts
    gives and counts.
    """
    if pa.types.is_integer(values.type):
        return not fields.has_odd_whole(at)
    return not is_beyond_exact(values)


def _count_words(texts: pa.RecordBatch, plain: pa.RecordBatch, counts: LoadCounts) -> None:
    if texts is plain:
        return
    for missing, column in zip(texts.columns, plain.columns, strict=True):
        if missing.null_count == column.null_count:
            continue
        words = column.filter(pc.is_null(missing)).drop_null()
        often: Any = pc.value_counts(words)
        for entry in often.to_pylist():
            counts.nulls_by_word[entry["values"]] += entry["counts"]
