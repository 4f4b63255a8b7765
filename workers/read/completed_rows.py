"""Meta columns of tables that do not keep them (`hoodie.populate.meta.fields=false`), filled in as
the rows are read: keys are made as the key generator makes them.

No row of them says which commit wrote it: it gets its file's instant, and windows go by comparing
values (`TableConfig.compares_rows`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import InvalidInput, UnsupportedTable
from workers.files.meta_columns import (
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    without_meta_columns,
)
from workers.files.record_key import composite_keys, key_value_texts
from workers.options.table_options import TableConfig
from workers.schema.table_schema import TableSchema

_SPELLED = ("", "SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM")
"""Key generators whose record keys can be made from the key's columns."""


def needed_columns(config: TableConfig, wanted: Collection[str] | None) -> Collection[str] | None:
    """What must be read of a file for the columns `wanted` of the table."""
    if wanted is None or config.has_meta_columns:
        return wanted
    return {*wanted, *config.record_key}


def completed(
    rows: pa.Table,
    config: TableConfig,
    schema: TableSchema,
    *,
    partition: str,
    instant: InstantTime,
    file_name: str,
) -> pa.Table:
    """`rows` of one file or log block, with the meta columns that the table leaves out.

    Raises UnsupportedTable where keys cannot be made so.
    """
    if config.has_meta_columns:
        return rows
    rows, count = without_meta_columns(rows), rows.num_rows  # Hudi leaves them there, empty.
    texts = {COMMIT_TIME: instant, PARTITION_PATH: partition, FILE_NAME: file_name}
    for name, text in texts.items():
        rows = rows.append_column(name, pa.repeat(pa.scalar(text, pa.string()), count))
    return rows.append_column(RECORD_KEY, _keys(rows, config, schema))


def _keys(rows: pa.Table, config: TableConfig, schema: TableSchema) -> pa.Array[Any]:
    kind = config.key_generator.removesuffix("_AVRO")
    fields = config.record_key
    if kind not in _SPELLED or not fields:
        raise UnsupportedTable(
            "the table has no meta columns, and its keys cannot be made from its columns",
            key_generator=config.key_generator,
            record_key=fields,
        )
    try:
        types = {name: schema.arrow.field(name).type for name in fields}
        if zoned := [name for name, kind in types.items() if _has_zone(kind)]:
            # Which of them placed a row cannot be seen where no key is stored.
            raise InvalidInput("Hudi's write paths spell a time with a zone in two ways", of=zoned)
        texts = [
            key_value_texts(name, _single(rows.column(name)).cast(kind))
            for name, kind in types.items()
        ]
    except (InvalidInput, KeyError) as error:
        raise UnsupportedTable(
            "the table has no meta columns, and its keys cannot be made from its columns",
            record_key=fields,
        ) from error
    return composite_keys(fields, texts) if config.names_key_fields else texts[0]


def _has_zone(kind: Any) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz)


def _single(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    single = column.combine_chunks()
    assert isinstance(single, pa.Array), "more text than one Arrow array holds"
    return single
