"""Write the Parquet and Arrow files of the corpus, in a minute:
`python -m tests.workers.loading.parquet_corpus`.

The rows next to a file come from this module, not from reading the file.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.workers.loading.corpus import FOLDER

ID = pa.array(["a", "b"])
DAMAGED = "damaged, or in a form that is not supported: file="


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


def arrow(columns: dict[str, Any], *, is_stream: bool = False) -> bytes:
    sink, table = io.BytesIO(), pa.table(columns)
    opened: Callable[..., Any] = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with opened(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


class Corpus:
    def __init__(self) -> None:
        self.names: list[str] = []

    def add(self, name: str, content: bytes, **facts: Any) -> None:
        self.names.append(name)
        (FOLDER / name).write_bytes(content)
        text = json.dumps(facts, indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(text + "\n")

    def column(
        self,
        name: str,
        values: Any,
        kind: str,
        plain: Sequence[Any],
        *,
        table: str = "",
        summary: str = "",
        **options: Any,
    ) -> None:
        """Add a file of a key and one column that is read as `plain`."""
        rows = [{"id": key, "v": value} for key, value in zip("ab", plain, strict=True)]
        facts: dict[str, Any] = {"types": {"id": "string", "v": kind}, "rows": rows}
        if table:
            facts["table"] = {"id": "string", "v": table}
        if summary:
            facts["note"] = summary
        self.add(f"{name}.parquet", parquet({"id": ID, "v": values}, **options), **facts)

    def misfit(self, name: str, values: Any, table: str, pattern: str) -> None:
        """Add a file whose column does not fit the table's."""
        facts = {"table": {"id": "string", "v": table}, "refused": pattern}
        self.add(f"{name}.parquet", parquet({"id": ID, "v": values}), **facts)


def _times(numbers: Sequence[int | None], unit: Any, zone: str | None = None) -> Any:
    return pa.array(numbers, pa.int64()).cast(pa.timestamp(unit, zone))


def _add_columns(corpus: Corpus) -> None:
    add = corpus.column
    add("unsigned_8", pa.array([255, None], pa.uint8()), "int", [255, None])
    add("unsigned_16", pa.array([65535, 0], pa.uint16()), "int", [65535, 0])
    add("unsigned_32", pa.array([2**32 - 1, 0], pa.uint32()), "bigint", [2**32 - 1, 0])
    add("unsigned_64_small", pa.array([2**63 - 1, 0], pa.uint64()), "bigint", [2**63 - 1, 0])
    big = [2**64 - 1, 2**64 - 2]
    add(
        "unsigned_64_large",
        pa.array(big, pa.uint64()),
        "decimal(20,0)",
        [str(number) for number in big],
    )
    add("small_integers", pa.array([-128, 127], pa.int8()), "int", [-128, 127])
    add("whole_floats", pa.array([2.0, None]), "bigint", [2, None], table="bigint")
    add("exact_integers", pa.array([10, 2**53]), "double", [10.0, 2.0**53], table="double")
    add("wider_integers", pa.array([1, 2**40]), "bigint", [1, 2**40], table="int")
    cents = pa.array([Decimal("1.100"), None])
    add("decimal_scale", cents, "decimal(10,3)", ["1.100", None], table="decimal(9,2)")
    floats = pa.array([9.99, 10.0])
    add("floats_into_decimal", floats, "decimal(9,2)", ["9.99", "10.00"], table="decimal(9,2)")
    alike = pa.array([Decimal("9.99"), None])
    add("decimal_into_double", alike, "double", [9.99, None], table="double")
    add("half_floats", pa.array([np.float16(1.5), None], pa.float16()), "float", [1.5, None])
    add("nulls_known", pa.nulls(2), "bigint", [None, None], table="bigint")
    inner = pa.array([{"a": None}, None], pa.struct([("a", pa.null())]))
    add(
        "inner_nulls_known",
        inner,
        "struct<a: int,b: string>",
        [{"a": None, "b": None}, None],
        table="struct<a: int,b: string>",
    )
    add("empty_lists_known", pa.array([[], None]), "array<int>", [[], None], table="array<int>")
    nanos = _times([1_700_000_000_000_000_000, None], "ns")
    add("nanoseconds", nanos, "timestamp_ntz", ["2023-11-14T22:13:20", None])
    wide = pa.array([Decimal("1.5"), None], pa.decimal256(30, 1))
    add("wide_decimal", wide, "decimal(30,1)", ["1.5", None])
    fine = _times([1_000_000, None], "ns", "UTC")
    add("nanoseconds_known", fine, "timestamp", ["1970-01-01T00:00:00.001000+00:00", None],
        table="timestamp")  # fmt: skip
    singles = pa.array([0.5, None], pa.float32())
    add("singles_in_double", singles, "double", [0.5, None], table="double")
    add("map_of_text", pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "map<string,bigint>", [[["k", 1]], None])  # fmt: skip
    far = _times([253_402_300_799_000_000, None], "us")
    add(
        "int96_of_year_9999",
        far,
        "timestamp_ntz",
        ["9999-12-31T23:59:59", None],
        use_deprecated_int96_timestamps=True,
    )
    oslo = _times([1_700_000_000_000_000, None], "us", "Europe/Oslo")
    add("times_of_oslo", oslo, "timestamp", ["2023-11-14T22:13:20+00:00", None])
    add(
        "midnights",
        _times([1_704_067_200_000_000, None], "us"),
        "date",
        ["2024-01-01", None],
        table="date",
    )
    add(
        "days_64",
        pa.array([1_704_067_200_000, None]).cast(pa.date64()),
        "date",
        ["2024-01-01", None],
    )
    add("dictionary", pa.array(["x", None]).dictionary_encode(), "string", ["x", None])
    add("large_text", pa.array(["é", ""], pa.large_string()), "string", ["é", ""])
    add(
        "view_text",
        pa.array(["long enough for a view", None], pa.string_view()),
        "string",
        ["long enough for a view", None],
    )
    add(
        "fixed_lists",
        pa.array([[1, 2], None], pa.list_(pa.int16(), 2)),
        "array<int>",
        [[1, 2], None],
    )
    nested = pa.array([{"a": [{"b": 1.0}]}, None])
    add(
        "nested_whole_floats",
        nested,
        "struct<a: array<struct<b: bigint>>>",
        [{"a": [{"b": 1}]}, None],
        table="struct<a: array<struct<b: bigint>>>",
    )


