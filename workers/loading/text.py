"""CSV as RFC 4180 has it and as Python's `csv` reads it: blocks of whole records, decoded by Arrow
as texts. Only a block that Arrow refuses is read again by `csv`, to name the line.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from workers.errors import InvalidInput
from workers.loading.content import Content, InputFile, count_lines, reject_encoding, reject_nul
from workers.loading.findings import BadRow
from workers.loading.options import LoadOptions

BLOCK_BYTES: Final = 8 << 20
FIRST_BYTES: Final = 256 << 10
"""Enough to guess types by, so that nearly all of the file is decoded by them."""
RECORD_BYTES_MAX: Final = 128 << 20
_OTHER_DELIMITERS: Final = (";", "\t", "|", ",")
_DATA_LIKE: Final = re.compile(r"\s*[+-]?[\d.,]*\d[\d.,]*\s*|\s*\d{4}-\d\d-\d\d.*")

csv.field_size_limit(min(sys.maxsize, 2**31 - 1))


@dataclass(frozen=True)
class Dialect:
    """What separates, quotes and escapes."""

    delimiter: str
    quote: str
    escape: str

    @cached_property
    def record(self) -> re.Pattern[bytes]:
        """A record with its line end, of whole bytes; no match where its end is not there."""
        return re.compile(self._fields + rb"(?:\r\n|\n|\r(?=[\s\S]))")

    @cached_property
    def records(self) -> re.Pattern[bytes]:
        """A sequence of records."""
        return re.compile(rb"(?:" + self.record.pattern + rb")*+")

    @cached_property
    def last(self) -> re.Pattern[bytes]:
        """The last record of a file, whose line end may be missing."""
        return re.compile(self._fields + rb"\r?")

    @cached_property
    def _fields(self) -> bytes:
        delimiter, quote = (re.escape(sign.encode()) for sign in (self.delimiter, self.quote))
        escape = re.escape(self.escape.encode())
        escaped = escape + rb"[\s\S]|" if self.escape else b""
        inner = rb"(?:" + escaped + rb"[^" + delimiter + rb"\r\n" + escape + rb"])*+"
        if not self.quote:
            field = inner
        else:
            closed = rb"(?:" + escaped + rb"[^" + quote + escape + rb"]|" + quote * 2 + rb")*+"
            plain = rb"(?!" + quote + rb")" + inner
            field = rb"(?:" + quote + closed + quote + inner + rb"|" + plain + rb")"
        return field + rb"(?:" + delimiter + field + rb")*+"

    def reader(self, text: str) -> Any:
        """Python's own reader of the same dialect."""
        quoting: Any = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        return csv.reader(
            io.StringIO(text, newline=""),
            delimiter=self.delimiter,
            quotechar=self.quote or None,
            escapechar=self.escape or None,
            doublequote=True,
            quoting=quoting,
        )


