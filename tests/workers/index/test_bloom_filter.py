"""Bloom filters: Hudi's own bytes, and a slow reading of their rule against the fast one."""

from __future__ import annotations

import base64
import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.index.bloom_cases import CASES, Case, numbered
from workers.errors import InvalidInput, MalformedTable
from workers.index.bloom_filter import BloomFilter, BloomFilterBuilder
from workers.options.bloom_options import BLOOM_OPTIONS, BloomOptions, FilterType, bloom_options


def column(keys: Sequence[str | None]) -> pa.Array[Any]:
    return pa.array(keys, pa.string())


def murmur(content: bytes, seed: int) -> int:
    """Murmur2 as Java computes it, a byte at a time."""
    whole = len(content) // 4 * 4
    murmur_hash = seed ^ len(content)
    for at in range(0, whole, 4):
        word = int.from_bytes(content[at : at + 4], "little") * 0x5BD1E995 % 2**32
        word = (word ^ word >> 24) * 0x5BD1E995 % 2**32
        murmur_hash = murmur_hash * 0x5BD1E995 % 2**32 ^ word
    tail = struct.unpack(f"{len(content) - whole}b", content[whole:])
    for place, signed in enumerate(reversed(tail)):
        murmur_hash ^= signed << 8 * place & 0xFFFFFFFF
    if tail:
        murmur_hash = murmur_hash * 0x5BD1E995 % 2**32
    murmur_hash = (murmur_hash ^ murmur_hash >> 13) * 0x5BD1E995 % 2**32
    return murmur_hash ^ murmur_hash >> 15


def places(key: str, options: BloomOptions) -> set[int]:
    bit_places, seed = set(), 0
    for _ in range(options.hashes):
        seed = murmur(key.encode(), seed)
        signed = seed - 2**32 if seed >> 31 else seed
        bit_places.add(abs(int(math.fmod(signed, options.bits))))
    return bit_places


def rows_by_the_book(keys: Sequence[str], options: BloomOptions) -> list[set[int]]:
    """One key at a time, as Hudi adds them."""
    rows: list[set[int]] = [set()]
    in_row, turn = 0, None
    for key in keys:
        row = len(rows) - 1
        if options.kind is FilterType.DYNAMIC_V0 and turn is not None:
            row, turn = turn % len(rows), turn + 1
        elif options.kind is FilterType.DYNAMIC_V0 and in_row >= options.entries:
            if len(rows) * options.entries < options.entries_max:
                rows.append(set())
                row, in_row = len(rows) - 1, 0
            else:
                row, turn = 0, 0
        rows[row] |= places(key, options)
        in_row += 1
    return rows


def rows_of(bloom: BloomFilter) -> list[set[int]]:
    unpacked = [np.unpackbits(row, bitorder="little") for row in bloom.rows]
    return [set(np.flatnonzero(row).tolist()) for row in unpacked]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_bytes_are_those_of_the_released_hudi(case: Case) -> None:
    built = BloomFilter.of_keys(column(case.keys), case.options)

    assert case.is_text(built.to_text())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_how_long_a_text_will_be_is_known_beforehand(case: Case) -> None:
    built = BloomFilter.of_keys(column(case.keys), case.options)

    assert case.options.text_bytes(len(case.keys)) == len(built.to_text())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_filter_that_was_read_says_what_the_one_that_was_written_says(case: Case) -> None:
    written = BloomFilter.of_keys(column(case.keys), case.options)
    probes = column([*case.keys, *(f"{key}!" for key in case.keys)])

    read = BloomFilter.from_text(written.to_text(), case.options.kind)

    assert read.to_text() == written.to_text()
    assert read.might_contain(probes).tolist() == written.might_contain(probes).tolist()
    assert read.might_contain(column(case.keys)).all()


KEYS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
OPTIONS = st.builds(
    BloomOptions,
    entries=st.integers(1, 12),
    false_positives=st.sampled_from([1e-9, 0.001, 0.3, 0.9]),
    kind=st.sampled_from(FilterType),
    entries_max=st.integers(1, 30),
)


@given(KEYS, OPTIONS, st.lists(st.integers(0, 60), max_size=4))
def test_any_keys_in_any_pieces_set_the_bits_of_the_rule_read_one_key_at_a_time(
    keys: list[str], options: BloomOptions, cuts: list[int]
) -> None:
    builder = BloomFilterBuilder(options)
    ends = sorted(min(cut, len(keys)) for cut in cuts)
    for begin, end in zip([0, *ends], [*ends, len(keys)], strict=True):
        builder.add(column(keys[begin:end]))

    assert rows_of(builder.built()) == rows_by_the_book(keys, options)
    assert builder.built().to_text() == BloomFilter.of_keys(column(keys), options).to_text()


