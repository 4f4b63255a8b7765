"""Base files: Parquet with meta columns, and the footer keys that Hudi's own writers look for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workers.errors import MalformedTable
from workers.files.meta_columns import META_COLUMNS, RECORD_KEY
from workers.storage.base import Storage

Codec = Literal["gzip", "brotli", "lz4", "zstd", "snappy", "none"]

# What reading damaged Parquet may raise; ValueError is a footer with broken text.
UNREADABLE = (pa.ArrowException, OSError, ValueError)

_BATCH_ROWS = 65_536

AVRO_SCHEMA_KEY = "parquet.avro.schema"
MIN_KEY = "hoodie_min_record_key"
MAX_KEY = "hoodie_max_record_key"


def write_base_file(
    storage: Storage,
    path: str,
    table: pa.Table,
    *,
    avro_schema: Mapping[str, Any],
    codec: Codec = "zstd",
    level: int | None = 1,
) -> int:
    """Write `table`, meta columns first, as a new file; the size in bytes.

    Raises InvalidInput when the path exists.
    """
    assert tuple(table.column_names[: len(META_COLUMNS)]) == META_COLUMNS, table.column_names
    footer = {AVRO_SCHEMA_KEY: json.dumps(avro_schema, separators=(",", ":"))}
    if table.num_rows:
        bounds: Any = pc.min_max(table.column(RECORD_KEY)).as_py()
        footer |= {MIN_KEY: bounds["min"], MAX_KEY: bounds["max"]}
    with storage.create_data(path) as stream:
        write_parquet(stream, table, footer=footer, codec=codec, level=level)
        return stream.tell()


def write_parquet(
    stream: Any, table: pa.Table, *, footer: dict[str, str], codec: Codec, level: int | None
) -> None:
    """One Parquet file in the form that both readers take: no Arrow schema in the footer."""
    plain = table.replace_schema_metadata(None)
    # With store_schema=False pyarrow drops schema metadata silently: keys go to the writer.
    with pq.ParquetWriter(
        stream, plain.schema, compression=codec, compression_level=level, store_schema=False
    ) as writer:
        writer.write_table(plain)
        writer.add_key_value_metadata(footer)


def read_parquet(stream: Any, columns: list[str] | None = None) -> pa.Table:
    """Raises one of UNREADABLE when the content is damaged."""
    # With threads, pool threads hold a Python stream, and a short process now and then aborts at
    # its end ("terminate called without an active exception": 4 of 500, without threads 0 of 500).
    table = pq.ParquetFile(stream).read(columns=columns, use_threads=False)
    return table.replace_schema_metadata(None)


def read_base_file(storage: Storage, path: str, columns: list[str] | None = None) -> pa.Table:
    """The rows as they were written; of `columns` those that the file has, in the order asked for.

    Raises NotFound, MalformedTable.
    """
    with storage.open_data(path) as stream:
        try:
            return read_parquet(stream, columns)
        except UNREADABLE as error:
            raise MalformedTable("base file is not readable", path=path) from error


def iterate_base_file(
    storage: Storage, path: str, columns: list[str] | None = None
) -> Iterator[pa.Table]:
    """As `read_base_file`, some rows at a time, so that memory does not grow with the file."""
    with storage.open_data(path) as stream:
        try:
            # Without pre-buffering, or the whole row group is held beside its decoded batches.
            file = pq.ParquetFile(stream, pre_buffer=False)
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                part = pa.Table.from_batches([batch])
                yield part.replace_schema_metadata(None)
        except UNREADABLE as error:
            raise MalformedTable("base file is not readable", path=path) from error
