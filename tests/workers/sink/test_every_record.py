"""Every record ends as a row or as a letter, whatever its key, value, headers and time are: through
the whole participant, from what the consumer gave to the commit.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.workers.sink.sinks import (
    Facts,
    append_table,
    config_of,
    coordinator,
    extra_of,
    keyed_table,
    letters_of,
    rows_of,
)
from tests.workers.sink.whole_participant import Sent, carry
from workers.errors import InvalidInput
from workers.lakehouse import open_table
from workers.schema.alter import AddColumn
from workers.sink.config import SinkConfig
from workers.table.table import Table

_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "count": pa.int64(),
    "price": pa.decimal128(10, 2),
    "share": pa.float64(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "raw": pa.binary(),
    "tags": pa.list_(pa.field("element", pa.string())),
    "place": pa.struct([pa.field("city", pa.string()), pa.field("zip", pa.int32())]),
    "more": pa.map_(pa.string(), pa.int64()),
}
WIDE = pa.schema(_TYPES)
PLAIN = pa.schema([(name, _TYPES[name]) for name in ("id", "count", "day", "at")])
SEEDS = [1, 2, *(pytest.param(one, marks=pytest.mark.soak) for one in range(3, 40))]
DEEP = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
TIMES = (-1, 0, -5, 1_700_000_000_000, 253_402_300_799_999, 253_402_300_800_000,
         1_700_000_000_000_000_000, 2**63 - 1, -(2**63))  # fmt: skip
KEYS = (
    None, b"", b"k", b'"k"', b'"', b'{"id":"k"}', b'{"id":"\\ud800"}', b'"\\udfff"', DEEP,
    b'{"id":' + b"[" * 5_000 + b"]" * 5_000 + b"}", b"\xff\xfe", b"\x00\x00\x00\x00\x01\x02k",
    b"\x00", b'{"id":1e999}', b'{"id":NaN}', b'{"id":' + b"9" * 5_000 + b"}", b'{"id":{}}',
    b'{"id":""}', b"null", b"true", b"\xef\xbb\xbfk", b'{"id":null}', b"k\x00", b"[1]",
    b'{"id":"a","id":"b"}',
)  # fmt: skip
TEXTS = (
    b'""', b'"x"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b"null", b"true", b"1", b"-0",
    b"1.5", b"1e400", b"-1e400", b"9" * 30, b"9223372036854775808", b"NaN", b"Infinity", b"[]",
    b"{}", b"[[[]]]", b'{"city":"x","zip":1}', b'{"city":1,"zip":99999999999}', b'{"k":1}',
    b'["a",null]', b'[{"a":1}]', b'"2024-02-30"', b'"9999-12-31T23:59:59.999999Z"',
    b'"1e3"', b'"0000-01-01"', b'"2024-01-01T00:00:00.123456789Z"', b"1700000000000000000",
    b'"\xff"', b'"not base 64"', b'"YQ=="', b"[" * 300 + b"]" * 300, b'{"\\ud800":1}', b'"d"',
    b'"DELETE"',
)  # fmt: skip
NAMES = (
    *WIDE.names, "op", "new", "New", "_hoodie_x", "_ms_x", "_sluice_deleted", "\\ud800", "", "a b",
    "ID", "id", "v",
)  # fmt: skip


def broken_headers() -> Any:
    raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


HEADERS: tuple[Callable[[], Any], ...] = (
    lambda: None,
    list,
    lambda: [("a", b"\xff"), ("a", None), ("", b"")],
    broken_headers,
)


def json_value(chance: random.Random) -> bytes | None:
    kind = chance.random()
    if kind < 0.08:
        return None
    if kind < 0.16:
        return chance.choice(
            (b"", b"{", b"x", DEEP, b"null", b"[]", b"\xff", b"{}", b'{"id":"a"} {}')
        )
    if kind < 0.5:
        return json.dumps({"id": f"good-{chance.randrange(50)}", "count": 1}).encode()
    fields = [
        b'"%s":%s' % (chance.choice(NAMES).encode(), chance.choice(TEXTS))
        for _ in range(chance.randrange(1, 5))
    ]
    return b"{" + b",".join([b'"id":"k%d"' % chance.randrange(9), *fields]) + b"}"


def csv_value(chance: random.Random) -> bytes | None:
    cells = (b"", b"x", b'"', b'""', b"1", b"9" * 30, b"2024-01-01", b"\xff", b"\x00", b"\n",
             b'"a,b"', b"1700000000000000000", b"'", b"\r", b"NaN")  # fmt: skip
    if chance.random() < 0.1:
        return None
    return b",".join(chance.choice(cells) for _ in range(chance.choice((4, 4, 4, 4, 3, 5))))


AVRO = {
    "1": {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "count", "type": ["null", "long"]},
            {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        ],
    },
    "2": "string",
    "3": {
        "type": "record",
        "name": "s",
        "fields": [{"name": "id", "type": {"type": "array", "items": "string"}}],
    },
    "4": {"type": "record", "name": "key", "fields": [{"name": "id", "type": "string"}]},
    "5": "long",
}


def avro_value(chance: random.Random) -> bytes | None:
    if chance.random() < 0.1:
        return None
    body = b"\x02" + chance.choice((b"k", b"\xff", b"\x00")) + b"\x02\x08\x00"
    if chance.random() < 0.5:
        body = chance.randbytes(chance.randrange(12))
    return b"\x00" + chance.choice((1, 1, 1, 2, 3, 9)).to_bytes(4, "big") + body


def some_records(
    chance: random.Random, value: Callable[[random.Random], bytes | None]
) -> list[Sent]:
    return [
        Sent(
            value(chance),
            chance.choice(KEYS) if chance.random() < 0.7 else b"good-%d" % chance.randrange(50),
            chance.choice(TIMES) if chance.random() < 0.3 else 1_700_000_000_000 + at,
            chance.choice(HEADERS),
        )
        for at in range(150)
    ]


def assert_each_is_a_row_or_a_letter(table: Table, config: SinkConfig, records: list[Sent]) -> None:
    done = carry(table, config, records)

    assert done.report.records == len(records)
    letters = [one["_kafka_offset"] for one in letters_of(table, config)]
    assert len(letters) == len(set(letters)) == done.report.bad_records
    if "_kafka_offset" in table.config.record_key:
        rows = [offset for (offset,) in rows_of(table, "_kafka_offset")]
        assert sorted([*rows, *letters]) == list(range(len(records)))
    else:
        rows_of(table)  # It can be read.


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("source", ["table", "infer"])
def test_json_records_of_any_kind_become_appended_rows_or_letters(
    tmp_path: Path, seed: int, source: str
) -> None:
    table = append_table(tmp_path / "t", WIDE)
    config = config_of(schema_source=source)

    assert_each_is_a_row_or_a_letter(table, config, some_records(random.Random(seed), json_value))


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("source", ["table", "infer"])
def test_json_records_of_any_kind_become_versions_deletes_or_letters(
    tmp_path: Path, seed: int, source: str
) -> None:
    table = keyed_table(tmp_path / "t", WIDE, partition_by=["day"] if seed % 2 else [])
    config = config_of(mode="upsert", op_column="op", schema_source=source)

    assert_each_is_a_row_or_a_letter(table, config, some_records(random.Random(seed), json_value))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_lines_and_avro_of_any_kind_become_rows_or_letters(
    tmp_path: Path, seed: int, mode: str
) -> None:
    make = append_table if mode == "append" else keyed_table
    chance = random.Random(seed)
    (tmp_path / "schemas.json").write_text(json.dumps(AVRO))
    avro = {"schema_source": "registry_file", "schema_file": str(tmp_path / "schemas.json")}

    assert_each_is_a_row_or_a_letter(
        make(tmp_path / "lines", PLAIN),
        config_of(mode=mode, format="csv"),
        some_records(chance, csv_value),
    )
    assert_each_is_a_row_or_a_letter(
        make(tmp_path / "avro", PLAIN),
        config_of(mode=mode, format="avro", **avro),
        some_records(chance, avro_value),
    )


# Tombstones ----------------------------------------------------------------------------------

FRAME = b"\x00\x00\x00\x00"
MEANT = [
    ("auto", b"abc", "abc"),
    ("auto", b'"abc"', "abc"),
    ("auto", b' "abc"', "abc"),
    ("auto", b'{"id": "abc"}', "abc"),
    ("auto", FRAME + b"\x02\x06abc", "abc"),
    ("auto", FRAME + b"\x04\x06abc", "abc"),
    ("avro", FRAME + b"\x02\x06abc", "abc"),
    ("json", b'"abc"', "abc"),
    ("json", b"7", "7"),
    ("text", b'"abc"', '"abc"'),
    ("text", b'{"id": "abc"}', '{"id": "abc"}'),
    ("auto", b"7", "7"),
]
MEANS_NOTHING = [
    ("auto", b'"abc', "not a JSON"),
    ("auto", b"{" * 5_000, "deeper than 200"),
    ("auto", DEEP, "deeper than 200"),
    ("auto", b'{"id":"\\ud800"}', "half a character"),
    ("auto", b'"\\udfff"', "half a character"),
    ("auto", b'{"id":"abc","id":"b"}', "twice"),
    ("auto", FRAME + b"\x09\x06abc", "schema id 9"),
    ("auto", FRAME + b"\x02\x06ab", "ends within"),
    ("auto", FRAME + b"\x05\x06", "the table string"),
    ("auto", FRAME + b"\x03\x00", "the table string"),
    ("auto", b"\x00\x00\x00\x00\x00\x00\x00\x07", "schema id 0"),
    ("auto", b"\x07abc", "no text"),
    ("auto", b"\xef\xbb\xbfabc", "no text"),
    ("json", b"abc", "not a JSON"),
    ("json", b'["abc"]', "no key is made of"),
    ("avro", b"abc", "too short"),
    ("avro", None, "no key"),
]


def sink_of_keys(tmp_path: Path, key_format: str) -> tuple[Table, SinkConfig]:
    """Rows `abc` and those whose keys a wrong reading would name."""
    (tmp_path / "schemas.json").write_text(json.dumps(AVRO))
    table = keyed_table(tmp_path / "t", PLAIN)
    config = config_of(
        mode="upsert",
        key_format=key_format,
        schema_source="registry_file",
        schema_file=str(tmp_path / "schemas.json"),
    )
    rows = ["abc", '"abc"', "7", '{"id": "abc"}']
    carry(table, config, [Sent(json.dumps({"id": one}).encode()) for one in rows])
    return table, config


def carry_more(table: Table, config: SinkConfig, *records: Sent) -> None:
    """Behind the four that the sink has read."""
    carry(table, config, [Sent(b"passed by")] * 4 + list(records))


@pytest.mark.parametrize(("key_format", "key", "row"), MEANT)
def test_a_tombstone_deletes_the_row_that_its_key_means(
    tmp_path: Path, key_format: str, key: bytes, row: str
) -> None:
    table, config = sink_of_keys(tmp_path, key_format)
    before = {one for (one,) in rows_of(table, "id")}

    carry_more(table, config, Sent(None, key))

    assert before - {one for (one,) in rows_of(table, "id")} == {row}
    assert letters_of(table, config) == []


@pytest.mark.parametrize(("key_format", "key", "cause"), MEANS_NOTHING)
def test_a_tombstone_whose_key_does_not_fit_is_a_letter(
    tmp_path: Path, key_format: str, key: bytes | None, cause: str
) -> None:
    table, config = sink_of_keys(tmp_path, key_format)

    carry_more(table, config, Sent(None, key), Sent(b'{"id": "next"}'))

    assert len(rows_of(table, "id")) == 5
    [letter] = letters_of(table, config)
    assert (letter["_kafka_offset"], letter["key"]) == (4, key)
    assert cause in letter["_sluice_error"]


def test_a_framed_key_without_a_schema_file_is_a_letter(tmp_path: Path) -> None:
    table, config = keyed_table(tmp_path / "t", PLAIN), config_of(mode="upsert")

    carry(table, config, [Sent(b'{"id": "abc"}'), Sent(None, FRAME + b"\x02\x06abc")])

    assert rows_of(table, "id") == [("abc",)]
    assert "no schema file" in letters_of(table, config)[0]["_sluice_error"]


def test_keys_by_avro_need_a_schema_file() -> None:
    with pytest.raises(InvalidInput, match=r"key\.format=avro needs"):
        config_of(mode="upsert", key_format="avro")


def test_tombstones_that_meet_no_row_are_counted(tmp_path: Path) -> None:
    table, config = sink_of_keys(tmp_path, "text")
    open_table(table.storage.location).compact(options={"hoodie.write.markers.type": "direct"})

    keys = [b"abc", b"nobody", b"abc", b"7", b"new", b"new", b"later"]
    records = [Sent(None, key) for key in keys]
    records.insert(4, Sent(b'{"id": "new"}'))
    records.append(Sent(b'{"id": "later"}'))
    done = carry(table, config, [Sent(b"passed by")] * 4 + records, batch_rows=2)

    assert (done.report.tombstones, done.report.tombstones_unmet) == (7, 4)
    extra = extra_of(table)
    assert extra["hoodie.sink.tombstones.unmet"] == "4"
    assert extra["hoodie.sink.tombstones.not.looked.for"] == "0"
    assert {one for (one,) in rows_of(table, "id")} == {'"abc"', '{"id": "abc"}', "later"}


def test_tombstones_that_would_take_too_much_to_look_for_are_counted_as_such(
    tmp_path: Path,
) -> None:
    table, config = sink_of_keys(tmp_path, "text")
    small = replace(config, buffer_bytes_max=64)

    done = carry(table, small, [Sent(b"passed by")] * 4 + [Sent(None, b"x"), Sent(None, b"y")])

    assert (done.report.tombstones, done.report.tombstones_not_looked_for) == (2, 2)


# Times and op columns ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b'{"id": "x"}', b"{", None])
def test_a_record_whose_time_no_table_can_hold_is_a_letter_with_the_number(
    tmp_path: Path, value: bytes | None
) -> None:
    """Nanoseconds, as some producers send them; the value may be good, bad or none."""
    table, config = append_table(tmp_path / "t", PLAIN), config_of()
    nanoseconds = 1_700_000_000_000_000_000

    done = carry(table, config, [Sent(value, b"k", nanoseconds), Sent(b'{"id": "y"}', at_ms=5)])

    [letter] = letters_of(table, config)
    assert (letter["key"], letter["value"]) == (b"k", value)
    assert letter["_kafka_timestamp"] is None
    assert str(nanoseconds) in letter["_sluice_error"]
    [(offset, at)] = rows_of(table, "_kafka_offset", "_kafka_timestamp")
    assert (offset, at.timestamp()) == (1, 0.005)
    assert done.report.max_timestamp_ms == 5


def test_a_keyed_table_without_a_column_for_times_takes_records_of_any_time(tmp_path: Path) -> None:
    table, config = keyed_table(tmp_path / "t", PLAIN), config_of(mode="upsert")

    carry(table, config, [Sent(b'{"id": "x"}', at_ms=2**63 - 1), Sent(b"{", at_ms=2**63 - 1)])

    assert rows_of(table, "id") == [("x",)]
    assert letters_of(table, config)[0]["_kafka_timestamp"] is None


def test_an_op_column_that_can_say_nothing_is_refused_and_stops_no_transaction(
    tmp_path: Path,
) -> None:
    op = pa.field("op", pa.struct([pa.field("kind", pa.string())]))
    table = keyed_table(tmp_path / "t", pa.schema([*PLAIN, op]))
    with pytest.raises(InvalidInput, match="the op column says"):
        coordinator(table, config_of(mode="upsert", op_column="op"))

    later = keyed_table(tmp_path / "later", PLAIN)
    ledger = coordinator(later, config_of(mode="upsert", op_column="op"))
    open_table(later.storage.location).alter(
        AddColumn("op", op.type), options={"hoodie.write.markers.type": "direct"}
    )
    with pytest.raises(InvalidInput, match="the op column says"):
        ledger.begin(Facts({0: (0, 1)}))


def test_structs_of_a_column_take_new_fields_where_they_are_inferred(tmp_path: Path) -> None:
    """They were asked for again and again, and nothing was ever committed."""
    table, config = append_table(tmp_path / "t", WIDE), config_of(schema_source="infer")

    done = carry(table, config, [Sent(b'{"id": "a", "place": {"city": "Oslo", "floor": 3}}')])

    assert len(done.failures) == 1
    assert rows_of(table, "place") == [({"city": "Oslo", "zip": None, "floor": 3},)]
