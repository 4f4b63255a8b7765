"""Avro with schema ids against fastavro, one record at a time."""

from __future__ import annotations

import io
import json
import os
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sampling import examples
from tests.workers.sink.decoding.raw import raw_batch, sink
from workers.errors import InvalidInput
from workers.sink.batch import DecodedBatch
from workers.sink.decoding.decoder import Decode, build_decoder

STOP = {"type": "record", "name": "Stop", "fields": [{"name": "n", "type": "int"}]}
TRIP: dict[str, Any] = {
    "type": "record",
    "name": "Trip",
    "namespace": "example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": ["null", "int"], "default": None},
        {"name": "city", "type": ["string", "null"]},
        {"name": "fare", "type": "double"},
        {"name": "part", "type": ["null", "float"]},
        {"name": "is_paid", "type": ["null", "boolean"]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}},
        {"name": "hash", "type": ["null", {"type": "fixed", "name": "Hash", "size": 4}]},
        {"name": "raw", "type": "bytes"},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
        },
        {
            "name": "tax",
            "type": [
                "null",
                {"type": "fixed", "name": "Tax", "size": 6, "logicalType": "decimal",
                 "precision": 9, "scale": 3},
            ],
        },
        {"name": "first", "type": ["null", STOP]},
        {"name": "stops", "type": {"type": "array", "items": ["null", "Stop"]}},
        {"name": "labels", "type": ["null", {"type": "map", "values": "long"}]},
        {"name": "mixed", "type": ["null", "int", "string"]},
    ],
}  # fmt: skip
STOPS = pa.struct([("n", pa.int32())])
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "small": pa.int64(),  # Wider than what was written.
    "city": pa.string(),
    "fare": pa.float64(),
    "part": pa.float64(),
    "is_paid": pa.bool_(),
    "kind": pa.string(),
    "hash": pa.binary(),
    "raw": pa.binary(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "seen": pa.timestamp("us", "UTC"),
    "price": pa.decimal128(14, 3),
    "tax": pa.decimal128(9, 3),
    "first": STOPS,
    "stops": pa.list_(pa.field("element", STOPS)),
    "labels": pa.map_(pa.string(), pa.int64()),
    "absent": pa.string(),
}
SCHEMA = pa.schema(list(COLUMNS.items()))
PARSED = fastavro.parse_schema(TRIP)
NAMES = [name for name in SCHEMA.names if name != "absent"]


def trip(chance: random.Random) -> dict[str, Any]:
    pick = chance.choice
    text = pick(["", "Oslo", "æøå 🚕", "x" * 300])
    stops = [pick([None, {"n": pick([0, -1, 2**31 - 1])}]) for _ in range(pick([0, 0, 1, 2, 5]))]
    return {
        "id": pick([0, -1, 63, 64, -65, 2**31, 2**63 - 1, -(2**63)]),
        "small": pick([None, 5, -(2**31)]),
        "city": pick([None, text]),
        "fare": pick([0.0, -1.5, 1e300]),
        "part": pick([None, 0.5]),
        "is_paid": pick([None, True, False]),
        "kind": pick("ABC"),
        "hash": pick([None, b"abcd", b"\x00\xff\x00\xff"]),
        "raw": pick([b"", b"\xff" * 20]),
        "day": pick([None, date(2024, 2, 29), date(1, 1, 1)]),
        "at": pick([datetime(2024, 2, 29, 12, 30, 0, 5, UTC), datetime(1900, 1, 1, tzinfo=UTC)]),
        "seen": pick([None, datetime(2024, 2, 29, 12, 30, tzinfo=UTC)]),
        "price": pick([Decimal("0.00"), Decimal("-0.01"), Decimal("9999999999.99")]),
        "tax": pick([None, Decimal("-123456.789"), Decimal("0.001")]),
        "first": pick([None, {"n": 3}]),
        "stops": stops,
        "labels": pick([None, {}, {"a": 1, "b": -2}, {text: 2**40}]),
        "mixed": pick([None, 3, "x"]),
    }


def written(record: dict[str, Any], schema_id: int = 1, schema: Any = PARSED) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, schema, record)
    return b"\0" + schema_id.to_bytes(4, "big") + content.getvalue()


def plainly(value: bytes) -> dict[str, Any] | None:
    """One record by fastavro; None when it is bad."""
    if value[:5] != b"\0\0\0\0\1":
        return None
    content = io.BytesIO(value[5:])
    try:
        fields = fastavro.schemaless_reader(content, PARSED, None)
    except (EOFError, IndexError, ValueError, OverflowError, ArithmeticError, MemoryError):
        return None
    if content.read(1):
        return None
    row = {name: fields[name] for name in NAMES}
    if row["labels"] is not None:
        row["labels"] = list(row["labels"].items())
    return {**row, "absent": None}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return schema_file(tmp_path, {"1": TRIP})


def schema_file(folder: Path, schemas: dict[str, Any]) -> Path:
    path = folder / "schemas.json"
    path.write_text(json.dumps(schemas))
    return path


def reading(path: Path, schema: pa.Schema = SCHEMA) -> Decode:
    options = {
        "hoodie.sink.format": "avro",
        "hoodie.sink.schema.source": "registry_file",
        "hoodie.sink.schema.file": str(path),
    }
    return build_decoder(sink(**options), schema)


