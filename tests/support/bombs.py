"""Small files that stand for much: compression, counts, nesting and lengths that lie."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from workers.files.log_block import BlockType, HeaderKey, encode_block

HUGE = 1 << 50


def number(value: int) -> bytes:
    """As Avro spells it."""
    zigzag = (value << 1) ^ (value >> 63)
    spelled = bytearray()
    while zigzag > 0x7F:
        spelled.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*spelled, zigzag])


def container(
    schema: Any, block: bytes, *, codec: str = "null", records: int = 1, size: int | None = None
) -> bytes:
    """An Avro container of one block."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    entries = {"avro.schema": text.encode(), "avro.codec": codec.encode()}
    head = b"Obj\x01" + number(len(entries))
    for key, content in entries.items():
        head += number(len(key)) + key.encode() + number(len(content)) + content
    counted = number(records) + number(len(block) if size is None else size)
    return head + b"\0" + b"s" * 16 + counted + block + b"s" * 16


def record(*fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "r",
        "fields": [{"name": f"f{at}", "type": kind} for at, kind in enumerate(fields)],
    }


EMPTY = {"type": "record", "name": "e", "fields": []}
ITSELF = {"type": "record", "name": "s", "fields": [{"name": "s", "type": "s"}]}
NOTHING = {"type": "fixed", "name": "n", "size": 0}
LONG = record("bytes")


def zero_bytes() -> bytes:
    """A value of a gigabyte. Made when it is wanted: whoever collects the tests holds none."""
    return number(1 << 30) + bytes(1 << 30)


def nested(depth: int, *, form: str) -> str:
    return form * depth + '"int"' + "}" * depth


def deflated(content: bytes) -> bytes:
    squeezing = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    return squeezing.compress(content) + squeezing.flush()


def many(items: Any) -> bytes:
    return container(record({"type": "array", "items": items}), number(HUGE) + number(0))


AVRO: dict[str, Callable[[], bytes]] = {
    "nulls": lambda: many("null"),
    "empty records": lambda: many(EMPTY),
    "fixed of no byte": lambda: many(NOTHING),
    "records of empty records": lambda: many(record(EMPTY, "null")),
    "arrays of nulls": lambda: many({"type": "array", "items": "null"}),
    "a record in itself": lambda: many(ITSELF),
    "records by the block": lambda: container(EMPTY, b"", records=HUGE),
    "deflate": lambda: container(LONG, deflated(zero_bytes()), codec="deflate"),
    "zstandard": lambda: container(LONG, zstandard.compress(zero_bytes(), 1), codec="zstandard"),
    "bzip2": lambda: container(LONG, bz2.compress(bytes(1 << 28), 1), codec="bzip2"),
    "xz": lambda: container(LONG, lzma.compress(bytes(1 << 26), preset=0), codec="xz"),
    "snappy": lambda: container(LONG, b"\xff\xff\xff\xff\x0f" + b"\0" * 99, codec="snappy"),
    "long text": lambda: container(record("string"), number(1 << 60) + b"x"),
    "negative text": lambda: container(record("string"), number(-5) + b"x"),
    "wide fixed": lambda: container(record({"type": "fixed", "name": "w", "size": 1 << 60}), b"x"),
    "long block": lambda: container(LONG, b"x", size=1 << 60),
    "negative block": lambda: container(LONG, b"x", size=-7),
    "deep schema": lambda: container(nested(50_000, form='{"type":"array","items":'), b""),
    "deep enough schema": lambda: container(nested(400, form='{"type":"map","values":'), b""),
    "long schema": lambda: container(json.dumps(record(*["int"] * 300_000)), b"\0" * 300_000),
    "an endless number": lambda: b"Obj\x01" + b"\xff" * 1_000_000,
    "an empty file of magic": lambda: b"Obj\x01",
}
JSON: dict[str, Callable[[], bytes]] = {
    "deep list": lambda: b'{"a":' + b"[" * 1_000_000,
    "deep object": lambda: b'{"a":' * 500_000,
    "long number": lambda: b'{"a":' + b"9" * 5_000_000 + b"}",
    "no text": lambda: b"{" + b"\xff" * 1_000_000,
}


def parquet(table: pa.Table, **how: Any) -> bytes:
    content = io.BytesIO()
    pq.write_table(table, content, **how)
    return content.getvalue()


