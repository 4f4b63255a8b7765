"""JSON against a plain reader of one record at a time: the same rows, the same bad records."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sampling import examples
from tests.workers.sink.decoding.plain_json import Bad, plainly
from tests.workers.sink.decoding.raw import raw_batch, sink
from workers.sink.batch import DecodedBatch
from workers.sink.decoding.decoder import build_decoder

TYPES: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "small": pa.int32(),
    "city": pa.string(),
    "fare": pa.float64(),
    "is_paid": pa.bool_(),
    "price": pa.decimal128(9, 2),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "seen": pa.timestamp("ms"),
    "token": pa.binary(),
    "tags": pa.list_(pa.field("element", pa.string())),
    "place": pa.struct([("lat", pa.float64()), ("since", pa.date32())]),
    "stops": pa.list_(pa.field("element", pa.struct([("n", pa.int32())]))),
}
SCHEMA = pa.schema(list(TYPES.items()))
MAPS = pa.schema([*TYPES.items(), ("labels", pa.map_(pa.string(), pa.int64()))])


def check(values: list[bytes], schema: pa.Schema = SCHEMA) -> DecodedBatch:
    """The batch is what the plain reader makes of each record."""
    decoded = build_decoder(sink(), schema)(raw_batch(values))
    rows, bad = [], set()
    for at, value in enumerate(values):
        try:
            rows.append((at, plainly(value, schema)))
        except Bad:
            bad.add(at)
    assert {one.offset for one in decoded.bad} == bad, [values[one.offset] for one in decoded.bad]
    assert decoded.offsets.tolist() == [at for at, _ in rows]
    assert decoded.rows.schema == schema
    assert decoded.rows.to_pylist() == [row for _, row in rows]
    return decoded


# What records say in any column: fitting some columns, and some not at all.
SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -7, 2**31, 2**63 - 1, 2**63, 1.5, -0.25, 1e300, "", "Oslo", "æøå 🚕",
    "1", "1.50", "2024-02-29", "2023-02-29", "2024-02-29T12:30:00Z", "2024-02-29T12:30:00",
    "2024-02-29T12:30:00.250+02:00", "aGVsbG8=", "not base 64", "a\nb", "a\x00b", "}{", "\\", '"',
    [], ["a", None], ["a", 1], [{"n": 1}, {"n": None}, None, {}], [{"n": "1"}], [[1]],
    {}, {"lat": 1}, {"lat": 59.9, "since": "2020-01-01"}, {"lat": 1.0, "since": 18_262},
    {"lat": "x"}, {"a": 1, "b": None}, {"unknown": {"deep": [1]}},
)  # fmt: skip
RAW = (
    b"", b" ", b"null", b"5", b'"text"', b"[]", b"[1]", b"{", b"}", b"{}", b" {}\n", b"{}{}",
    b"{} {}", b"{}\n{}", b'{"id":1}\n{"id":2}', b'{"id":1}}\n{"v":{"id":2}', b'{"id":1},"x":{}',
    b'{"id":1},"v":{}', b'{"id":1}]', b'{"id":1,"id":2}', b'{"other":1,"other":2}', b'{"id":1',
    b',"id":2}', b'{"city":"', b'"}', b'{"city":"\xff"}', b'\xff', b'{"city":"\\ud800"}',
    b'{"city":"\\ud83d\\ude95"}', b'{"fare":NaN}', b'{"fare":Infinity}', b'{"fare":-Inf}',
    b'{"x":NaN}', b'{"x":NaN,"y":1}', b'{"x":1,"y":"1"}', b'{"x":"1"}',
    b'{"city":"NaN"}', b'{"city":"Inf"}', b'{"id":01}', b'{"id":1.0}', b'{"id":1e2}',
    b'{"fare":1e999}', b'{"price":12345678.91}', b'{"price":1.234}', b'{"price":"1e1"}',
    b"{'id':1}", b'{"id":1,}', b'/**/{"id":1}', b'{"id":+1}', b'\xef\xbb\xbf{"id":1}',
    b'{"x":' + b"[" * 199 + b"]" * 199 + b"}", b'{"x":' + b"[" * 200 + b"]" * 200 + b"}",
    b'{"x":' + b"[" * 100_000, b'{"city":"' + b"[" * 5_000 + b'"}', b'{"x":"\x01"}',
)  # fmt: skip


@st.composite
def values(draw: st.DrawFn, names: list[str]) -> list[bytes]:
    """Batches as topics have them: mostly good records, some of anything."""
    seed = draw(st.integers(0, 2**32))
    chance = random.Random(seed)
    worst = draw(st.sampled_from([0.0, 0.05, 0.5]))
    return [
        chance.choice(RAW) if chance.random() < worst else record(chance, names, worst)
        for _ in range(draw(st.integers(0, 60)))
    ]


def record(chance: random.Random, names: list[str], worst: float) -> bytes:
    good: dict[str, list[Any]] = {
        "id": [1, -5, None], "small": [3], "city": ["Oslo", "æ", ""], "fare": [1, 2.5],
        "is_paid": [True, None], "price": [1.5, "2.25", 3], "day": ["2024-02-29", None],
        "at": ["2024-02-29T12:30:00Z", "2024-02-29 12:30:00.5"], "seen": [1_700_000_000_000],
        "token": ["aGVsbG8=", ""], "tags": [["a"], [], None], "place": [{"lat": 1.5}, None],
        "stops": [[{"n": 1}, None]], "labels": [{"a": 1, "b": None}, {}, None],
    }  # fmt: skip
    chosen = chance.sample([*names, "unknown"], chance.randint(0, len(names)))
    fields = {
        name: chance.choice(SCALARS if chance.random() < worst / 5 else good.get(name, SCALARS))
        for name in chosen
    }
    return json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode()


@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(values(SCHEMA.names))
def test_batch_is_what_a_plain_reader_makes_of_each_record(batch: list[bytes]) -> None:
    check(batch)


@settings(max_examples=examples(60), deadline=None)
@given(values(MAPS.names))
def test_batch_with_maps_is_too(batch: list[bytes]) -> None:
    check(batch, MAPS)


@pytest.mark.parametrize("value", RAW, ids=lambda value: repr(value[:20]))
def test_odd_value_spoils_no_other(value: bytes) -> None:
    good = b'{"id":1,"city":"Oslo"}'

    check([value])
    check([good, value, good])
    check([value, value, good])


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", SCHEMA.names)
def test_every_kind_of_value_in_every_column(name: str) -> None:
    for scalar in SCALARS:
        check([json.dumps({name: scalar}).encode(), b"{}"])
    check([json.dumps({name: one}).encode() for one in SCALARS])


def test_pieces_of_objects_never_become_one_row() -> None:
    """Each of these is bad alone, and together they would be as many objects as values."""
    check([b'{"id":1', b',"city":"x"}', b'{"id":2}{"id":3}'])
    check([b'{"id":1}}\n{"v":{"id":2}', b'{"place":{"lat":1}', b'{"id":3}'])
    check([b'{"city":"', b'"}', b'{"id":2}}\n{"v":{"id":3}'])


def test_times_written_both_ways_are_read_in_parts() -> None:
    texts = [b'{"at":"2024-02-29T12:30:00Z","seen":5}', b'{"at":null}']
    numbers = [b'{"at":1709209800000000,"seen":"2024-02-29"}', b'{"place":{"since":3}}']

    check(texts + numbers + texts + numbers * 2)


def test_few_bad_records_cost_few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    from workers.sink.decoding import json_values

    looks: list[int] = []
    joined = json_values._join

    def counted(values: list[bytes]) -> bytes:
        looks.append(len(values))
        return joined(values)

    monkeypatch.setattr(json_values, "_join", counted)
    good = b'{"id":1,"city":"Oslo"}'
    batch = [b"poison" if at in (1_000, 7_777) else good for at in range(10_000)]

    decoded = build_decoder(sink(), SCHEMA)(raw_batch(batch))

    assert [one.offset for one in decoded.bad] == [1_000, 7_777]
    assert len(looks) < 60
    assert sum(looks) < 6 * 10_000


def test_fields_in_no_column_are_counted_by_record() -> None:
    decoded = check(
        [
            b'{"id":1}',
            b'{"id":2,"more":1}',
            b'{"id":3,"more":"of another kind","and":1}',
            b'{"id":4,"place":{"lat":1,"lon":2}}',
            b'{"id":5,"more":null}',
        ]
    )

    assert decoded.left_out == 3 - 1, "of another kind: what is in structs is not looked at then"
    assert check([b'{"place":{"lon":2}}', b'{"stops":[{"m":1}]}', b'{"id":1}']).left_out == 2


def test_bad_record_says_where_it_was_what_it_was_and_why() -> None:
    batch = raw_batch([b'{"id":1}', b'{"id":"one"}'], keys=[b"a", b"b"], first=40)

    bad = build_decoder(sink(), SCHEMA)(batch).bad

    assert [(one.offset, one.key, one.value, one.timestamp_ms) for one in bad] == [
        (41, b"b", b'{"id":"one"}', int(batch.timestamps_ms[1]))
    ]
    assert bad[0].cause == "Column(id) changed from number to string"


def test_tombstones_are_no_rows() -> None:
    batch = raw_batch([None, b'{"id":1}', None], keys=[b"a", b"b", None], first=7)

    decoded = build_decoder(sink(), SCHEMA)(batch)

    assert [(one.offset, one.key) for one in decoded.tombstones] == [(7, b"a"), (9, None)]
    assert decoded.offsets.tolist() == [8]
    assert decoded.bad == ()


def test_column_that_must_have_a_value_makes_records_without_it_bad() -> None:
    inner = pa.struct([pa.field("n", pa.int64(), nullable=False)])
    fields: list[pa.Field[Any]] = [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("one", inner),
        pa.field("many", pa.list_(pa.field("element", inner))),
    ]
    schema = pa.schema(fields)
    batch = [
        b'{"id":1,"key":"a"}',
        b'{"key":"a"}',
        b'{"id":2,"key":null}',
        b'{"id":3,"key":"a","one":{}}',
        b'{"id":4,"key":"a","one":{"n":1},"many":[{"n":1},{}]}',
        b'{"id":5,"key":"a","one":null,"many":[null,{"n":1}]}',
    ]

    decoded = build_decoder(sink(), schema, required=["key"])(raw_batch(batch))

    assert decoded.rows.column("id").to_pylist() == [1, 5]
    assert decoded.offsets.tolist() == [0, 5]
    assert [one.cause.split()[0] for one in decoded.bad] == ["id", "key", "one", "many"]
    assert decoded.rows.schema == schema


def test_new_fields_are_found_where_they_are_asked_for() -> None:
    batch = raw_batch(
        [
            b'{"id":1,"tip":1,"when":"2024-01-01","place":{"lat":1,"lon":2},"Id":3,"_hoodie_x":1}',
            b'{"id":2,"tip":2.5,"note":{"text":"a","none":null},"a b":1,"many":[1],"nil":null}',
        ]
    )

    decoded = build_decoder(sink(**{"hoodie.sink.schema.source": "infer"}), SCHEMA)(batch)

    place = pa.struct([("lat", pa.float64()), ("since", pa.date32()), ("lon", pa.int64())])
    assert {field.name: field.type for field in decoded.new_fields} == {
        "tip": pa.float64(),
        "when": pa.string(),
        "place": place,
        "note": pa.struct([("text", pa.string())]),
        "many": pa.list_(pa.field("element", pa.int64())),
    }
    assert decoded.rows.column("id").to_pylist() == [1, 2]
    assert build_decoder(sink(), SCHEMA)(batch).new_fields == pa.schema([])


def test_new_field_of_two_kinds_is_left_out() -> None:
    batch = raw_batch([b'{"tip":1,"n":1}', b'{"tip":"none","n":2.5}', b'{"tip":[]}', b"{}"])

    decoded = build_decoder(sink(**{"hoodie.sink.schema.source": "infer"}), SCHEMA)(batch)

    assert decoded.new_fields == pa.schema([("n", pa.float64())])
    assert (decoded.left_out, decoded.bad) == (3, ())


def test_empty_batch_has_the_schema() -> None:
    decoded = build_decoder(sink(), SCHEMA)(raw_batch([]))

    assert decoded.rows == SCHEMA.empty_table()
    assert decoded.offsets.dtype == np.int64