@dataclass(frozen=True)
class TextBlock:
    """Whole records of a file, and where they begin."""

    file: str
    data: bytes
    line: int
    dialect: Dialect

    @cached_property
    def has_quotes(self) -> bool:
        """A field may be quoted."""
        return bool(self.dialect.quote) and self.dialect.quote.encode() in self.data

    def get_line(self, row: int) -> int:
        """Return the line in which a row of the block begins."""
        for number, (line, _) in enumerate(self.records()):
            if number == row:
                return line
        return self.line

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each record with the line in which it begins; blank lines are none."""
        reader = self.dialect.reader(self.data.decode(errors="replace"))
        begins = self.line
        for fields in reader:
            if fields:
                yield begins, fields
            begins = self.line + reader.line_num

    def texts(
        self, width: int, columns: Sequence[int], null_words: Sequence[str]
    ) -> pa.RecordBatch:
        """Return the fields at these positions as texts, named by position. An empty field that is
        not quoted is null, and so are the words. Raises BadRow.
        """
        try:
            return self.values(width, dict.fromkeys(columns, pa.string()), null_words)
        except pa.ArrowInvalid as error:
            raise self._refusal(width, error) from error

    def values(
        self, width: int, types: Mapping[int, pa.DataType], null_words: Sequence[str]
    ) -> pa.RecordBatch:
        """Return the fields at these positions in these types, as `texts`. Raises ArrowInvalid, for
        a value that Arrow does not read in its type too.
        """
        names = [str(at) for at in range(width)]
        selected = {names[at]: kind for at, kind in types.items()}
        if self.data[:1] in b"\r\n" and not self.data.strip(b"\r\n"):
            empty = [pa.array([], kind) for kind in selected.values()]
            return pa.RecordBatch.from_arrays(empty, list(selected))
        stored: Any = pa.py_buffer(self.data)
        table = pa_csv.read_csv(
            stored,
            read_options=pa_csv.ReadOptions(column_names=names, block_size=len(self.data) + 1),
            parse_options=pa_csv.ParseOptions(
                delimiter=self.dialect.delimiter,
                quote_char=self.dialect.quote or False,
                escape_char=self.dialect.escape or False,
                newlines_in_values=self.has_quotes or bool(self.dialect.escape),
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(selected),
                column_types=selected,
                null_values=["", *null_words],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return _one_batch(table)

    def _refusal(self, width: int, error: pa.ArrowInvalid) -> InvalidInput:
        reject_encoding(self.data, self.file, self.line)
        for line, fields in self.records():
            if len(fields) != width:
                return self._describe_ragged(line, fields, width)
        return BadRow(f"the text is not read as CSV ({error})", file=self.file, line=self.line)

    def _describe_ragged(self, line: int, fields: Sequence[str], width: int) -> BadRow:
        advice = "quote fields that hold the delimiter or a line break"
        if width == 1 and (other := _other_delimiter(fields, self.dialect.delimiter)):
            advice = f"give delimiter={_name_sign(other)}"
        return BadRow(
            f"the row has {len(fields)} fields and the header has {width}",
            file=self.file,
            line=line,
            advice=advice,
        )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if batches:
        return batches[0]
    return pa.RecordBatch.from_pylist([], schema=table.schema)


class CsvText:
    """One opened CSV: its header, then its blocks."""

    def __init__(self, content: Content, file: InputFile, options: LoadOptions) -> None:
        self._content = content
        self._name = file.name
        self._has_header = options.header
        self.dialect = Dialect(options.get_delimiter(file.name), options.quote, options.escape)
        self._rest = b""
        self._line = 1
        self._is_whole = False
        self.header: list[str] = []
        """The names of the first line; without one, empty texts for as many fields."""
        self._read_header()

    @property
    def bytes_read(self) -> int:
        """Bytes of the stored file that were read."""
        return self._content.bytes_read

    def blocks(self) -> Iterator[TextBlock]:
        """Blocks of whole records behind the header. Raises BadRow."""
        while not self._is_whole:
            end = self._end_of_records()
            if end:
                yield self._take(end)
            self._fill(max(BLOCK_BYTES, len(self._rest)))
        if end := self._end_of_records():
            yield self._take(end)
        if self._rest:
            self._check_closed()
            yield self._take(len(self._rest))

    def _take(self, end: int) -> TextBlock:
        block = TextBlock(self._name, self._rest[:end], self._line, self.dialect)
        self._line += count_lines(block.data)
        self._rest = self._rest[end:]
        return block

    def _fill(self, size: int) -> None:
        if len(self._rest) > RECORD_BYTES_MAX:
            raise BadRow(
                "a row is longer than 128 MB",
                file=self._name,
                line=self._line,
                advice="close the quote that opens there",
            )
        data = self._content.read(size)
        self._is_whole = not data
        self._rest = self._rest + data if self._rest else data

    def _read_header(self) -> None:
        self._fill(min(FIRST_BYTES, BLOCK_BYTES))
        while True:
            self._skip_blank_lines()
            if self._is_whole and not self._rest:
                raise InvalidInput(
                    "the file is empty: its first line must name the columns", file=self._name
                )
            match = self.dialect.record.match(self._rest)
            if match is None and not self._is_whole:
                self._fill(max(BLOCK_BYTES, len(self._rest)))
                continue
            end = match.end() if match else len(self._rest)
            break
        if match is None:
            self._check_closed()
        reject_encoding(self._rest[:end], self._name, self._line)
        reject_nul(self._rest[:end], self._name)
        ((_, fields),) = list(TextBlock(self._name, self._rest[:end], 1, self.dialect).records())
        if not self._has_header:
            self.header = [""] * len(fields)
            return
        self._take(end)
        self.header = fields

    def _skip_blank_lines(self) -> None:
        stripped = self._rest.lstrip(b"\r\n")
        skipped = self._rest[: len(self._rest) - len(stripped)]
        # A CR at the end of what was read may be the half of a line end.
        self._line += count_lines(skipped)
        self._rest = stripped

    def _check_closed(self) -> None:
        """Refuse a quote that opens in the last record and is never closed, as BadRow."""
        match = self.dialect.last.match(self._rest)
        if match is None or match.end() < len(self._rest):
            raise BadRow("a quote opens and is never closed", file=self._name, line=self._line)

    def _end_of_records(self) -> int:
        """Return where the last whole record of what was read ends."""
        data, dialect = self._rest, self.dialect
        if dialect.escape:
            return _match_end(data, dialect)
        if not dialect.quote or dialect.quote.encode() not in data:
            end = data.rfind(b"\n") + 1
            # A CR at the edge may be the first half of a line end.
            return end or data.rfind(b"\r", 0, -1) + 1
        signs = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(signs == ord(dialect.quote))
        opening = quotes[::2]
        before = signs[np.maximum(opening - 1, 0)]
        allowed = [ord(sign) for sign in (dialect.delimiter, "\n", "\r", dialect.quote)]
        if not np.all((opening == 0) | np.isin(before, allowed)):
            # A quote within a field that is not quoted is a sign like any other.
            return _match_end(data, dialect)
        end = len(data)
        while True:
            end = data.rfind(b"\n", 0, end) + 1
            if end == 0:
                return _match_end(data, dialect) if b"\r" in data else 0
            if np.searchsorted(quotes, end) % 2 == 0:
                return end
            end -= 1


def _match_end(data: bytes, dialect: Dialect) -> int:
    match = dialect.records.match(data)
    return match.end() if match else 0


def guess_of_header(header: Sequence[str], delimiter: str) -> str:
    """Return what is probably wrong with names that no columns can have, as advice, or nothing."""
    if len(header) == 1 and (other := _other_delimiter(header, delimiter)):
        return (
            f"the fields look separated by {_name_sign(other)}: give delimiter={_name_sign(other)}"
        )
    if any(not name.strip() or _DATA_LIKE.fullmatch(name) for name in header) and sum(
        bool(_DATA_LIKE.fullmatch(name)) for name in header
    ):
        return "the first line seems to be data: give header=false"
    return ""


def _other_delimiter(fields: Sequence[str], delimiter: str) -> str:
    signs = [sign for sign in _OTHER_DELIMITERS if sign != delimiter]
    often = {sign: sum(field.count(sign) for field in fields) for sign in signs}
    best = max(signs, key=lambda sign: often[sign])
    return best if often[best] else ""


def _name_sign(sign: str) -> str:
    return "tab" if sign == "\t" else sign
