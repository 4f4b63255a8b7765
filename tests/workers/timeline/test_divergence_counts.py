"""What commits tell of keys that are read otherwise, and when that ends."""

from __future__ import annotations

import pytest

from workers.timeline.extra_metadata import (
    READ_OTHERWISE_KEY,
    CommittedCounts,
    KeyCounts,
    decode_counts,
    encode_counts,
    remaining_counts,
)

GROUP, OTHER = ("day=1", "a"), ("day=1", "b")


def test_what_is_encoded_is_told_again() -> None:
    counts: KeyCounts = {GROUP: 3, OTHER: 0}

    assert decode_counts(encode_counts(counts)) == counts
    assert encode_counts({}) == {}


@pytest.mark.parametrize(
    "text", ["", "{", "3", '{"a": 1}', '[["p", "f"]]', '[["p", "f", -1]]', '[["p", "f", true]]']
)
def test_nonsense_tells_nothing(text: str) -> None:
    assert decode_counts({READ_OTHERWISE_KEY: text}) == {}


def test_the_last_commit_of_a_file_group_counts() -> None:
    committed_counts = [
        CommittedCounts("3", {GROUP: 0}),
        CommittedCounts("1", {GROUP: 2}),
        CommittedCounts("2", {OTHER: 5}),
    ]

    assert remaining_counts(committed_counts, {GROUP: None, OTHER: None}) == {OTHER: 5}


@pytest.mark.parametrize(
    ("base_instants", "is_standing"),
    [({GROUP: None}, True), ({GROUP: "1"}, True), ({GROUP: "3"}, False), ({}, False)],
    ids=["logs alone", "compacted before", "compacted since", "replaced"],
)
def test_it_stands_until_the_logs_are_in_a_base_file(
    base_instants: dict[tuple[str, str], str | None], is_standing: bool
) -> None:
    committed_counts = [CommittedCounts("2", {GROUP: 4})]

    assert bool(remaining_counts(committed_counts, base_instants)) == is_standing
