"""The text that a number becomes where another engine made its column one of text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from workers.schema.promotion import promote


@pytest.mark.parametrize(
    ("value", "single", "double"),
    [
        (0.0, "0.0", "0.0"),
        (-0.0, "-0.0", "-0.0"),
        (1.0, "1.0", "1.0"),
        (100.0, "100.0", "100.0"),
        (0.001, "0.001", "0.001"),
        (0.0001, "1.0E-4", "1.0E-4"),
        (9_999_999.0, "9999999.0", "9999999.0"),
        (10_000_000.0, "1.0E7", "1.0E7"),
        (-1234.5, "-1234.5", "-1234.5"),
        (0.1, "0.1", "0.1"),
        (1 / 3, "0.33333334", "0.3333333333333333"),
        (1.5e300, "Infinity", "1.5E300"),
        (float("nan"), "NaN", "NaN"),
        (float("-inf"), "-Infinity", "-Infinity"),
    ],
)
def test_text_of_a_number_is_javas(value: float, single: str, double: str) -> None:
    for kind, wanted in ((pa.float32(), single), (pa.float64(), double)):
        column: Any = pa.chunked_array([pa.array([value], pa.float64()).cast(kind, safe=False)])
        assert promote(column, pa.string(), name="v").to_pylist() == [wanted]
