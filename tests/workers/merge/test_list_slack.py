"""Lists of the n greatest from which elements are taken out again, against a plain oracle."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from tests.workers.merge.test_top_n_lists import ITEMS, Item, arrow, plain, top
from workers.merge.top_n_lists import (
    Lists,
    is_incomplete,
    list_memory,
    memory_type,
    merge_lists,
    sort_own_lists,
    without_retractions,
)
from workers.options.aggregates import ColumnAggregate
from workers.options.column_groups import ColumnGroup

SEED = int(os.environ["SLUICE_TEST_SEED"])
COHORTS, KEYS, COMMITS = 8, 60, 6


def live(given: Sequence[Item]) -> list[Item]:
    """Each item once, by score and, of equal scores, by arrival."""
    scores: dict[str | None, tuple[float, int]] = {}
    for place, (score, item) in enumerate(given):
        if score is None:
            scores.pop(item, None)
        elif item not in scores or score > scores[item][0]:
            scores[item] = score, place
    listed = sorted(scores, key=lambda item: (-scores[item][0], scores[item][1]))
    return [(scores[item][0], item) for item in listed]


def together(parts: Sequence[Lists], aggregate: ColumnAggregate) -> Lists:
    """Of as many keys as each part has lists."""
    count = len(parts[0].values)
    shown = pa.concat_arrays([one.values for one in parts])
    memory = pa.concat_arrays([one.memory for one in parts if one.memory is not None])
    codes = np.tile(np.arange(count), len(parts))
    return merge_lists(Lists(shown, memory), codes, count, aggregate)


def followed(before: Lists, commit: list[Item | None], aggregate: ColumnAggregate) -> Lists:
    return together([before, sort_own_lists(arrow([commit]), aggregate)], aggregate)


def as_base(lists: Lists, aggregate: ColumnAggregate) -> Lists:
    """As a base file holds it."""
    states = pa.table({"a": lists.values, list_memory("a"): lists.memory})
    group = ColumnGroup("g", ("ts",), ("a",), aggregates={"a": aggregate})
    return Lists.of(without_retractions(states, [group]), "a", np.arange(len(lists.values)))


def folded(lists: Sequence[Lists], aggregate: ColumnAggregate, pick: random.Random) -> Lists:
    """In a random association, of which any beginning may have become a base file."""
    left = list(lists)
    while len(left) > 1:
        begin = pick.randrange(len(left) - 1)
        end = pick.choice([begin + 2, pick.randint(begin + 2, len(left))])
        left[begin:end] = [together(left[begin:end], aggregate)]
        if pick.random() < 0.3:
            left[0] = as_base(left[0], aggregate)
    return left[0]


def drawn(pick: random.Random) -> list[list[Item | None] | None]:
    """Commits of a few elements each, which mostly add or mostly take out; there are many ties."""

    def item(retractions: float) -> Item:
        score = None if pick.random() < retractions else float(pick.randrange(6))
        return score, pick.choice("abcdefghij")

    def commit() -> list[Item | None]:
        retractions = pick.choice([0.0, 0.1, 0.9])
        return [item(retractions) for _ in range(pick.randrange(10))]

    return [None if pick.random() < 0.1 else commit() for _ in range(COMMITS)]


def elements(lists: Sequence[Sequence[Item | None] | None]) -> list[Item]:
    return [item for one in lists if one is not None for item in one if item is not None]


def are_exact(lists: Lists, aggregate: ColumnAggregate) -> list[bool]:
    assert lists.memory is not None
    assert lists.memory.type == memory_type(ITEMS)
    lists.memory.validate(full=True)
    return [not one for one in is_incomplete(lists.memory, aggregate).tolist()]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(("n", "slack"), [(1, 0), (1, 1), (2, 1), (2, 2), (3, 3), (3, 0)])
def test_a_list_is_what_is_left_in_every_association_or_says_that_it_may_not_be(
    n: int, slack: int
) -> None:
    aggregate, seen = top(n, slack), {True: 0, False: 0}
    seeds = ["covering", *(f"{SEED} {cohort}" for cohort in range(1, COHORTS))]
    for seed in seeds:
        pick = random.Random(f"{seed} {n} {slack}")
        keys = [drawn(pick) for _ in range(KEYS)]
        steps = [sort_own_lists(arrow(list(step)), aggregate) for step in zip(*keys, strict=True)]

        folded_lists = folded(steps, aggregate, pick)

        exact = are_exact(folded_lists, aggregate)
        for number, shown in enumerate(plain(folded_lists.values)):
            given, at = elements(keys[number]), f"SLUICE_TEST_SEED={SEED} {seed=} {number=}"
            left = live(given)
            seen[exact[number]] += 1
            assert (shown is None) == all(one is None for one in keys[number]), at
            if exact[number]:
                assert (shown or []) == left[:n], at
            scores = {item: score for score, item in left}
            assert all((score or 0) <= (scores[item] or 0) for score, item in shown or []), at
            assert exact[number] or sum(score is None for score, _ in given) > slack, at
    assert seen[True] > 0, seen
    assert seen[False] > 0, seen  # The covering seed has lists of either kind for each parameter.


def test_one_more_than_the_slack_is_told_until_greater_ones_have_come() -> None:
    aggregate = top(2, 1)
    given: list[Item] = [(float(score), f"i{score}") for score in range(5, 0, -1)]
    own_list = sort_own_lists(arrow([[*given]]), aggregate)

    enough = followed(own_list, [(None, "i5")], aggregate)
    short = followed(enough, [(None, "i4")], aggregate)
    low = followed(short, [(0.5, "low")], aggregate)
    high = followed(low, [(9.0, "high")], aggregate)

    steps = (enough, short, low, high)
    assert [are_exact(one, aggregate) for one in steps] == [[True], [False], [False], [True]]
    assert [plain(one.values) for one in steps] == [
        [[(4.0, "i4"), (3.0, "i3")]],
        [[(3.0, "i3")]],
        [[(3.0, "i3"), (0.5, "low")]],
        [[(9.0, "high"), (3.0, "i3")]],
    ]


def test_a_score_is_lowered_by_a_retraction_and_an_addition_in_this_order() -> None:
    aggregate = top(2, 2)
    before = sort_own_lists(arrow([[(5.0, "x"), (3.0, "y")]]), aggregate)

    lowered = followed(before, [(None, "x"), (1.0, "x")], aggregate)
    taken_out = followed(before, [(1.0, "x"), (None, "x")], aggregate)

    assert plain(lowered.values) == [[(3.0, "y"), (1.0, "x")]]
    assert plain(taken_out.values) == [[(3.0, "y")]]


def test_a_base_file_remembers_no_retraction_and_of_short_lists_nothing() -> None:
    aggregate = top(2, 2)
    lists = sort_own_lists(arrow([[(5.0, "x"), (None, "y"), (3.0, "z")]]), aggregate)

    base = as_base(lists, aggregate)

    assert lists.memory is not None
    assert len(lists.memory[0].as_py()) == 3
    assert base.memory is not None
    assert base.memory.to_pylist() == [None]
    assert plain(base.values) == plain(lists.values)


def test_without_slack_a_null_score_is_the_least_one() -> None:
    """As in tables that were made before there was slack."""
    lists = sort_own_lists(arrow([[(1.0, "x"), (None, "x"), (None, "y")]]), top(3))

    assert lists.memory is None
    assert plain(lists.values) == [[(1.0, "x"), (None, "y")]]
