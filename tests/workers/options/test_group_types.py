"""Values that a group's columns hold by default."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from workers.options.group_types import default_scalar


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (7, pa.int32(), "7"),
        ("x", pa.string(), "x"),
        (1.25, pa.decimal128(5, 2), "1.25"),
        ("1.25", pa.decimal128(5, 2), "1.25"),
        ("2026-01-01", pa.date32(), "2026-01-01"),
        (None, pa.int64(), "None"),
    ],
)
def test_a_default_is_a_value_of_its_column(value: Any, kind: pa.DataType, text: str) -> None:
    scalar = default_scalar(value, pa.field("c", kind))

    assert (scalar.type, str(scalar.as_py())) == (kind, text)
