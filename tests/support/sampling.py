"""What is exhaustive is run in part, drawn by the seed of the run; `make soak` runs the whole."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

MARK = "sampled"
"""`sampled(every=n)`: of each n neighboring cases the seed draws one."""
GATE_FACTOR = 2
"""Of so many cases that `make explore` draws, `make test` draws one, and at least one of each test.
"""
LONGER_MARKS = ("slow", "interop", "browser")
WHOLE = "SLUICE_TEST_WHOLE"
"""Set by `make soak`: properties are tried with all their examples."""
SEED = "SLUICE_TEST_SEED"
EXPLORE = "SLUICE_TEST_EXPLORE"
"""Set by `make explore` and `make soak`: what has fixed cases in the gate draws others by the seed.
"""
CORE = "SLUICE_TEST_CORE"
"""Set by `make core`: its tests are named, so none of them is left out."""
_TESTS = Path(__file__).resolve().parents[1]
_DRAWING = ("sampled", "hypothesis", SEED, "story_seed")
"""Words of files whose tests draw by the seed of the run."""
_ALWAYS_DRAWING = ("sink_simulator", "state_machine")


def story_seed(number: int) -> int:
    """Return `number`, or one of the same rank that the seed of an exploring run gives."""
    return number if EXPLORE not in os.environ else int(os.environ[SEED]) * 1_000 + number


def draws_by_seed() -> list[Path]:
    """Return the test files whose cases depend on the seed of the run, sorted."""
    files = sorted(_TESTS.rglob("test_*.py"))
    return [
        file
        for file in files
        if file.parent.name in _ALWAYS_DRAWING
        or any(word in file.read_text(encoding="utf-8") for word in _DRAWING)
    ]


def examples(whole: int) -> int:
    """Return how many examples of a property to try: a fifth of `whole`, all in `make soak`."""
    return whole if os.environ.get(WHOLE) else -(-whole // 5)


def is_drawn(case: str, every: int) -> bool:
    """Check whether the seed draws this case, one of each `every`; `make soak` draws all."""
    if os.environ.get(WHOLE):
        return True
    return random.Random(f"{os.environ[SEED]} {case}").randrange(every) == 0


def leave_to_soak(tests: Sequence[pytest.Item], seed: int) -> None:
    """Marks the sampled tests that `seed` did not draw with `soak`.

    `tests` are all that were collected, in their order, so that every process draws alike.
    """
    if CORE in os.environ:
        return
    cases = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for test in tests:
        if (mark := test.get_closest_marker(MARK)) is not None:
            function = test.nodeid.partition("[")[0]
            is_gate = EXPLORE not in os.environ and not _is_longer(test)
            cases[function, mark.kwargs["every"] * (GATE_FACTOR if is_gate else 1)].append(test)
    for (function, every), of_function in cases.items():
        chance = random.Random(f"{seed} {function}")
        for start in range(0, len(of_function), every):
            neighbours = of_function[start : start + every]
            drawn = chance.choice(neighbours)
            for test in neighbours:
                if test is not drawn:
                    test.add_marker(pytest.mark.soak)


def _is_longer(test: pytest.Item) -> bool:
    return any(test.get_closest_marker(mark) is not None for mark in LONGER_MARKS)
