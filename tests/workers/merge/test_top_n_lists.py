"""Lists of the n greatest: the same whatever the cuts in which elements came."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from workers.merge.top_n_lists import Lists, merge_lists, sort_own_lists
from workers.options.aggregates import Aggregate, ColumnAggregate

ITEMS = pa.list_(pa.struct([pa.field("score", pa.float64()), pa.field("item", pa.string())]))
Item = tuple[float | None, str | None]

items = st.tuples(st.none() | st.sampled_from([-1.0, 0.5, 2.0]), st.none() | st.sampled_from("xyz"))
lists_of_items = st.lists(st.none() | st.lists(st.none() | items, max_size=5), max_size=6)


def arrow(lists: list[list[Item | None] | None]) -> pa.Array[Any]:
    structs = [
        None
        if one is None
        else [None if item is None else {"score": item[0], "item": item[1]} for item in one]
        for one in lists
    ]
    return pa.array(structs, ITEMS)


def plain(lists: pa.Array[Any]) -> list[list[Item] | None]:
    assert lists.type == ITEMS
    lists.validate(full=True)
    return [
        None if one is None else [(item["score"], item["item"]) for item in one]
        for one in lists.to_pylist()
    ]


def together(lists: pa.Array[Any], most: int) -> pa.Array[Any]:
    return merge_lists(Lists(lists), np.zeros(len(lists), np.int64), 1, top(most)).values


def top(n: int, slack: int | None = None) -> ColumnAggregate:
    return ColumnAggregate(Aggregate.COLLECT_TOP_N, n, slack)


def greatness(item: Item) -> tuple[Any, ...]:
    score, _ = item
    return (score is not None, score or 0.0)


def best(lists: list[list[Item | None] | None], most: int) -> list[Item] | None:
    """Python's sort keeps equal ones in their order."""
    came = [one for one in lists if one is not None]
    every = [item for one in came for item in one if item is not None]
    greatest_by_item: dict[str | None, Item] = {}
    for item in sorted(every, key=greatness, reverse=True):
        greatest_by_item.setdefault(item[1], item)
    return list(greatest_by_item.values())[:most] if came else None


@given(lists=lists_of_items, most=st.integers(1, 4))
def test_the_greatest_stay_each_once_and_in_order(
    lists: list[list[Item | None] | None], most: int
) -> None:
    assert plain(together(arrow(lists), most)) == [best(lists, most)]


@given(lists=lists_of_items, most=st.integers(1, 4), cut=st.integers(0, 6))
def test_any_association_and_any_repetition_give_the_same_list(
    lists: list[list[Item | None] | None], most: int, cut: int
) -> None:
    parts = [together(arrow(part), most) for part in (lists[:cut], lists[cut:])]

    merged = together(pa.concat_arrays([*parts, *parts]), most)

    assert plain(merged) == [best(lists, most)]


def test_of_equal_scores_the_earlier_stands_first() -> None:
    elements: list[Item] = [(1.0, "x"), (1.0, "y"), (1.0, None), (None, "z")]

    for order in itertools.permutations(elements):
        top_items = plain(together(arrow([[one] for one in order]), 3))
        assert top_items == [sorted(order, key=greatness, reverse=True)[:3]]


def test_an_item_that_is_rated_again_stands_once_with_its_greatest_score() -> None:
    for scores in itertools.permutations([1.0, 3.0, 2.0]):
        lists: list[list[Item | None] | None] = [[(score, "x")] for score in scores]

        assert plain(together(arrow([*lists, [(2.5, "y")]]), 3)) == [[(3.0, "x"), (2.5, "y")]]


def test_elements_of_one_field_stand_once_each() -> None:
    kind = pa.list_(pa.struct([pa.field("score", pa.int64())]))
    lists = pa.array([[{"score": 1}, {"score": 2}], [{"score": 2}, {"score": 3}]], kind)

    assert together(lists, 2).to_pylist() == [[{"score": 3}, {"score": 2}]]


@given(lists=lists_of_items, most=st.integers(1, 4))
def test_a_list_by_itself_is_cut_and_sorted(
    lists: list[list[Item | None] | None], most: int
) -> None:
    assert plain(sort_own_lists(arrow(lists), top(most)).values) == [
        best([one], most) for one in lists
    ]


def test_keys_keep_their_lists_apart() -> None:
    lists = arrow([[(1.0, "x")], None, [(2.0, "y"), (2.0, "y")], [], [(3.0, "z")]])

    merged = merge_lists(Lists(lists), np.array([0, 1, 2, 4, 0]), 5, top(2)).values

    assert plain(merged) == [[(3.0, "z"), (1.0, "x")], None, [(2.0, "y")], None, []]
