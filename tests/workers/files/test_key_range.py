"""Key ranges in footers: right in the order of bytes and in that of UTF-16, whoever wrote them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.files.key_range import KeyBounds, KeyRange

PRIVATE, PAIR = "\uffee", "\U0001f600"
"""By bytes the first is less, by UTF-16 units the second."""


def column(*keys: str) -> pa.Array[Any]:
    return pa.array(keys, pa.string())


def bounds(*pieces: Any) -> KeyRange | None:
    key_bounds = KeyBounds()
    for piece in pieces:
        key_bounds.add(piece)
    return key_bounds.range


def test_the_range_of_a_file_is_that_of_all_its_pieces() -> None:
    assert bounds(column("b", "d"), column(), column("a", "c")) == KeyRange("a", "d")
    assert bounds(pa.chunked_array([column("é"), column("e")])) == KeyRange("e", "é")
    assert bounds(column(), column()) is None


def test_a_range_is_not_told_where_readers_would_disagree_about_it() -> None:
    assert bounds(column(PAIR, "a")) == KeyRange("a", PAIR)
    assert bounds(column(PRIVATE, "a")) == KeyRange("a", PRIVATE)
    assert bounds(column(PAIR, PRIVATE)) is None
    assert bounds(column(PAIR), column(PRIVATE)) is None
    assert bounds(column(PAIR, PRIVATE), column("a")) is None
    assert bounds(column("a", f"b{PAIR}", f"b{PRIVATE}", "c")) == KeyRange("a", "c")


def test_a_null_key_is_refused() -> None:
    with pytest.raises(InvalidInput, match="null"):
        bounds(pa.array(["a", None]))


def test_no_keys_are_outside_of_nothing() -> None:
    assert KeyRange("a", "b").can_contain(column()).tolist() == []
    assert KeyRange("b", "d").can_contain(column("a", "b", "c", "d", "e")).tolist() == [
        False,
        True,
        True,
        True,
        False,
    ]


TEXT = st.text(st.sampled_from(["a", "\ud7ff", "\ue000", PRIVATE, PAIR, "\U0010ffff"]), max_size=3)


def by_bytes(text: str) -> bytes:
    return text.encode()


def by_units(text: str) -> bytes:
    return text.encode("utf-16-be")


@given(st.lists(TEXT, min_size=1), st.lists(TEXT), st.sampled_from([by_bytes, by_units]))
def test_no_key_is_ever_outside_the_range_of_a_file_that_holds_it(
    keys: list[str], others: list[str], order: Any
) -> None:
    foreign = KeyRange(min(keys, key=order), max(keys, key=order))
    ours = bounds(column(*keys))

    assert foreign.can_contain(column(*keys)).all()
    assert ours is None or ours.can_contain(column(*keys)).all()
    shared = KeyRange(min([*keys, *others], key=by_bytes), max([*keys, *others], key=by_bytes))
    assert foreign.overlaps(foreign)
    assert ours is None or (ours.overlaps(foreign) and foreign.overlaps(ours))
    for key in keys:
        assert foreign.overlaps(KeyRange(key, key))
    assert shared.overlaps(shared)


@given(st.lists(TEXT, min_size=1), st.lists(TEXT))
def test_a_range_that_is_told_holds_in_both_orders_and_leaves_out_what_both_leave_out(
    keys: list[str], others: list[str]
) -> None:
    key_range = bounds(column(*keys))
    both = [(min(keys, key=order), max(keys, key=order)) for order in (by_bytes, by_units)]

    assert (key_range is None) == (both[0] != both[1])
    if key_range is not None:
        assert (key_range.least, key_range.greatest) == both[0]
        outside = [
            all(
                not order(key_range.least) <= order(key) <= order(key_range.greatest)
                for order in (by_bytes, by_units)
            )
            for key in others
        ]
        assert key_range.can_contain(column(*others)).tolist() == [not one for one in outside]
