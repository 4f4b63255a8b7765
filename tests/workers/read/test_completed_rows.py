"""Rows of files without meta columns: their keys are made from their columns."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from workers.errors import UnsupportedTable
from workers.files.meta_columns import COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY
from workers.options.table_options import TableConfig, config_from_properties
from workers.read.completed_rows import completed, needed_columns
from workers.schema.table_schema import TableSchema

INSTANT = "20240101000000000"
_TYPES: dict[str, pa.DataType] = {
    "id": pa.int32(),
    "name": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
}
SCHEMA = TableSchema.from_arrow(pa.schema(_TYPES), table_name="t")
DAY = dt.date(2024, 2, 29)


def config(**changes: str) -> TableConfig:
    keys = {name.replace("__", "."): value for name, value in changes.items()}
    return config_from_properties(
        {
            "hoodie.table.name": "t",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "day",
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            **{f"hoodie.{name}": value for name, value in keys.items()},
        }
    )


def filled(given: TableConfig, rows: pa.Table, partition: str = "2024-02-29") -> pa.Table:
    return completed(
        rows, given, SCHEMA, partition=partition, instant=INSTANT, file_name="f_0-0-0_1.parquet"
    )


def rows(**columns: list[object]) -> pa.Table:
    return pa.table({name: pa.array(found, _TYPES[name]) for name, found in columns.items()})


@pytest.mark.parametrize(
    ("fields", "generator", "keys"),
    [
        ("id", "SIMPLE", ["7", "8"]),
        ("id", "NON_PARTITION", ["7", "8"]),
        ("id", "TIMESTAMP", ["7", "8"]),
        ("id", "COMPLEX", ["id:7", "id:8"]),
        ("id,name", "COMPLEX", ["id:7,name:a", "id:8,name:__null__"]),
        ("name,id", "CUSTOM", ["name:a,id:7", "name:__null__,id:8"]),
    ],
)
def test_keys_are_spelled_as_the_key_generator_spells_them(
    fields: str, generator: str, keys: list[str]
) -> None:
    given = config(
        populate__meta__fields="false",
        table__recordkey__fields=fields,
        table__keygenerator__type=generator,
    )

    stored = rows(id=[7, 8], name=["a", None]).append_column(
        RECORD_KEY,
        pa.nulls(2, pa.string()),  # Hudi keeps the columns, empty.
    )
    filled_rows = filled(given, stored)

    assert filled_rows.column(RECORD_KEY).to_pylist() == keys
    assert set(filled_rows.column(PARTITION_PATH).to_pylist()) == {"2024-02-29"}
    assert set(filled_rows.column(COMMIT_TIME).to_pylist()) == {INSTANT}
    assert set(filled_rows.column(FILE_NAME).to_pylist()) == {"f_0-0-0_1.parquet"}
    assert needed_columns(given, ["day"]) == {"day", *fields.split(",")}


@pytest.mark.parametrize(
    ("fields", "generator"),
    [("at", "SIMPLE"), ("id", "AUTO_RECORD"), ("id", "com.shop.Keys"), ("", "SIMPLE")],
)
def test_keys_that_cannot_be_made_are_refused(fields: str, generator: str) -> None:
    given = config(
        populate__meta__fields="false",
        table__recordkey__fields=fields,
        table__keygenerator__type=generator,
    )

    with pytest.raises(UnsupportedTable, match="keys cannot be made"):
        filled(given, rows(id=[7], at=[None]))


def test_whole_rows_pass_as_they_are() -> None:
    whole = rows(id=[7], day=[DAY])

    assert filled(config(), whole) is whole
