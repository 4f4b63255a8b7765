"""The bucket of a key: Hudi's own answers, and a slow reading of its rule against the fast one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.files.record_key import composite_keys
from workers.index.bucket import bucket_of_composite_keys, bucket_of_keys, java_string_hash


def buckets_of(*keys: str, buckets: int = 8, **options: Any) -> list[int]:
    bucket_numbers: list[int] = bucket_of_keys(
        pa.array(keys, pa.string()), buckets=buckets, **options
    ).tolist()
    return bucket_numbers


def by_the_book(key: str, buckets: int) -> int:
    """`(List.hashCode([key]) & 0x7fffffff) % buckets`, one character at a time."""
    hash_code = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        hash_code = (31 * hash_code + int.from_bytes(units[at : at + 2], "big")) % 2**32
    return ((31 + hash_code) % 2**32 & 0x7FFFFFFF) % buckets


@pytest.mark.parametrize(
    ("key", "bucket"), [("k1", 5), ("1", 0), ("user_001", 4), ("é漢", 0), ("id:1", 1)]
)
def test_keys_go_where_the_released_hudi_puts_them(key: str, bucket: int) -> None:
    assert buckets_of(key) == [bucket]


def test_a_composite_key_is_hashed_by_its_index_fields_as_hudi_does() -> None:
    assert buckets_of("a:1,b:2", index_fields=("a", "b")) == [2]
    assert buckets_of("a:1,b:2,c:3", index_fields=("a", "b")) == [2]
    assert buckets_of("x:1,y:2", index_fields=("a", "b")) == [by_the_book("x:1,y:2", 8)]


def list_hash(*values: str | None) -> int:
    hash_code = 1
    for value in values:
        hash_code = 31 * hash_code + (0 if value is None else java_string_hash(value))
    return hash_code & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("a:1,b:2", ("1", "2")),
        ("a:x:y,b:2", ("x:y", "2")),
        ("a:1,b:10:30:00", ("1", "10:30:00")),
        ("a:Doe, J,b:2", ("Doe, J", "2")),
        ("a:__null__,b:__empty__", (None, "")),
        ("a:,b:", ("", "")),
        ("a:é漢😀,b:2", ("é漢😀", "2")),
    ],
)
def test_values_of_a_composite_key_may_hold_its_own_separators(
    key: str, values: tuple[str | None, ...]
) -> None:
    assert buckets_of(key, buckets=1000, index_fields=("a", "b")) == [list_hash(*values) % 1000]


def test_a_string_hashes_as_in_java() -> None:
    assert [java_string_hash(text) for text in ("", "a", "hello")] == [0, 97, 99162322]
    assert java_string_hash("polygenelubricants") == -(2**31)


KEYS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"], exclude_characters=":,"),
        st.sampled_from("é漢😀\0"),
    ),
    max_size=70,
)


@settings(deadline=None)
@given(st.lists(KEYS, max_size=60), st.integers(1, 1000), st.integers(0, 5))
def test_a_column_of_any_text_agrees_with_the_rule_read_one_character_at_a_time(
    keys: list[str], buckets: int, offset: int
) -> None:
    expected = [by_the_book(key, buckets) for key in keys[offset:]]

    plain = pa.array(keys, pa.string())
    variants: list[Any] = [
        plain.slice(offset),
        plain.cast(pa.large_string()).slice(offset),
        plain.cast(pa.string_view()).slice(offset),
        plain.dictionary_encode().slice(offset),
        pa.chunked_array([plain.slice(offset)[:3], plain.slice(offset)[3:]]),
        pa.concat_arrays([pa.array(["héad"]), plain])[1:].slice(offset),
    ]
    for variant in variants:
        assert bucket_of_keys(variant, buckets=buckets).tolist() == expected


@settings(deadline=None)
@given(st.lists(st.text("ab12_", max_size=200), min_size=80, max_size=200))
def test_keys_of_many_lengths_agree_too(keys: list[str]) -> None:
    assert buckets_of(*keys, buckets=97) == [by_the_book(key, 97) for key in keys]


def test_no_key_and_no_chunk_are_no_bucket() -> None:
    assert bucket_of_keys(pa.array([], pa.string()), buckets=8).dtype == np.int32
    empty: Any = pa.chunked_array([], pa.string())
    assert bucket_of_keys(empty, buckets=8).tolist() == []
    assert buckets_of("", "") == [by_the_book("", 8)] * 2


def test_a_null_key_is_refused() -> None:
    with pytest.raises(InvalidInput, match="row=1"):
        bucket_of_keys(pa.array(["a", None]), buckets=8)


def test_keys_that_are_not_text_and_no_buckets_at_all_are_refused() -> None:
    with pytest.raises(InvalidInput, match="int64"):
        bucket_of_keys(pa.array([1]), buckets=8)
    with pytest.raises(InvalidInput, match="buckets=0"):
        buckets_of("a", buckets=0)


@pytest.mark.parametrize("key", ["2024-01-01 10:00:00, x", "http://x:80/a,b", "a,b::", "a:1,b:2:3"])
def test_a_plain_key_on_which_hudis_parser_never_ends_is_refused_and_named(key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        buckets_of("fine", "a,b", "a:b", "é", key, "fine", key_field="id")

    assert refused.value.values["key"] == key
    assert len(buckets_of("a,b", "c:d", ",", ":")) == 4


@pytest.mark.parametrize(
    ("key", "bucket"),
    [
        ("a:1,b", 997),
        ("x,y:z", 556),
        ("a:1,b:2", 285),
        ("id:1,2", 534),
        ("id:1,x:2", 80),
        ("a,id:7", 962),
        ("a:1,b,c:", 532),
        ("a:,", 90),
        (":,", 873),
        (",:", 453),
        ("id:__null__,b:1", 31),
    ],
)
def test_a_plain_key_that_hudi_parses_goes_where_the_released_hudi_puts_it(
    key: str, bucket: int
) -> None:
    assert buckets_of(key, "plain", buckets=1000, key_field="id")[0] == bucket


def test_a_plain_key_that_hudi_parses_needs_its_field() -> None:
    with pytest.raises(InvalidInput, match="a,b:c"):
        buckets_of("a,b:c")


TEXTS = st.text("ab1,:é", max_size=6)


@settings(deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=20), st.data())
def test_the_hash_of_some_key_fields_agrees_with_the_parsed_key(
    rows: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    fields = ("a", "b", "c")
    hashed = data.draw(st.permutations(fields).map(lambda names: tuple(names[:2])))
    hashed = hashed[: data.draw(st.integers(1, 2))]
    texts: list[Any] = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    keys = composite_keys(fields, texts)

    bucket_numbers = bucket_of_composite_keys(
        keys, texts, buckets=97, fields=fields, index_fields=hashed
    )

    assert bucket_numbers.tolist() == bucket_of_keys(keys, buckets=97, index_fields=hashed).tolist()


def test_rows_that_agree_in_the_hashed_fields_share_a_bucket() -> None:
    topics = pa.array(["t"] * 4)
    partitions, offsets = pa.array(["0", "0", "1", "1"]), pa.array(["5", "6", "5", "6"])
    fields = ("_kafka_topic", "_kafka_partition", "_kafka_offset")
    texts = [topics, partitions, offsets]

    bucket_numbers = bucket_of_composite_keys(
        composite_keys(fields, texts), texts, buckets=8, fields=fields, index_fields=fields[:2]
    )

    expected = [list_hash("t", "0") % 8, list_hash("t", "1") % 8]
    assert bucket_numbers.tolist() == [expected[0], expected[0], expected[1], expected[1]]


def test_no_bucket_is_computed_for_a_table_that_has_none() -> None:
    keys = pa.array(["a:1,b:2"])
    texts = [pa.array(["1"]), pa.array(["2"])]
    fields = ("a", "b")

    with pytest.raises(InvalidInput, match="bucket count"):
        bucket_of_composite_keys(keys, texts, buckets=0, fields=fields, index_fields=fields)