@given(KEYS, KEYS, OPTIONS)
def test_any_filter_is_asked_as_the_rule_says_and_never_forgets_a_key(
    keys: list[str], others: list[str], options: BloomOptions
) -> None:
    built = BloomFilter.of_keys(column(keys), options)
    rows = rows_by_the_book(keys, options)

    answers = built.might_contain(column([*keys, *others])).tolist()

    assert answers == [any(places(key, options) <= row for row in rows) for key in [*keys, *others]]
    assert all(answers[: len(keys)])


@settings(max_examples=20)
@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=60), st.integers(0, 9))
def test_keys_of_very_different_lengths_agree_too(lengths: list[int], first: int) -> None:
    keys = [f"{first}é"[: length % 3] + "k" * length for length in lengths]
    options = BloomOptions(40, 0.1)

    built = BloomFilter.of_keys(column(keys), options)

    assert rows_of(built) == rows_by_the_book(keys, options)
    assert built.might_contain(column(keys)).all()


def test_more_keys_than_one_block_holds_are_all_added_and_found_in_their_places() -> None:
    keys = [f"{number:0{number % 7 + 6}}" for number in range(10_000)]
    options = BloomOptions(10_000, 0.01)
    built = BloomFilter.of_keys(column(keys), options)
    probes = [key for number, key in enumerate(keys) if number % 3] + [f"-{key}" for key in keys]

    answers = built.might_contain(column(probes)).tolist()

    row = rows_of(built)[0]
    assert set().union(*(places(key, options) for key in keys)) == row
    assert answers == [places(key, options) <= row for key in probes]
    assert 0 < sum(answers[-10_000:]) < 250


def test_every_kind_of_text_column_is_taken() -> None:
    keys = ["skipped", "a", "é", "a longer one"]
    plain = column(keys)
    options = BloomOptions(4, 0.01)
    expected = BloomFilter.of_keys(column(keys[1:]), options).to_text()
    variants: list[Any] = [
        plain.slice(1),
        plain.cast(pa.large_string()).slice(1),
        plain.cast(pa.string_view()).slice(1),
        plain.dictionary_encode().slice(1),
        pa.chunked_array([plain[1:2], plain[2:2], plain[2:]]),
    ]

    for variant in variants:
        built = BloomFilter.of_keys(variant, options)
        assert built.to_text() == expected
        assert built.might_contain(variant).tolist() == [True] * 3


def test_equal_keys_set_equal_bits_but_each_counts() -> None:
    once, twice = column(["a", "b"]), column(["a", "a", "b", "b"])
    options = BloomOptions(10, 0.01)

    filters = [BloomFilter.of_keys(keys, options) for keys in (once, twice)]

    assert rows_of(filters[0]) == rows_of(filters[1])
    assert [one.count for one in filters] == [2, 4]


@pytest.mark.parametrize("empty", [pa.array([], pa.string()), pa.chunked_array([], pa.string())])
def test_no_keys_are_a_filter_of_nothing(empty: Any) -> None:
    built = BloomFilter.of_keys(empty)

    assert not built.might_contain(column(numbered(5_000))).any()
    assert built.might_contain(empty).tolist() == []


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (column(["a", None]), "null: row=1"),
        (column(["a", "bc", ""]), "empty: row=2"),
        (pa.array([1]), "int64"),
        (pa.array(["a", None]).dictionary_encode(), "null: row=1"),
    ],
)
def test_what_is_no_key_is_neither_added_nor_asked_for(keys: Any, named: str) -> None:
    for refused in (BloomFilter.of_keys, BloomFilter.of_keys(column(["a"])).might_contain):
        with pytest.raises(InvalidInput, match=named):
            refused(keys)


SIMPLE, DYNAMIC = CASES["simple"].text, CASES["dynamic, all rows full"].text


def changed(text: str, at: int, content: bytes) -> str:
    filter_bytes = base64.b64decode(text)
    return base64.b64encode(
        filter_bytes[:at] + content + filter_bytes[at + len(content) :]
    ).decode()


def shortened(text: str, count: int) -> str:
    return base64.b64encode(base64.b64decode(text)[:-count]).decode()


