"""What is exhaustive is run in part, drawn by the seed of the run; `make soak` runs the whole."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

MARK = "sampled"
"""`sampled(every=n)`: of each n cases that stand side by side one is drawn."""
WHOLE = "SLUICE_TEST_WHOLE"
"""Set by `make soak`: properties are tried with all their examples."""


def examples(whole: int) -> int:
    """With how many examples a property is tried: a third, drawn by the seed of the run."""
    return whole if os.environ.get(WHOLE) else -(-whole // 3)


def leave_to_soak(tests: Sequence[pytest.Item], seed: int) -> None:
    """Marks the sampled tests that `seed` did not draw with `soak`.

    `tests` are all that were collected, in their order, so that every process draws alike.
    """
    cases = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for test in tests:
        if (mark := test.get_closest_marker(MARK)) is not None:
            function = test.nodeid.partition("[")[0]
            cases[function, mark.kwargs["every"]].append(test)
    for (function, every), of_function in cases.items():
        chance = random.Random(f"{seed} {function}")
        for start in range(0, len(of_function), every):
            neighbours = of_function[start : start + every]
            drawn = chance.choice(neighbours)
            for test in neighbours:
                if test is not drawn:
                    test.add_marker(pytest.mark.soak)
