"""Sums against Python's own numbers, which have no end."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from workers.merge.sums import group_sums

LONG_MAX = (1 << 63) - 1
TYPES = {"long": pa.int64(), "decimal": pa.decimal128(38, 2), "double": pa.float64()}


def expected(values: list[Any], codes: list[int], count: int) -> list[Any]:
    with localcontext() as context:
        context.prec = 60
        values_by_code = [
            [one for one, at in zip(values, codes, strict=True) if at == n] for n in range(count)
        ]
        return [
            sum(some) if (some := [one for one in of if one is not None]) else None
            for of in values_by_code
        ]


def fits(value: Any, kind: str) -> bool:
    if kind == "long":
        return value is None or -LONG_MAX - 1 <= value <= LONG_MAX
    return value is None or kind == "double" or -(10**36) < value < 10**36


def drawn(pick: random.Random, kind: str) -> Any:
    if pick.random() < 0.1:
        return None
    if kind == "double":
        return float(pick.randint(-99, 99))
    most = LONG_MAX if kind == "long" else 10**38 - 1
    number = pick.choice((0, 1, most, most // 2, most // 2 + 1, pick.randint(0, most)))
    number *= pick.choice((1, -1))
    return number if kind == "long" else Decimal(number).scaleb(-2)


@pytest.mark.parametrize("kind", TYPES)
def test_a_sum_is_right_or_said_to_be_beyond_its_type(kind: str) -> None:
    for seed in range(150):
        pick, count = random.Random(seed), 5
        with localcontext() as context:
            context.prec = 60
            values = [drawn(pick, kind) for _ in range(seed % 20)]
        codes = [pick.randrange(count - 1) for _ in values]

        sums, beyond = group_sums(
            pa.array(values, TYPES[kind]), np.array(codes, dtype=np.int64), count
        )

        wanted = expected(values, codes, count)
        assert sums.type == TYPES[kind]
        assert beyond.tolist() == [at for at, one in enumerate(wanted) if not fits(one, kind)]
        for at, total in enumerate(wanted):
            assert at in beyond or sums[at].as_py() == total, (seed, at)
