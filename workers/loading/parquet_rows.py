"""Parquet and Arrow files of other tools as rows of the table's types, in bounded memory.

Each error of Arrow becomes one sentence with the file and the first column that cannot be read.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import BadRows, InvalidInput
from workers.files.arrow_streams import arrow_stream, parquet_file
from workers.loading.content import InputFile
from workers.loading.findings import BadRow, LoadCounts
from workers.loading.names import stored_names
from workers.loading.options import LoadOptions
from workers.schema.conversion import can_fit, decode_columns, find_left_out_columns, fit_column
from workers.schema.reconcile import reconcile, select_changed_columns
from workers.schema.table_schema import TableSchema

_BATCH_ROWS: Final = 65_536
_BATCH_BYTES: Final = 64 << 20
_PROBE_ROWS: Final = 64
"""The first rows show how large a row is."""
DECODED_RATIO_MAX: Final = 1000
"""A few KB can stand for any number of bytes. A file is rejected above both this and
`InputFile.decoded_bytes_max`.
"""
_READ_ERRORS: Final = (
    pa.ArrowException,
    OSError,
    MemoryError,
    OverflowError,
    UnicodeError,
    ValueError,
)
_ARROW_MAGIC: Final = b"ARROW1"
_STREAM_MAGIC: Final = b"\xff\xff\xff\xff"
_COMPRESSED_MAGIC: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""Of gzip and of Zstandard."""
_STREAM_START: Final = 8
"""An Arrow file is an Arrow stream behind its magic number and padding."""
_WHY_CHARS_MAX: Final = 160


class ParquetRows:
    """See RowSource."""

    is_all_known = True

    def __init__(
        self,
        files: Sequence[InputFile],
        options: LoadOptions,
        table: pa.Schema,
        keys: Sequence[str],
    ) -> None:
        bytes_max = options.decoded_gb_max << 30
        self._files = [replace(file, decoded_bytes_max=bytes_max) for file in files]
        self._options = options
        self._keys = keys
        self._table = table
        self._left_out: list[str] = []
        self._names: list[list[str]] = []
        self.counts = LoadCounts()
        self.schema = self._find_schema()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.counts = counts = LoadCounts()
        counts.left_out = list(self._left_out)
        bytes_before = 0
        for file, names in zip(self._files, self._names, strict=True):
            rows_before = counts.rows
            for batch in _read_batches(file):
                counts.bytes_read = bytes_before
                row = counts.rows - rows_before
                yield self._fit(batch.rename_columns(names), file.name, row)
                counts.rows += batch.num_rows
            counts.renamed |= {
                old: new
                for old, new in zip(_read_schema(file).names, names, strict=True)
                if old != new
            }
            bytes_before += file.size
            counts.bytes_read = bytes_before

    def _find_schema(self) -> pa.Schema:
        """Return the columns of all files with the table's types, widened where a file needs it."""
        schema: TableSchema | None = None
        present: dict[str, None] = {}
        for file in self._files:
            source = _read_schema(file)
            names = stored_names(
                source.names,
                known=self._table.names,
                is_clean=self._options.names == "clean",
                file=file.name,
            )
            self._names.append(names)
            present |= dict.fromkeys(names)
            source = pa.schema(
                [field.with_name(name) for field, name in zip(source, names, strict=True)]
            )
            if schema is None:
                fields = [field for field in self._table if field.name in names]
                schema = TableSchema.from_arrow(pa.schema(fields), table_name="table")
            schema = self._extend(schema, source, file)
        assert schema is not None
        if lost := [name for name in self._keys if name in self._left_out]:
            raise InvalidInput(
                "the key column has no value", file=self._files[0].name, column=lost[0]
            )
        chosen = self._options.columns or tuple(present)
        if missing := [name for name in chosen if name not in present]:
            raise InvalidInput("file lacks columns", path=self._files[0].name, missing=missing)
        types = {field.name: field.type for field in schema.arrow}
        return pa.schema([pa.field(name, types[name]) for name in chosen if name in types])

    def _extend(self, schema: TableSchema, source: pa.Schema, file: InputFile) -> TableSchema:
        for name, kind in self._options.column_types.items():
            at = source.get_field_index(name)
            if at >= 0 and can_fit(source.field(at).type, kind):
                source = source.set(at, pa.field(name, kind))
        source = _sign_integers(source, schema, file)
        self._left_out += [
            path
            for path in find_left_out_columns(source, schema.arrow)
            if path not in self._left_out
        ]
        changed = select_changed_columns(source, schema)
        try:
            new = TableSchema.from_arrow(changed, table_name="file")
            return reconcile(schema, new) if new.field_names else schema
        except InvalidInput as error:
            raise InvalidInput(error.message, file=file.name, **error.values) from error

    def _fit(self, batch: pa.RecordBatch, file: str, row: int) -> pa.RecordBatch:
        columns: list[Any] = []
        for field in self.schema:
            at = batch.schema.get_field_index(field.name)
            if at < 0:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            if not can_fit(batch.schema.field(at).type, field.type):
                raise InvalidInput(
                    "column has an incompatible type",
                    file=file,
                    column=field.name,
                    table=field.type,
                    batch=batch.schema.field(at).type,
                )
            column = pa.chunked_array([batch.column(at)])
            try:
                fitted = fit_column(column, field.type, name=field.name)
            except BadRows as error:
                raise BadRow(
                    f"the value does not fit {field.type}: {error.values['why']}",
                    file=file,
                    row=row + error.positions[0] + 1,
                    column=str(error.values["column"]),
                ) from error
            if field.name in self._keys and fitted.null_count:
                at = pc.index(pc.is_null(fitted), True).as_py()
                raise BadRow(
                    "the key column has no value", file=file, row=row + at + 1, column=field.name
                )
            columns.append(fitted.combine_chunks() if fitted.num_chunks != 1 else fitted.chunk(0))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _sign_integers(source: pa.Schema, table: TableSchema, file: InputFile) -> pa.Schema:
    """Replace `uint64` by `int64` in new columns all of whose values fit."""
    for at, field in enumerate(source):
        if field.name in table.field_names or "uint64" not in str(field.type):
            continue
        types = {
            decode_columns(pa.table([batch.column(at)], names=["column"])).schema.field(0).type
            for batch in _read_batches(file)
        }
        if len(types) == 1:
            source = source.set(at, field.with_type(types.pop()))
    return source


