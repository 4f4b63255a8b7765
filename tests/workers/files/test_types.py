"""Every type of the format page comes back as written: base file, Parquet block, Avro block."""

from __future__ import annotations

import datetime as dt
import io
import itertools
from decimal import Decimal
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.base_files import write_base_file
from tests.support.memory_storage import MemoryStorage
from workers.clock import SystemClock
from workers.errors import InvalidInput
from workers.files.avro_container import parse_schema
from workers.files.avro_encode import encode_rows
from workers.files.base_file import iterate_base_file, read_base_file
from workers.files.log_block import (
    AvroData,
    LogBlock,
    ParquetData,
    encode_avro_block,
    encode_parquet_block,
)
from workers.files.log_file import read_log_file, write_log_file
from workers.files.meta_columns import META_COLUMNS, with_meta_columns
from workers.schema.reconcile import conform
from workers.schema.table_schema import TableSchema

INSTANT = "20260101000000001"
_INT64 = st.integers(-(2**63), 2**63 - 1)
# Within what Python's own dates hold; the files hold more.
_MICROS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
_numbers = itertools.count()


_SCALARS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=70)),
    "flag": (pa.bool_(), st.booleans()),
    "tiny": (pa.int8(), st.integers(-128, 127)),
    "small": (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    "whole": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), _INT64),
    "single": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "bytes": (pa.binary(), st.binary(max_size=70)),
    "day": (pa.date32(), st.dates()),
    "at_ms": (pa.timestamp("ms", "UTC"), _MICROS.map(lambda n: n // 1000)),
    "at_us": (pa.timestamp("us", "UTC"), _MICROS),
    "local_ms": (pa.timestamp("ms"), _MICROS.map(lambda n: n // 1000)),
    "local_us": (pa.timestamp("us"), _MICROS),
    "money": (pa.decimal128(10, 2), st.integers(-(10**10) + 1, 10**10 - 1)),
    "huge": (pa.decimal128(38, 18), st.integers(-(10**38) + 1, 10**38 - 1)),
}


def _value(kind: pa.DataType, drawn: Any) -> Any:
    if isinstance(kind, pa.Decimal128Type) and drawn is not None:
        with_digits = Decimal(drawn).as_tuple()
        return Decimal((with_digits.sign, with_digits.digits, -kind.scale))
    return drawn


@st.composite
def columns(draw: st.DrawFn) -> pa.Table:
    """A few rows of every type, alone and inside lists, maps and structs two levels deep."""
    rows = draw(st.integers(1, 6))

    def several(strategy: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.none() | strategy, min_size=rows, max_size=rows))

    table: dict[str, Any] = {}
    for name, (kind, strategy) in _SCALARS.items():
        table[name] = pa.array(several(strategy.map(partial(_value, kind))), kind)
    name = draw(st.sampled_from(sorted(_SCALARS)))
    kind, strategy = _SCALARS[name]
    inner = st.none() | strategy.map(partial(_value, kind))
    listed = pa.list_(pa.field("element", kind))
    record = pa.struct([("a", kind), ("b", listed)])
    records = st.none() | st.fixed_dictionaries(
        {"a": inner, "b": st.none() | st.lists(inner, max_size=3)}
    )
    pairs = st.dictionaries(st.text("xyzé", max_size=3), records, max_size=3).map(
        lambda mapping: list(mapping.items())
    )
    table["listed"] = pa.array(several(st.lists(inner, max_size=3)), listed)
    table["record"] = pa.array(several(records), record)
    table["mapped"] = pa.array(several(pairs), pa.map_(pa.string(), record))
    table["lists"] = pa.array(
        several(st.lists(records, max_size=3)), pa.list_(pa.field("element", record))
    )
    return pa.table({"id": [str(at) for at in range(rows)], **table})


def with_meta(rows: pa.Table) -> pa.Table:
    return with_meta_columns(
        rows, instant=INSTANT, keys=rows.column("id"), partition="", file_name="f", task_partition=0
    )


def through_log(block: bytes) -> LogBlock:
    storage, path = MemoryStorage(SystemClock()), f".f_{INSTANT}.log.1_0-0-{next(_numbers)}"
    write_log_file(storage, path, [block])
    [logged_block] = read_log_file(storage, path)
    return logged_block


@settings(max_examples=12, deadline=None)
@given(given_rows=columns())
def test_every_type_comes_back_from_base_files_and_from_both_kinds_of_log_blocks(
    given_rows: pa.Table,
) -> None:
    schema = TableSchema.from_arrow(given_rows.schema, table_name="t")
    rows = with_meta(conform(given_rows, schema))
    avro, storage = schema.with_meta_avro(), MemoryStorage(SystemClock())

    write_base_file(storage, "base.parquet", rows, avro_schema=avro)
    parquet = through_log(encode_parquet_block(rows, instant=INSTANT, avro_schema=avro))
    avros = through_log(encode_avro_block(rows, instant=INSTANT, avro_schema=avro))

    wanted = rows.to_pylist()
    assert isinstance(parquet, ParquetData)
    assert isinstance(avros, AvroData)
    assert read_base_file(storage, "base.parquet").to_pylist() == wanted
    parts = list(iterate_base_file(storage, "base.parquet"))
    assert pa.concat_tables(parts).to_pylist() == wanted
    assert parquet.table().to_pylist() == wanted
    assert avros.table().to_pylist() == wanted
    assert avros.table().schema == rows.schema
    assert avros.table(["id", "money"]).column_names == ["id", "money"]


@settings(max_examples=12, deadline=None)
@given(given_rows=columns(), start=st.integers(0, 5))
def test_avro_datums_are_what_another_reader_takes_them_for(
    given_rows: pa.Table, start: int
) -> None:
    """Slices and chunks of columns, whose nested offsets do not begin at zero."""
    schema = TableSchema.from_arrow(given_rows.schema, table_name="t")
    chunks = [given_rows.slice(start), given_rows.slice(start // 2)]
    narrow = schema.select(NESTED)
    rows = conform(pa.concat_tables([*chunks, given_rows]), schema).select(narrow.field_names)
    avro = parse_schema(narrow.avro_json)

    for part in (rows, conform(given_rows, schema).select(narrow.field_names).slice(start)):
        datums: list[Any] = encode_rows(part, narrow.to_avro()).to_pylist()
        values_read = [fastavro.schemaless_reader(io.BytesIO(one), avro, None) for one in datums]
        assert values_read == part.to_pylist(maps_as_pydicts="strict")


NESTED = ("listed", "mapped", "record", "lists", "money", "huge", "long", "text", "flag", "bytes")


def test_null_where_the_schema_requires_a_value_is_refused() -> None:
    avro = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}

    with pytest.raises(InvalidInput, match="required column holds null"):
        encode_rows(pa.table({"a": pa.array([1, None])}), avro)


def test_unions_that_name_null_last_are_encoded_in_their_order() -> None:
    avro = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["long", "null"]}]}

    encoded = encode_rows(pa.table({"a": pa.array([3, None])}), avro)

    assert encoded.to_pylist() == [b"\x00\x06", b"\x02"]


def test_years_beyond_those_of_python_come_back() -> None:
    far = pa.array([2**60, -(2**60)], pa.timestamp("us", "UTC"))
    rows = with_meta(pa.table({"id": ["a", "b"], "at": far}))
    schema = TableSchema.from_arrow(rows.drop_columns(list(META_COLUMNS)).schema, table_name="t")
    avro = schema.with_meta_avro()

    block = through_log(encode_avro_block(rows, instant=INSTANT, avro_schema=avro))

    assert isinstance(block, AvroData)
    assert block.table().equals(rows)
    assert dt.MAXYEAR < 10_000  # Why values are compared as Arrow columns here.