@pytest.mark.parametrize(
    ("text", "type_code", "reason"),
    [
        ("", "SIMPLE", "buffer"),
        ("no base64!", "SIMPLE", "base64"),
        (SIMPLE[:-1], "SIMPLE", "padding"),
        (SIMPLE, "DYNAMIC_V0", "buffer"),
        (DYNAMIC, "SIMPLE", "55 bytes instead of 15"),
        (shortened(SIMPLE, 3), "SIMPLE", "bytes instead of"),
        (shortened(DYNAMIC, 30), "DYNAMIC_V0", "bytes instead of"),
        (shortened(DYNAMIC, 40), "DYNAMIC_V0", "buffer"),
        (changed(SIMPLE, 0, struct.pack(">i", 4)), "SIMPLE", "version is 4"),
        (changed(SIMPLE, 4, struct.pack(">i", 0)), "SIMPLE", "0 hashes"),
        (changed(SIMPLE, 4, struct.pack(">i", 1 << 30)), "SIMPLE", "hashes"),
        (changed(SIMPLE, 8, b"\0"), "SIMPLE", "hash type is 0"),
        (changed(SIMPLE, 9, struct.pack(">i", -24)), "SIMPLE", "-24 bits"),
        (changed(SIMPLE, 9, struct.pack(">i", 18)), "SIMPLE", "behind the last"),
        (changed(DYNAMIC, 13, struct.pack(">i", 0)), "DYNAMIC_V0", "rows of 0 keys"),
        (changed(DYNAMIC, 17, struct.pack(">i", -1)), "DYNAMIC_V0", "-1 in the last"),
        (changed(DYNAMIC, 21, struct.pack(">i", 0)), "DYNAMIC_V0", "0 rows"),
        (changed(DYNAMIC, 21, struct.pack(">i", 1 << 30)), "DYNAMIC_V0", "bytes instead of"),
        (changed(DYNAMIC, 29, struct.pack(">i", 3)), "DYNAMIC_V0", "rows differ"),
        (SIMPLE, "DYNAMIC_V1", "type_code=DYNAMIC_V1"),
    ],
    ids=itertools.count(),
)
def test_a_damaged_or_foreign_text_is_refused_and_says_why(
    text: str, type_code: str, reason: str
) -> None:
    with pytest.raises(MalformedTable, match=reason):
        BloomFilter.from_text(text, type_code)


@given(st.data())
def test_no_damage_to_a_text_ends_in_another_error(data: st.DataObject) -> None:
    content = bytearray(base64.b64decode(DYNAMIC))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    text = base64.b64encode(bytes(content[: data.draw(st.integers(0, len(content)))])).decode()

    try:
        read = BloomFilter.from_text(text, "dynamic_v0")
    except MalformedTable:
        return
    assert read.to_text() == text


def test_options_are_hudis_with_hudis_defaults() -> None:
    assert bloom_options({}) == bloom_options(BLOOM_OPTIONS) == BloomOptions()
    assert (BloomOptions().bits, BloomOptions().hashes) == (2_587_966, 30)
    properties = {
        "hoodie.index.bloom.num_entries": "10",
        "hoodie.index.bloom.fpp": "0.01",
        "hoodie.bloom.index.filter.type": "simple",
        "hoodie.bloom.index.filter.dynamic.max.entries": "20",
    }
    assert bloom_options(properties) == BloomOptions(10, 0.01, FilterType.SIMPLE, 20)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("hoodie.index.bloom.num_entries", "0", "num_entries"),
        ("hoodie.index.bloom.num_entries", "many", "num_entries"),
        ("hoodie.index.bloom.num_entries", "100000000", "too large"),
        ("hoodie.index.bloom.fpp", "0", "fpp"),
        ("hoodie.index.bloom.fpp", "1", "fpp"),
        ("hoodie.index.bloom.fpp", "nan", "fpp"),
        ("hoodie.index.bloom.fpp", "few", "fpp"),
        ("hoodie.bloom.index.filter.type", "RIBBON", "filter.type"),
        ("hoodie.bloom.index.filter.dynamic.max.entries", "0", "max.entries"),
        ("hoodie.bloom.index.filter.dynamic.max.entries", "99999999", "too large"),
    ],
)
def test_an_option_that_makes_no_filter_is_refused(key: str, value: str, named: str) -> None:
    with pytest.raises(InvalidInput, match=named):
        bloom_options({**BLOOM_OPTIONS, key: value})
