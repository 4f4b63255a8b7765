"""Bloom filters of Apache Hudi's own classes and ours: the same bytes, the same answers."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer
from tests.workers.index.bloom_cases import CASES, Case
from workers.bloom_options import BloomOptions, FilterType
from workers.index.bloom_filter import BloomFilter

pytestmark = pytest.mark.interop

SEED = 20_260_101
LETTERS = "ab:,09_é漢\uffee😀\U0010ffff\0"
CASE_COUNT = 400


def hudis(peer: HudiPeer, options: BloomOptions, keys: list[str]) -> str:
    return peer.bloom_filter(
        keys, options.kind, options.entries, options.false_positives, options.entries_max
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_hudi_makes_the_filters_that_are_kept_here(peer: HudiPeer, case: Case) -> None:
    assert case.is_text(hudis(peer, case.options, list(case.keys)))


def test_filters_of_any_size_and_any_keys_have_equal_bytes_and_give_equal_answers(
    peer: HudiPeer,
) -> None:
    chance = random.Random(SEED)
    for number in range(CASE_COUNT):
        options, keys = drawn(chance)
        text = hudis(peer, options, keys)

        ours = BloomFilter.of_keys(pa.array(keys, pa.string()), options)

        assert ours.to_text() == text, (SEED, number, options, keys)
        asked = [*keys[:5], *(f"{key}!" for key in keys[:5])]
        found = BloomFilter.from_text(text, options.kind).might_contain(
            pa.array(asked, pa.string())
        )
        assert found.tolist() == peer.might_contain(text, options.kind, asked)
        assert found[: len(keys[:5])].all()


def drawn(chance: random.Random) -> tuple[BloomOptions, list[str]]:
    entries = chance.choice([1, 2, 3, 7, 30, 1_000])
    options = BloomOptions(
        entries,
        chance.choice([1e-300, 1e-9, 1e-4, 0.01, 0.3333, 0.5, 0.9, 0.999999]),
        chance.choice(list(FilterType)),
        chance.choice([1, 2, entries, entries + 1, 2 * entries, 3 * entries - 1, 5 * entries]),
    )
    longest = chance.choice([1, 3, 9, 40, 300])
    keys = [
        "".join(chance.choices(LETTERS, k=chance.randint(1, longest)))
        for _ in range(chance.choice([0, 1, entries, entries + 1, 60]) % 100)
    ]
    return options, keys
