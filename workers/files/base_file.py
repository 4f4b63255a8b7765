"""Base files: Parquet with meta columns, and the footer keys that Hudi's own writers require."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from workers.errors import MalformedTable
from workers.files.arrow_streams import OpenParquet, parquet_file
from workers.files.calendar import PROLEPTIC, check_calendar
from workers.files.constant_columns import (
    ConstantColumns,
    decode_texts,
    find_dictionary_texts,
    repeating_columns,
)
from workers.files.footer_keys import FooterKeys, KeyFilter, range_footer
from workers.files.key_range import KeyBounds
from workers.files.meta_columns import META_COLUMNS, RECORD_KEY
from workers.storage.base import Storage

Codec = Literal["gzip", "brotli", "lz4", "zstd", "snappy", "none"]

# What reading damaged Parquet may raise; ValueError is a footer with broken text.
UNREADABLE = (pa.ArrowException, OSError, ValueError)

# Row groups bound what a reader or a rewrite holds at once, and let key ranges skip some.
ROW_GROUP_ROWS: Final = 16_384
"""The fewer rows a group has, the more of a file its statistics leave out, because a column is read
by whole groups. docs/performance.md has the figures of other sizes.
"""
_WIDE_COLUMNS: Final = 64
"""Each column of a row group costs some bytes of the footer and some time. Files with more columns
than this have as many times more rows in a group, up to PART_ROWS.
"""
PART_ROWS: Final = 131_072
"""Readers and writers hold so many narrow rows of a file in memory, and fewer wide ones."""
_FEW_ROWS = 10_000
"""A second opening for the dictionaries costs as much as decoding the text of so few rows."""
_ROW_GROUP_BYTES = 64 << 20
_BATCH_ROWS = 65_536
_BATCH_BYTES = 32 << 20

AVRO_SCHEMA_KEY = "parquet.avro.schema"


@dataclass(frozen=True, slots=True)
class BaseFileSize:
    """The rows and bytes of a base file that was just written."""

    rows: int
    bytes: int


def write_base_parts(
    storage: Storage,
    path: str,
    parts: Iterable[pa.Table],
    *,
    avro_schema: Mapping[str, Any],
    codec: Codec = "zstd",
    level: int | None = 1,
    more_footer: Callable[[], dict[str, str]] = dict,
    key_filter: KeyFilter | None = None,
) -> BaseFileSize:
    """Write a base file of these parts, with about one row group in memory, and return its rows and
    bytes. It needs at least one part, even an empty one.

    `more_footer` is called when all parts have passed; `key_filter` receives the file's keys and is
    kept in the footer.

    Raises InvalidInput when the path exists, and whatever `parts` raises, with a file left behind
    that no commit names.
    """
    footer = {AVRO_SCHEMA_KEY: json.dumps(avro_schema, separators=(",", ":"))}
    keys = _KeysOfFile(KeyBounds(), key_filter)
    with storage.create_data(path) as stream:
        once = ConstantColumns()
        groups = map(once.encode, map(keys.see, _row_groups(parts)))
        rows = _write_row_groups(
            stream,
            groups,
            lambda: footer | keys.footer() | more_footer(),
            codec,
            level,
        )
        return BaseFileSize(rows, stream.tell())


@dataclass(frozen=True, slots=True)
class _KeysOfFile:
    bounds: KeyBounds
    filter: KeyFilter | None

    def see(self, group: pa.Table) -> pa.Table:
        names = tuple(group.column_names[: len(META_COLUMNS)])
        assert names == META_COLUMNS, group.column_names
        keys = group.column(RECORD_KEY)
        self.bounds.add(keys)
        if self.filter is not None:
            self.filter.add(keys)
        return group

    def footer(self) -> dict[str, str]:
        filter_footer = {} if self.filter is None else self.filter.footer()
        return {**range_footer(self.bounds.range), **filter_footer}


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of `parts` in pieces that are neither tiny nor much larger than a row
    group.
    """
    held: list[pa.Table] = []
    rows = size = 0
    for part in parts:
        held.append(part)
        rows, size = rows + part.num_rows, size + part.nbytes
        if rows >= PART_ROWS or size >= _ROW_GROUP_BYTES:
            yield pa.concat_tables(held)
            # Not a slice of the part, which would keep all of it in memory.
            held, rows, size = [part.schema.empty_table()], 0, 0
    yield pa.concat_tables(held)


def write_parquet(
    stream: Any, table: pa.Table, *, footer: dict[str, str], codec: Codec, level: int | None
) -> None:
    """Write a Parquet file that both readers accept: no Arrow schema in the footer."""
    _write_row_groups(stream, iter([table]), lambda: footer, codec, level)