def _add_misfits(corpus: Corpus) -> None:
    add = corpus.misfit
    add(
        "fraction_in_long",
        pa.array([1.0, 1.5]),
        "bigint",
        r"file=fraction_in_long\S+ row=2 column=v",
    )
    add("not_a_number_in_long", pa.array([float("inf"), 1.0]), "bigint", "row=1 column=v")
    add(
        "integer_not_exact",
        pa.array([1, 2**53 + 1]),
        "double",
        "no double is exactly it.*row=2 column=v",
    )
    add("unsigned_64_in_long", pa.array([1, 2**64 - 1], pa.uint64()), "bigint", "row=2 column=v")
    add("text_in_long", pa.array(["1", "2"]), "bigint", "incompatible type.*column=v")
    add("number_in_text", pa.array([1, 2]), "string", "incompatible type.*column=v")
    add("time_of_day_in_date", _times([0, 1], "us"), "date", "it has a time of day.*row=2 column=v")
    add(
        "zone_into_none",
        _times([0, 1], "us", "UTC"),
        "timestamp_ntz",
        "incompatible type.*column=v",
    )
    add("no_zone_into_one", _times([0, 1], "us"), "timestamp", "incompatible type.*column=v")
    add(
        "nested_fraction",
        pa.array([[1.0], [2.0, 2.5]]),
        "array<bigint>",
        r"row=2 column=v\.element",
    )


def _add_refused(corpus: Corpus) -> None:
    def refuse(name: str, content: bytes, pattern: str, **facts: Any) -> None:
        corpus.add(name, content, refused=pattern, **facts)

    plain = parquet({"id": ID, "v": [1, 2]}, write_page_checksum=True, compression="none")
    lossy = pa.array([1_001, None], pa.timestamp("ns"))
    refuse(
        "nanoseconds_lost.parquet", parquet({"id": ID, "v": lossy}), "it is finer.*row=1 column=v"
    )
    old = parquet({"id": ID, "v": lossy}, use_deprecated_int96_timestamps=True)
    refuse("int96_lost.parquet", old, "nanoseconds or a year.*row=1 column=v")
    refuse(
        "durations.parquet",
        parquet({"id": ID, "v": pa.array([1, 2], pa.duration("us"))}),
        "cannot hold.*file=durations.parquet column=v",
    )
    refuse(
        "times_of_day.parquet",
        parquet({"id": ID, "v": pa.array([1, 2], pa.time64("us"))}),
        "cannot hold.*file=times_of_day.parquet column=v",
    )
    numbered = pa.array([[(1, 2)], None], pa.map_(pa.int32(), pa.int32()))
    refuse(
        "numbered_map.parquet",
        parquet({"id": ID, "v": numbered}),
        "map keys must be text: file=numbered_map.parquet column=v",
    )
    refuse(
        "key_null.parquet",
        parquet({"id": ["a", None], "v": [1, 2]}),
        "no value: file=key_null.parquet row=2 column=id",
        key="id",
    )
    refuse("empty.parquet", b"", "the file is empty: file=empty.parquet")
    refuse("text.parquet", b"id,v\na,1\n", "is not Parquet, whatever its name")
    refuse("cut_off.parquet", plain[:-20], "cut off: its footer is missing")
    at = plain.index(b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0")
    flipped = plain[:at] + b"\x03" + plain[at + 1 :]
    refuse("flipped_bit.parquet", flipped, f"{DAMAGED}flipped_bit.parquet column=v")
    size = int.from_bytes(plain[-8:-4], "little")
    footer = len(plain) - 8 - size
    torn = plain[:footer] + bytes(40) + plain[footer + 40 :]
    refuse("torn_footer.parquet", torn, f"{DAMAGED}torn_footer.parquet")
    refuse("long_footer.parquet", plain[:-8] + b"\xff\xff\xff\x7f" + b"PAR1", DAMAGED)
    refuse("encrypted_footer.parquet", b"PARE" + plain[4:-4] + b"PARE", "the file is encrypted")
    signed = plain[:-8] + bytes(28) + (size + 28).to_bytes(4, "little") + b"PAR1"
    refuse("signed_footer.parquet", signed, "the file is encrypted")
    same = pa.DictionaryArray.from_arrays(np.zeros(140_000_000, np.int8), pa.array([7]))
    ends = pa.array([0, len(same)], pa.int32())
    large: dict[str, Any] = {"data_page_size": 1 << 30, "write_batch_size": 1 << 28}
    huge = parquet({"v": pa.ListArray.from_arrays(ends, same)}, compression="zstd", **large)
    assert len(huge) < 4_000, len(huge)
    refuse("gigabytes.parquet", huge, "far more data than it has bytes.*file=gigabytes.parquet")
    wide = parquet(
        {"v": pa.array(["x" * (1 << 30)] * 2)}, compression="brotli", use_dictionary=False
    )
    refuse("long_texts.parquet", wide, "far more data than it has bytes")
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0])), pa.py_buffer(b"\xe9")]
    )
    refuse(
        "latin1.parquet", parquet({"id": ["a"], "v": broken}), f"{DAMAGED}latin1.parquet column=v"
    )
    refuse(
        "odd_names.parquet", parquet({"id": ID, "Unit Price": [1, 2]}), "names=clean.*Unit_Price"
    )
    refuse("cut_off.arrow", arrow({"id": ID, "v": [1, 2]})[:300], "damaged, or in a form")