def texts(count: int, length: int) -> pa.Table:
    """Columns of which a dictionary of one long text says everything."""
    column = pa.DictionaryArray.from_arrays(
        pa.array([0] * count, pa.int32()), pa.array(["x" * length])
    )
    return pa.table(dict.fromkeys(("id", "place", "note"), column))


def with_footer(content: bytes, footer: bytes, *, length: int | None = None) -> bytes:
    (old,) = struct.unpack("<i", content[-8:-4])
    length_word = struct.pack("<I", len(footer) if length is None else length)
    return content[: -8 - old] + footer + length_word + b"PAR1"


LISTS = b"\x19\xfc\xff\xff\xff\xff\x07" * 1000
SMALL = pa.table({"id": ["1"], "place": ["p"], "ts": [1]})
PARQUET: dict[str, Callable[[], bytes]] = {
    "a footer longer than the file": lambda: with_footer(parquet(SMALL), b"x", length=0xFFFFFFF0),
    "a footer of lists": lambda: with_footer(parquet(SMALL), LISTS),
    "a footer that nests": lambda: with_footer(parquet(SMALL), b"\x1c" * 100_000),
    "a long text, many times": lambda: parquet(texts(2_000_000, 100_000), store_schema=False),
    "zeros in zstandard": lambda: parquet(zeros(), compression="zstd", use_dictionary=False),
    "zeros in gzip": lambda: parquet(zeros(), compression="gzip", use_dictionary=False),
    "zeros in snappy": lambda: parquet(zeros(), compression="snappy", use_dictionary=False),
    "many columns": lambda: parquet(pa.table({f"c{at}": [1] for at in range(20_000)})),
    "many row groups": lambda: parquet(pa.table({"id": ["1"] * 20_000}), row_group_size=1),
    "deep columns": lambda: parquet(pa.table({"id": pa.nulls(1, _deep(500))})),
    "no parquet": lambda: b"PAR1" + b"\0" * 1000 + b"PAR1",
}


def zeros() -> pa.Table:
    """2 GB in some megabytes."""
    return pa.table({"id": pa.array([bytes(1 << 26)] * 8, pa.large_binary())})


def _deep(depth: int) -> Any:
    kind: Any = pa.int32()
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


SCHEMA = json.dumps(record("string"))


def block(kind: BlockType, content: bytes, schema: str = SCHEMA) -> bytes:
    header = {HeaderKey.INSTANT_TIME: "20260101000000000", HeaderKey.SCHEMA: schema}
    return encode_block(kind, header, content)  # type: ignore[arg-type]


def rows(count: int, datum: bytes) -> bytes:
    return struct.pack(">ii", 3, count) + struct.pack(">i", len(datum)) + datum


LOGS: dict[str, Callable[[], bytes]] = {
    "parquet of long texts": lambda: block(
        BlockType.PARQUET_DATA, parquet(texts(2_000_000, 100_000), store_schema=False)
    ),
    "parquet of zeros": lambda: block(
        BlockType.PARQUET_DATA, parquet(zeros(), compression="zstd", use_dictionary=False)
    ),
    "avro of nulls": lambda: block(
        BlockType.AVRO_DATA,
        rows(1, number(HUGE) + number(0)),
        json.dumps(record({"type": "array", "items": "null"})),
    ),
    "avro of many rows": lambda: block(BlockType.AVRO_DATA, rows((1 << 31) - 1, b"")),
    "avro in gzip": lambda: block(BlockType.AVRO_DATA, gzip.compress(rows(1, b"\0"))),
    "deletes without end": lambda: block(
        BlockType.DELETE, struct.pack(">ii", 3, 20) + number(HUGE) + b"\0" * 10
    ),
    "a header of many": lambda: _lied(block(BlockType.DELETE, b"x"), 14 + 8, 1 << 30),
    "an hfile": lambda: block(BlockType.HFILE_DATA, b"\0" * 1000),
    "a schema that nests": lambda: block(
        BlockType.AVRO_DATA, rows(1, b"\0"), nested(50_000, form='{"type":"array","items":')
    ),
    "magic only": lambda: b"#HUDI#" * 500_000,
}


def _lied(content: bytes, at: int, value: int) -> bytes:
    return content[:at] + struct.pack(">i", value) + content[at + 4 :]


def sparse(path: Path, size: int) -> None:
    """A file that is long and takes no room."""
    with path.open("wb") as stream:
        stream.truncate(size)