def _write_row_groups(
    stream: Any,
    groups: Iterator[pa.Table],
    footer: Callable[[], dict[str, str]],
    codec: Codec,
    level: int | None,
) -> int:
    """Write row groups and return the number of rows. `footer` is called when they are written."""
    first = next(groups).replace_schema_metadata(None)
    rows = 0
    rows_each = choose_row_group_rows(first.num_columns)
    # With store_schema=False pyarrow drops schema metadata silently: keys go to the writer.
    with pq.ParquetWriter(
        stream,
        first.schema,
        compression=codec,
        compression_level=level,
        store_schema=False,
        use_dictionary=repeating_columns(first),  # type: ignore[arg-type]  # stubs lag
    ) as writer:
        for group in chain([first], groups):
            if group.num_rows or rows == 0:
                writer.write_table(group.replace_schema_metadata(None), rows_each)
            rows += group.num_rows
        writer.add_key_value_metadata(PROLEPTIC | footer())
    return rows


def choose_row_group_rows(columns: int) -> int:
    """Return how many rows a row group of a file with so many columns has."""
    return min(PART_ROWS, ROW_GROUP_ROWS * max(1, -(-columns // _WIDE_COLUMNS)))


def read_parquet(stream: Any, columns: list[str] | None = None) -> pa.Table:
    """Return the rows of a Parquet file, with all or these columns. Raises an error of UNREADABLE
    when the content is damaged, UnsupportedTable.
    """
    file = parquet_file(stream)
    check_calendar(file)
    if file.metadata.num_rows > _FEW_ROWS:
        texts = find_dictionary_texts(file.metadata, file.schema_arrow)
        if texts := texts.intersection(columns or texts):
            file = parquet_file(stream, file.metadata, read_dictionary=sorted(texts))
    table = file.read(columns=columns, use_threads=False)
    return decode_texts(table.replace_schema_metadata(None))


def read_base_file(storage: Storage, path: str, columns: list[str] | None = None) -> pa.Table:
    """Return the rows as they were written, with those of `columns` that the file has, in that
    order.

    Raises NotFound, MalformedTable.
    """
    with storage.open_data(path) as stream:
        try:
            return read_parquet(stream, columns)
        except UNREADABLE as error:
            raise MalformedTable("base file is not readable", path=path) from error


def highest_in_base_file(storage: Storage, path: str, field: pa.Field[Any]) -> int | None:
    """Return the greatest value of a whole number, date or time column by the footer, in the type's
    own unit; None if the footer lacks it, or has the column in another type.

    Raises NotFound, MalformedTable.
    """
    with storage.open_data(path) as stream:
        try:
            file = parquet_file(stream)
            metadata, schema = file.metadata, file.schema_arrow
        except UNREADABLE as error:
            raise MalformedTable("base file is not readable", path=path) from error
    return find_highest(metadata, schema, field)


def find_highest(metadata: pq.FileMetaData, schema: pa.Schema, field: pa.Field[Any]) -> int | None:
    """Return the same as `highest_in_base_file`, from a footer that was read."""
    counts = pa.types.is_integer(field.type) or pa.types.is_temporal(field.type)
    if not counts or field.name not in schema.names or schema.field(field.name).type != field.type:
        return None
    at = [metadata.schema.column(n).path for n in range(metadata.num_columns)].index(field.name)
    highest: list[int] = []
    for number in range(metadata.num_row_groups):
        statistics: Any = metadata.row_group(number).column(at).statistics
        if statistics is None or not statistics.has_min_max:
            return None
        highest.append(statistics.max_raw)
    return max(highest, default=None)


def iterate_base_file(
    storage: Storage, path: str, columns: list[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of `read_base_file` in batches, so that memory does not grow with the file."""
    with storage.open_data(path) as stream:
        try:
            # Without reading ahead: the whole row group would be in memory with its decoded
            # batches.
            file = parquet_file(stream)
            check_calendar(file)
            for batch in file.iter_batches(batch_rows(file), columns=columns, use_threads=False):
                part = pa.Table.from_batches([batch])
                yield part.replace_schema_metadata(None)
        except UNREADABLE as error:
            raise MalformedTable("base file is not readable", path=path) from error


def batch_rows(file: OpenParquet, most: int = _BATCH_ROWS) -> int:
    """Return the number of rows of a batch: fewer if they are wide."""
    metadata = file.metadata
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    row_bytes = sum(group.total_byte_size for group in groups) / max(1, metadata.num_rows)
    return max(1024, min(most, int(_BATCH_BYTES / max(1.0, row_bytes))))


def read_avro_schema(storage: Storage, path: str) -> str | None:
    """Return the Avro schema in the footer, meta columns included, or None if there is none.

    Raises NotFound, MalformedTable.
    """
    return read_footer(storage, path).get(AVRO_SCHEMA_KEY)


def read_footer_keys(storage: Storage, path: str) -> FooterKeys:
    """Return the footer's information about the file's record keys. Raises NotFound,
    MalformedTable.
    """
    return FooterKeys.from_footer(read_footer(storage, path))


def read_footer(storage: Storage, path: str) -> dict[str, str]:
    """Return the key-value metadata of the footer. Raises NotFound, MalformedTable."""
    with storage.open_data(path) as stream:
        try:
            footer = parquet_file(stream).metadata.metadata or {}
            return {key.decode(): value.decode() for key, value in footer.items()}
        except UNREADABLE as error:
            raise MalformedTable("base file is not readable", path=path) from error
