"""CSV against Python's own reader, one line at a time."""

from __future__ import annotations

import csv
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sampling import examples
from tests.workers.sink.decoding.raw import raw_batch, sink
from workers.errors import InvalidInput
from workers.sink.decoding.decoder import Decode, build_decoder

TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "city": pa.string(),
    "fare": pa.float64(),
    "at": pa.timestamp("us", "UTC"),
    "is_paid": pa.bool_(),
    "price": pa.decimal128(9, 2),
    "day": pa.date32(),
    "seen": pa.timestamp("ms"),
}
SCHEMA = pa.schema(list(TYPES.items()))
TWO: dict[str, pa.DataType] = {"a": pa.string(), "n": pa.int64()}
SCHEMA_OF_TWO = pa.schema(list(TWO.items()))
TEXTS = ("Oslo", "æøå 🚕", '"a,b"', '"a""b"', "a b", " x ", "NULL", "null", "NaN", 'a"b', "1")
FIELDS: dict[str, tuple[str, ...]] = {
    "id": ("1", "-5", str(2**63 - 1), str(2**63), "x", "1.5", '"7"'),
    "city": TEXTS,
    "fare": ("1", "1.5", "1e3", "x", "-0.25"),
    "at": ("2024-02-29T12:30:00Z", "2024-02-29 12:30:00.5", "2024-02-29", "noon"),
    "is_paid": ("true", "false", "1", "0", "yes"),
    "price": ("1.25", "3", "1.234", "x", "12345678.00"),
    "day": ("2024-02-29", "2023-02-29", "today"),
    "seen": ("2024-02-29T12:30:00+02:00", "2024-02-29T12:30:00.0001"),
}
JUNK = (
    b"", b",", b"1,a", b"1,a,1,,,,,,9", b'1,"open,,,,,,', b'"', b"1,\xff,,,,,,", b"1,a\nb,,,,,,",
    b"1,a\rb,,,,,,", b'1,"a\nb",,,,,,', b"1,a,,,,,,\n", b"1,a,,,,,,\r\n", b",,,,,,,", b'x"\n2,"',
)  # fmt: skip


class Bad(Exception):
    """What the plain reader says of a line that is bad."""


def plainly(value: bytes) -> dict[str, Any]:
    try:
        line = value.decode().rstrip("\r\n")
        first, *rest = csv.reader([line, "end"])
    except (ValueError, csv.Error) as error:
        raise Bad(str(error)) from error
    if rest != [["end"]] or len(first) != len(TYPES) or "\n" in line or "\r" in line:
        raise Bad("not one line")
    try:
        return {
            name: plain_field(text, name) if text else None
            for name, text in zip(TYPES, first, strict=True)
        }
    except (ValueError, ArithmeticError) as error:
        raise Bad(str(error)) from error


def plain_field(text: str, name: str) -> Any:
    match name:
        case "id":
            number = int(text)
            return number if abs(number) < 2**63 else wrong(text)
        case "fare":
            return float(text)
        case "is_paid":
            return {"true": True, "1": True, "false": False, "0": False}.get(text) or wrong_or(text)
        case "price":
            price = Decimal(text)
            return price if price == round(price, 2) and price < 10**7 else wrong(text)
        case "day":
            return date.fromisoformat(text)
        case "at" | "seen":
            at = datetime.fromisoformat(text)
            at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
            if name == "at":
                return at
            return at.replace(tzinfo=None) if at.microsecond % 1000 == 0 else wrong(text)
        case _:
            return text


def wrong(text: str) -> Any:
    raise ValueError(text)


def wrong_or(text: str) -> bool:
    return False if text in ("false", "0") else wrong(text)


def line(chance: random.Random, worst: float) -> bytes:
    if chance.random() < worst:
        return chance.choice(JUNK)
    good = 5 if chance.random() < worst else 2
    fields = [
        "" if chance.random() < 0.3 else chance.choice(some[: max(good - (name == "seen"), 1)])
        for name, some in FIELDS.items()
    ]
    return ",".join(fields).encode()


def reading(schema: pa.Schema = SCHEMA, **options: str) -> Decode:
    return build_decoder(sink(**{"hoodie.sink.format": "csv", **options}), schema)


def check(values: list[bytes]) -> None:
    decoded = reading()(raw_batch(values))
    rows, bad = [], set()
    for at, value in enumerate(values):
        try:
            rows.append((at, plainly(value)))
        except Bad:
            bad.add(at)
    assert {one.offset for one in decoded.bad} == bad, decoded.bad
    assert decoded.offsets.tolist() == [at for at, _ in rows]
    assert decoded.rows.schema == SCHEMA
    assert decoded.rows.to_pylist() == [row for _, row in rows]


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.05, 0.5]), st.integers(0, 60))
def test_batch_is_what_a_plain_reader_makes_of_each_line(
    seed: int, worst: float, lines: int
) -> None:
    chance = random.Random(seed)

    check([line(chance, worst) for _ in range(lines)])


@pytest.mark.parametrize("value", JUNK, ids=repr)
def test_odd_line_spoils_no_other(value: bytes) -> None:
    good = b"1,Oslo,,,,,,"

    check([value])
    check([good, value, good])
    check([value, value, good])


def test_every_kind_of_field() -> None:
    for place, some in enumerate(FIELDS.values()):
        check([("," * place + one + "," * (7 - place)).encode() for one in some])


def test_empty_field_is_null_and_quotes_an_empty_text() -> None:
    schema = SCHEMA_OF_TWO

    decoded = reading(schema)(raw_batch([b",", b'"",1', b'a,""']))

    assert decoded.rows.to_pylist() == [{"a": None, "n": None}, {"a": "", "n": 1}]
    assert [one.offset for one in decoded.bad] == [2]


def test_one_column_may_be_empty() -> None:
    schema = pa.schema([("a", pa.string())])

    decoded = reading(schema)(raw_batch([b"x", b"", b"y"]))

    assert decoded.rows.column("a").to_pylist() == ["x", None, "y"]


def test_columns_of_a_line_are_named_by_an_option() -> None:
    schema = SCHEMA_OF_TWO.append(pa.field("absent", pa.string()))
    columns = {"hoodie.sink.csv.columns": "n, more, a"}
    batch = raw_batch([b"1,x,one", b"2,,two"])

    decoded = reading(schema, **columns)(batch)
    inferred = reading(schema, **columns, **{"hoodie.sink.schema.source": "infer"})(batch)

    assert decoded.rows.to_pylist() == [
        {"a": "one", "n": 1, "absent": None},
        {"a": "two", "n": 2, "absent": None},
    ]
    assert (decoded.left_out, len(decoded.new_fields)) == (1, 0)
    assert inferred.new_fields == pa.schema([("more", pa.string())])


def test_column_that_a_line_cannot_hold_is_refused() -> None:
    with pytest.raises(InvalidInput, match="tags"):
        reading(pa.schema([("tags", pa.list_(pa.string()))]))
    with pytest.raises(InvalidInput, match="twice"):
        reading(SCHEMA, **{"hoodie.sink.csv.columns": "id,city,id"})