@settings(max_examples=examples(50), deadline=None)
@given(seed=st.integers(0, 2**32), records=st.integers(0, 50))
def test_batch_is_what_fastavro_makes_of_each_record(
    tmp_path_factory: pytest.TempPathFactory, seed: int, records: int
) -> None:
    chance = random.Random(seed)
    batch = [written(trip(chance)) for _ in range(records)]
    decode = reading(schema_file(tmp_path_factory.mktemp("avro"), {"1": TRIP}))

    decoded = decode(raw_batch(batch))

    assert decoded.bad == ()
    assert decoded.rows.schema == SCHEMA
    assert decoded.rows.to_pylist() == [plainly(one) for one in batch]


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damaged_record_is_bad_or_what_fastavro_reads_and_spoils_no_other(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    good = [written(trip(chance)) for _ in range(6)]
    batch = [one if chance.random() < 0.5 else damaged(one, chance) for one in good]
    decode = reading(schema_file(tmp_path_factory.mktemp("avro"), {"1": TRIP}))

    decoded = decode(raw_batch(batch))

    rows = dict(zip(decoded.offsets.tolist(), decoded.rows.to_pylist(), strict=True))
    assert {*rows, *(one.offset for one in decoded.bad)} == set(range(6))
    for at, record in enumerate(batch):
        plain = plainly(record)
        if at in rows:
            assert comparable(rows[at]) == comparable(plain)
        else:
            assert record != good[at]
            assert plain is None or is_stricter(plain, record), decoded.bad


def is_stricter(plain: dict[str, Any], value: bytes) -> bool:
    """What fastavro takes and the format does not: it would not be written as it was."""
    record = {**plain, "labels": plain["labels"] and dict(plain["labels"]), "mixed": None}
    try:
        again = written(record)
    except (ValueError, OverflowError):
        return True
    return not value.startswith(again[:-1])


def comparable(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """A number that is none equals itself here."""
    return row and {name: "NaN" if one != one else one for name, one in row.items()}


def damaged(value: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(value))
    match chance.randrange(4):
        case 0:
            return value[:at]
        case 1:
            return value + b"\0"
        case 2:
            return value[:at] + bytes([chance.randrange(256)]) + value[at + 1 :]
        case _:
            return chance.randbytes(chance.randrange(40))


@pytest.mark.parametrize(
    ("value", "cause"),
    [
        (b"", "too short"),
        (b"\0\0\0\0", "too short"),
        (b'{"id":1}', "zero byte"),
        (b"\0\0\0\0\7abc", "schema id 7 is not in the schema file"),
        (b"\0\0\0\0\1", "ends within"),
        (b"\0\0\0\0\1" + b"\xff" * 12, "without an end"),
    ],
)
def test_bad_record_says_why(file: Path, value: bytes, cause: str) -> None:
    good = written(trip(random.Random(1)))

    decoded = reading(file)(raw_batch([good, value, good]))

    assert decoded.offsets.tolist() == [0, 2]
    assert cause in decoded.bad[0].cause


def test_records_of_several_schemas_stay_in_their_order(tmp_path: Path) -> None:
    old = {"type": "record", "name": "Trip", "fields": [{"name": "id", "type": "int"}]}
    tip = {"name": "tip", "type": ["null", "double"]}
    when = {"name": "when", "type": {"type": "long", "logicalType": "timestamp-millis"}}
    new = {**old, "fields": [{"name": "id", "type": "long"}, tip, when]}
    path = schema_file(tmp_path, {"1": old, "900000": new})
    first, second = fastavro.parse_schema(old), fastavro.parse_schema(new)
    batch = [
        written({"id": at}, 1, first)
        if at % 3
        else written({"id": at, "tip": 1.5 if at else None, "when": 0}, 900_000, second)
        for at in range(20)
    ]

    decoded: DecodedBatch = reading(path, pa.schema([("id", pa.int64())]))(raw_batch(batch))

    assert decoded.rows.column("id").to_pylist() == list(range(20))
    assert [(one.name, one.type) for one in decoded.new_fields] == [
        ("tip", pa.float64()),
        ("when", pa.timestamp("ms", "UTC")),
    ]
    assert decoded.left_out == 7


def test_schema_that_does_not_fit_the_column_makes_its_records_bad(tmp_path: Path) -> None:
    text = {"type": "record", "name": "Trip", "fields": [{"name": "id", "type": "string"}]}
    path = schema_file(tmp_path, {"1": text})
    value = written({"id": "5"}, 1, fastavro.parse_schema(text))

    bad = reading(path, pa.schema([("id", pa.int64())]))(raw_batch([value])).bad

    assert bad[0].cause == "id: schema id 1 has string, the table int64"


def test_schema_that_holds_itself_is_refused_by_record(tmp_path: Path) -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "id", "type": "long"}, {"name": "next", "type": ["null", "Tree"]}],
    }
    value = written({"id": 5, "next": None}, 1, fastavro.parse_schema(tree))

    bad = reading(schema_file(tmp_path, {"1": tree}))(raw_batch([value])).bad

    assert "within itself" in bad[0].cause


def test_schema_that_is_added_to_the_file_is_found(tmp_path: Path) -> None:
    path = schema_file(tmp_path, {"1": TRIP})
    decode = reading(path)
    value = written(trip(random.Random(1)), 2)
    before = decode(raw_batch([value]))

    schema_file(tmp_path, {"1": TRIP, "2": TRIP})
    os.utime(path, ns=(1, 1))
    after = decode(raw_batch([value]))

    assert (len(before.bad), len(after.bad)) == (1, 0)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a":{}}', '{"-1":"long"}', '{"1":{"type":"x"}}'])
def test_file_that_is_no_registry_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "schemas.json"
    path.write_text(text)

    with pytest.raises(InvalidInput, match=r"hoodie\.sink\.schema\.file"):
        reading(path)


def test_avro_without_a_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match="registry_file"):
        build_decoder(sink(**{"hoodie.sink.format": "avro"}), SCHEMA)
