"""What is answered of a dataclass is what its serializer, which the OpenAPI document is made of,
would have answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Literal
from uuid import UUID

import pytest
from rest_framework.utils.encoders import JSONEncoder

from controlplane.api.outputs import output, shown

KEY = UUID(int=7)


@dataclass(frozen=True)
class Inner:
    at: datetime | None
    name: str = "n"


@dataclass(frozen=True)
class Outer:
    """With every kind of field."""

    key: UUID = KEY
    text: str = "ü\n"
    count: int = 3
    share: float = 3
    part: float | None = None
    is_on: bool = True
    kind: Literal["a", "b"] = "a"
    at: datetime = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    inner: Inner | None = None
    inners: list[Inner] = field(default_factory=list)
    pairs: list[tuple[str, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    more: Mapping[str, Any] = field(default_factory=dict)


EAST = timezone(timedelta(hours=2))
ROWS = [
    Outer(),
    Outer(inner=Inner(None), part=0.5, is_on=False, kind="b"),
    Outer(inner=Inner(datetime(2026, 1, 1, tzinfo=EAST)), inners=[Inner(None, "x"), Inner(None)]),
    Outer(pairs=[("a", "b")], words=["w"], more={"x": [1, None], "y": {"z": "text"}}),
]


@pytest.mark.parametrize("row", ROWS)
def test_an_answer_is_what_its_serializer_says(row: Outer) -> None:
    expected = json.dumps(output(Outer)(row).data, cls=JSONEncoder)

    assert json.dumps(shown(row), cls=JSONEncoder) == expected