def _add_other_refused(corpus: Corpus) -> None:
    def refuse(name: str, content: bytes, pattern: str, **facts: Any) -> None:
        corpus.add(name, content, refused=pattern, **facts)

    refuse(
        "names_by_case.parquet",
        parquet({"id": ID, "V": [1, 2], "v": [3, 4]}),
        "differ only by case.*'V', 'v'",
    )
    whole = gzip.compress(parquet({"id": ID, "v": [1, 2]}), mtime=0)
    refuse("zipped.parquet.gz", whole, "compressed as a whole.*decompress it")
    refuse(
        "key_is_null.parquet",
        parquet({"id": pa.nulls(2), "v": [1, 2]}),
        "the key column has no value.*column=id",
        key="id",
    )
    refuse(
        "beyond_38_digits.parquet",
        parquet({"id": ID, "v": pa.array([Decimal(1), None], pa.decimal256(60, 0))}),
        "decimal is wider.*file=beyond_38_digits.parquet column=v",
    )


def _add_files(corpus: Corpus) -> None:
    rows = [{"id": "a", "v": 1}, {"id": "b", "v": 2}]
    types = {"id": "string", "v": "bigint"}
    plain: dict[str, Any] = {"id": ID, "v": [1, 2]}
    corpus.add("plain.arrow", arrow(plain), types=types, rows=rows)
    corpus.add("stream.arrows", arrow(plain, is_stream=True), types=types, rows=rows)
    corpus.add("plain.feather", arrow(plain), types=types, rows=rows)
    for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
        corpus.add(
            f"codec_{codec}.parquet", parquet(plain, compression=codec), types=types, rows=rows
        )
    groups = parquet(plain, row_group_size=1, data_page_version="2.0", write_page_checksum=True)
    corpus.add("pages_v2.parquet", groups, types=types, rows=rows)
    empty = parquet({"id": pa.array([], pa.string()), "v": pa.array([], pa.int64())})
    corpus.add("no_rows.parquet", empty, types=types, rows=[])
    nothing = parquet(
        {"id": ID, "none": pa.nulls(2), "some": pa.array([{"a": None, "b": 1}, None])}
    )
    corpus.add(
        "nulls_new.parquet",
        nothing,
        types={"id": "string", "some": "struct<b: bigint>"},
        rows=[{"id": "a", "some": {"b": 1}}, {"id": "b", "some": None}],
        note="none has no value and is left out",
    )
    odd = parquet({"id": ID, "Unit Price": [1, 2]})
    corpus.add(
        "odd_names_clean.parquet",
        odd,
        options={"names": "clean"},
        types={"id": "string", "Unit_Price": "bigint"},
        rows=[{"id": "a", "Unit_Price": 1}, {"id": "b", "Unit_Price": 2}],
        note="column 'Unit Price' is stored as Unit_Price",
    )


def write_corpus() -> list[str]:
    corpus = Corpus()
    for add in (_add_columns, _add_misfits, _add_refused, _add_other_refused, _add_files):
        add(corpus)
    return corpus.names


if __name__ == "__main__":
    write_corpus()