def _read_schema(file: InputFile) -> pa.Schema:
    with file.opened() as stored, _reading(file):
        if _is_arrow(stored, file):
            return _open_arrow(stored).schema
        schema: pa.Schema = _open_parquet(stored, file).schema_arrow
        return schema


def _read_batches(file: InputFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file. Raises InvalidInput if they cannot be read, or are too many for
    the size of the file.
    """
    size = file.size  # Measured before the stream is read: it seeks.
    with file.opened() as stored, _reading(file):
        if _is_arrow(stored, file):
            batches: Iterator[pa.RecordBatch] = iter(_open_arrow(stored))
        else:
            batches = _read_parquet(stored, file)
        decoded = 0
        for batch in batches:
            batch.validate(full=True)
            decoded += batch.nbytes
            _check_size(file, size, decoded)
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(start, _BATCH_ROWS)


@contextmanager
def _reading(file: InputFile) -> Iterator[None]:
    """Raise errors of Arrow as InvalidInput."""
    try:
        yield
    except _READ_ERRORS as error:
        why = " ".join(str(error).split())[:_WHY_CHARS_MAX]
        if "crypt" in why.lower():
            raise InvalidInput("the file is encrypted; decrypt it first", file=file.name) from error
        column = _find_damaged_column(file)
        place = {"file": file.name, "column": column} if column else {"file": file.name}
        raise InvalidInput(
            "the file is damaged, or in a form that is not supported", **place, why=why
        ) from error


def _is_arrow(stored: Any, file: InputFile) -> bool:
    """Check the magic numbers. Raises InvalidInput if it is neither Parquet nor Arrow."""
    head = stored.read(_STREAM_START)
    stored.seek(0)
    if head.startswith((_ARROW_MAGIC, _STREAM_MAGIC)):
        return True
    if not head:
        raise InvalidInput("the file is empty", file=file.name)
    if head.startswith(b"FEA1"):
        raise InvalidInput("the file is Feather of version 1; write version 2", file=file.name)
    if head.startswith(_COMPRESSED_MAGIC):
        raise InvalidInput(
            "the file is compressed as a whole, and Parquet compresses its columns; decompress it",
            file=file.name,
        )
    stored.seek(-min(4, len(head)), io.SEEK_END)
    tail = stored.read(4)
    stored.seek(0)
    if b"PARE" in (head[:4], tail):
        raise InvalidInput("the file is encrypted; decrypt it first", file=file.name)
    if head[:4] != b"PAR1":
        raise InvalidInput("the file is not Parquet, whatever its name is", file=file.name)
    if tail != b"PAR1":
        raise InvalidInput("the file is cut off: its footer is missing", file=file.name)
    return False


def _open_arrow(stored: Any) -> pa.RecordBatchStreamReader:
    if stored.read(_STREAM_START).startswith(_ARROW_MAGIC):
        return arrow_stream(stored)
    stored.seek(0)
    return arrow_stream(stored)


def _open_parquet(stored: Any, file: InputFile, **options: Any) -> Any:
    opened = parquet_file(
        stored,
        page_checksum_verification=True,
        **{"coerce_int96_timestamp_unit": "us", **options},
    )
    _check_footer(opened, stored, file)
    return opened


def _check_footer(opened: Any, stored: Any, file: InputFile) -> None:
    """Raises InvalidInput if the footer promises too many bytes for the size of the file."""
    footer = opened.metadata
    size = stored.seek(-8, io.SEEK_END) + 8
    if footer.serialized_size != int.from_bytes(stored.read(4), "little"):
        # A signature follows. Arrow ends the process if it is asked for such a column's metadata.
        raise InvalidInput("the file is encrypted; decrypt it first", file=file.name)
    decoded = 0
    for group in range(footer.num_row_groups):
        chunks = footer.row_group(group)
        for at in range(chunks.num_columns):
            chunk = chunks.column(at)
            width = {"BOOLEAN": 1, "INT32": 32, "FLOAT": 32, "INT96": 64}.get(
                chunk.physical_type, 64
            )
            decoded += max(chunk.total_uncompressed_size, chunk.num_values * width // 8)
    _check_size(file, size, decoded)


def _check_size(file: InputFile, size: int, decoded: int) -> None:
    if decoded > file.decoded_bytes_max and decoded > DECODED_RATIO_MAX * size:
        raise InvalidInput(
            "the file stands for far more data than it has bytes; if that is right, an admin gives "
            "decoded_gb_max, the GiB that it may decode to",
            file=file.name,
            bytes=size,
            decoded=decoded,
            decoded_gb_max=file.decoded_bytes_max >> 30,
        )


def _read_parquet(stored: Any, file: InputFile) -> Iterator[pa.RecordBatch]:
    opened = _open_parquet(stored, file)
    rows = _BATCH_ROWS
    probe = next(opened.iter_batches(_PROBE_ROWS, use_threads=False), None)
    if probe is not None and probe.num_rows:
        rows = max(1, min(rows, _BATCH_BYTES * probe.num_rows // max(probe.nbytes, 1)))
    batches = opened.iter_batches(rows, use_threads=False)
    names = _find_int96(opened)
    if not names:
        yield from batches
        return
    with file.opened() as again, file.opened() as once_more:
        units = [(again, "ns"), (once_more, "s")]
        nanos, seconds = (
            _open_parquet(stream, file, coerce_int96_timestamp_unit=unit).iter_batches(
                rows, columns=names, use_threads=False
            )
            for stream, unit in units
        )
        row = 0
        for batch, fine, coarse in zip(batches, nanos, seconds, strict=True):
            for name in names:
                columns = [values.column(name) for values in (batch, fine, coarse)]
                _check_int96(columns, file, name, row)
            row += batch.num_rows
            yield batch


def _find_int96(opened: Any) -> list[str]:
    schema = opened.schema
    columns = [schema.column(at) for at in range(len(schema.names))]
    return [
        column.path
        for column in columns
        if column.physical_type == "INT96" and "." not in column.path
    ]


def _check_int96(columns: Sequence[Any], file: InputFile, name: str, row: int) -> None:
    """Check one column in microseconds, nanoseconds and seconds.

    Raises BadRow for a time with nanoseconds, or beyond the range of microseconds, where Arrow
    wraps around. Nanoseconds beyond year 2262 wrap around in both numbers that are compared.
    """
    valid = pc.is_valid(columns[0]).to_numpy(zero_copy_only=False)
    whole, fine, coarse = (
        pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        for values in columns
    )
    lost = fine - whole * 1000
    is_bad = ((lost > 0) & (lost < 1000)) | (whole // 1_000_000 != coarse)
    if (positions := np.flatnonzero(is_bad & valid)).size:
        raise BadRow(
            "the time has nanoseconds or a year that the table cannot hold",
            file=file.name,
            row=row + int(positions[0]) + 1,
            column=name,
        )


def _find_damaged_column(file: InputFile) -> str:
    """Return the first column that cannot be read alone; empty if each can."""
    try:
        with file.opened() as stored:
            opened = parquet_file(stored, page_checksum_verification=True)
            names = list(dict.fromkeys(path.split(".")[0] for path in _find_paths(opened)))
    except _READ_ERRORS:
        return ""
    for name in names:
        if not _can_read(file, name):
            return name
    return ""


def _find_paths(opened: Any) -> list[str]:
    return [opened.schema.column(at).path for at in range(len(opened.schema.names))]


def _can_read(file: InputFile, name: str) -> bool:
    rows = 0
    try:
        with file.opened() as stored:
            opened = parquet_file(stored, page_checksum_verification=True)
            for batch in opened.iter_batches(_PROBE_ROWS, columns=[name], use_threads=False):
                batch.validate(full=True)
                rows += batch.num_rows
            return rows == opened.metadata.num_rows
    except _READ_ERRORS:
        return False
