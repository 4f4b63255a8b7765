"""A table's schema between Arrow and Avro: the same meaning on both sides, whoever derived it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from workers.errors import InvalidInput, LakehouseError, MalformedTable, UnsupportedTable
from workers.files.meta_columns import META_COLUMNS
from workers.schema.equality import equal
from workers.schema.from_arrow import decimal_bytes
from workers.schema.table_schema import TableSchema


def avro_type(arrow_type: pa.DataType) -> Any:
    schema = TableSchema.from_arrow(pa.schema([("c", arrow_type)]), table_name="t")
    [field] = schema.to_avro()["fields"]
    assert field["default"] is None
    assert field["type"][0] == "null"
    return field["type"][1]


TYPES = [
    (pa.string(), "string"),
    (pa.bool_(), "boolean"),
    (pa.int32(), "int"),
    (pa.int64(), "long"),
    (pa.float32(), "float"),
    (pa.float64(), "double"),
    (pa.binary(), "bytes"),
    (pa.date32(), {"type": "int", "logicalType": "date"}),
    (pa.timestamp("ms", "UTC"), {"type": "long", "logicalType": "timestamp-millis"}),
    (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}),
    (pa.timestamp("ms"), {"type": "long", "logicalType": "local-timestamp-millis"}),
    (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}),
    (
        pa.decimal128(10, 5),
        {
            "type": "fixed",
            "name": "fixed",
            "namespace": "hoodie.t.t_record.c",
            "size": 5,
            "logicalType": "decimal",
            "precision": 10,
            "scale": 5,
        },
    ),
    (pa.list_(pa.int32()), {"type": "array", "items": ["null", "int"]}),
    (pa.map_(pa.string(), pa.int64()), {"type": "map", "values": ["null", "long"]}),
    (
        pa.struct([("x", pa.string())]),
        {
            "type": "record",
            "name": "c",
            "namespace": "hoodie.t.t_record",
            "fields": [{"name": "x", "type": ["null", "string"], "default": None}],
        },
    ),
]


@pytest.mark.parametrize(("arrow", "avro"), TYPES, ids=lambda value: str(value)[:30])
def test_a_type_is_spelled_as_hudi_spells_it_and_comes_back(arrow: pa.DataType, avro: Any) -> None:
    assert avro_type(arrow) == avro

    schema = TableSchema.from_arrow(pa.schema([("c", arrow)]), table_name="t")

    assert TableSchema.from_avro_json(schema.avro_json).arrow == pa.schema([("c", arrow)])


@pytest.mark.parametrize(
    ("variant", "plain"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.int8(), pa.int32()),
        (pa.int16(), pa.int32()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC")),
        (pa.timestamp("ns", "Europe/Oslo"), pa.timestamp("us", "UTC")),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.decimal256(20, 3), pa.decimal128(20, 3)),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.list_(pa.int32(), 3), pa.list_(pa.int32())),
        (pa.map_(pa.large_string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([("x", pa.large_string())]), pa.struct([("x", pa.string())])),
    ],
    ids=str,
)
def test_spark_pandas_and_arrow_spell_one_column_in_many_ways_and_get_one_schema(
    variant: pa.DataType, plain: pa.DataType
) -> None:
    assert avro_type(variant) == avro_type(plain)


@pytest.mark.parametrize(
    "refused",
    [
        pa.time32("ms"),
        pa.time64("us"),
        pa.duration("us"),
        pa.decimal256(39, 0),
        pa.decimal128(5, -2),
        pa.map_(pa.int32(), pa.int32()),
        pa.struct([("a", pa.int32()), ("A", pa.int32())]),
        pa.struct([("a b", pa.int32())]),
        pa.dense_union([pa.field("a", pa.int32())]),
    ],
    ids=str,
)
def test_a_type_that_hudi_cannot_hold_is_refused_with_the_columns_name(
    refused: pa.DataType,
) -> None:
    with pytest.raises(InvalidInput) as error:
        TableSchema.from_arrow(pa.schema([("fine", pa.int32()), ("bad", refused)]), table_name="t")

    assert error.value.values["column"] in ("bad", "a b")


@pytest.mark.parametrize("name", ["", "a b", "1a", "a-b", "a.b", "é", "a" * 256])
def test_a_column_name_that_avro_has_not_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="column name"):
        TableSchema.from_arrow(pa.schema([(name, pa.int32())]), table_name="t")


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("a", pa.int64())])

    with pytest.raises(InvalidInput, match="column=a"):
        TableSchema.from_arrow(twice, table_name="t")


def test_arrow_metadata_does_not_leak() -> None:
    noisy = pa.schema(
        [pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "7"})],
        metadata={"pandas": "{}"},
    )
    plain = pa.schema([("a", pa.int32())])

    assert TableSchema.from_arrow(noisy, table_name="t") == TableSchema.from_arrow(
        plain, table_name="t"
    )


def test_meta_columns_are_never_part_of_it_and_are_added_for_files() -> None:
    meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
    arrow = pa.schema(meta).append(pa.field("a", pa.int32()))

    schema = TableSchema.from_arrow(arrow, table_name="t")

    assert schema.field_names == ("a",)
    assert [field["name"] for field in schema.with_meta_avro()["fields"]] == [*META_COLUMNS, "a"]
    assert TableSchema.from_avro_json(json.dumps(schema.with_meta_avro())) == schema


def test_java_finds_no_name_defined_twice_however_deeply_types_nest() -> None:
    leaf = pa.struct([("price", pa.decimal128(9, 2)), ("list", pa.list_(pa.decimal128(9, 2)))])
    arrow = pa.schema(
        [
            ("a", pa.struct([("a", leaf), ("b", pa.list_(leaf))])),
            ("b", pa.map_(pa.string(), leaf)),
            ("price", pa.decimal128(9, 2)),
        ]
    )

    schema = TableSchema.from_arrow(arrow, table_name="my-table")

    fastavro.parse_schema(schema.to_avro())  # Raises when a name is defined twice.
    assert schema.to_avro()["name"] == "my_table_record"
    assert schema.arrow == arrow


def test_a_narrow_stream_selects_its_columns_in_the_tables_order() -> None:
    arrow = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("c", pa.int32())])
    schema = TableSchema.from_arrow(arrow, table_name="t")

    assert schema.select(["c", "a"]).field_names == ("a", "c")
    with pytest.raises(InvalidInput, match="column=x"):
        schema.select(["a", "x"])


def test_it_travels_to_executors() -> None:
    schema = TableSchema.from_arrow(pa.schema([("a", pa.int32())]), table_name="t")

    assert pickle.loads(pickle.dumps(schema)) == schema
    assert pickle.loads(pickle.dumps(schema)).arrow == schema.arrow


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "r", "namespace": "n", "fields": fields})


def test_types_of_other_writers_are_read_as_the_columns_they_are() -> None:
    schema = TableSchema.from_avro_json(
        record(
            {"name": "enum", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "again", "type": ["null", "E"]},
            {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 4}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "noon", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
            {"name": "nested", "type": {"type": {"type": "array", "items": "n.H"}}},
        )
    )

    assert schema.arrow.types == [
        pa.string(),
        pa.string(),
        pa.binary(),
        pa.string(),
        pa.time32("ms"),
        pa.decimal128(4, 0),
        pa.list_(pa.binary()),
    ]


RECURSIVE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", MalformedTable),
        ("null", MalformedTable),
        ("[]", MalformedTable),
        ('"string"', MalformedTable),
        ('{"type":"record","fields":{}}', MalformedTable),
        ('{"type":"record","name":"r","fields":[{}]}', MalformedTable),
        ('{"type":"record","name":"r","fields":[7]}', MalformedTable),
        ('{"type":"record","fields":[]}', MalformedTable),
        ("[" * 100_000, MalformedTable),
        (record({"name": "a", "type": "no.such.Type"}), MalformedTable),
        (record({"name": "a", "type": {"type": "fixed", "name": "F"}}), MalformedTable),
        (record({"name": "a", "type": ["int", "string"]}), UnsupportedTable),
        (record({"name": "a", "type": RECURSIVE}), UnsupportedTable),
    ],
)
def test_a_schema_that_makes_no_sense_is_an_error_of_ours(
    text: str, error: type[LakehouseError]
) -> None:
    with pytest.raises(error):
        TableSchema.from_avro_json(text)


def test_a_schema_nested_without_end_is_refused() -> None:
    nested: Any = "int"
    for _ in range(500):
        nested = {"type": "array", "items": nested}

    with pytest.raises(UnsupportedTable):
        TableSchema.from_avro_json(record({"name": "a", "type": nested}))


def test_every_decimal_has_the_fewest_bytes_that_hold_it() -> None:
    for precision in range(1, 39):
        size, largest = decimal_bytes(precision), 10**precision - 1
        assert largest < 2 ** (8 * size - 1), precision
        assert size == 1 or largest >= 2 ** (8 * (size - 1) - 1), precision
    assert (decimal_bytes(10), decimal_bytes(38)) == (5, 16)


def test_a_schema_that_hudi_wrote_equals_ours_of_the_same_columns() -> None:
    hudi = record(
        {"name": "ts", "type": ["null", "long"], "default": None},
        {"name": "rider", "type": ["null", "string"], "default": None, "doc": "who"},
    )
    ours = TableSchema.from_arrow(
        pa.schema([("ts", pa.int64())]).append(pa.field("rider", pa.string())), table_name="t"
    )

    assert equal(TableSchema.from_avro_json(hudi), ours)
