"""Threat T19: a giant or endlessly nested request is refused with work that grows no faster than
its length. `tests/controlplane/test_scale.py` covers long histories, `test_bombs.py` such files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.tables.models import Table
from tests.support.counted_calls import count_calls

CALLS_LEAST = 500_000
"""For any request. The first one also imports modules."""
CALLS_PER_CHARACTER = 10
BODY_MAX = 1_000_000
"""Longer bodies are refused unread."""


def columns(*types: Any) -> str:
    listed = [{"name": f"c{at}", "type": kind} for at, kind in enumerate(types)]
    body = {"location": "/x/new", "slug": "new", "record_key": ["c0"], "columns": listed}
    return json.dumps(body)


def nested(depth: int) -> str:
    return "array<" * depth + "int" + ">" * depth


BODIES: dict[str, Callable[[], str]] = {
    "1 MB of columns": lambda: columns(*["string"] * 30_000),
    "2,001 columns": lambda: columns(*["string"] * 2_001),
    "1,000 deep type": lambda: columns("string", nested(1_000)),
    "100,000 deep type": lambda: columns("string", nested(100_000)),
    "1,000 deep struct": lambda: columns("string", "struct<a:" * 1_000 + "int" + ">" * 1_000),
    "1,000 deep json": lambda: columns("string", json.loads("[" * 900 + "]" * 900)),
    "100,000 deep json": lambda: '{"columns": ' + "[" * 100_000,
    "a long name": lambda: json.dumps({"columns": [{"name": "c" * 900_000, "type": "string"}]}),
    "a long type": lambda: columns("s" * 900_000),
    "a long number": lambda: '{"columns": ' + "9" * 900_000 + "}",
    "900,000 keys": lambda: json.dumps({"record_key": ["c"] * 150_000, "columns": []}),
    "10 MB": lambda: json.dumps({"slug": "x" * 10_000_000}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize(
    ("method", "address"),
    [
        ("POST", "/api/v1/new-tables/"),
        ("POST", "/api/v1/tables/trips/operations/"),
        ("PATCH", "/api/v1/tables/trips/"),
    ],
)
def test_what_is_larger_than_any_table_is_refused_at_once(
    kind: str, method: str, address: str, trips: Table, as_admin: Client
) -> None:
    body = BODIES[kind]()

    answer, _ = count_calls(
        lambda: as_admin.generic(method, address, body, "application/json"),
        calls_max=CALLS_LEAST + CALLS_PER_CHARACTER * min(len(body), BODY_MAX),
    )

    assert answer.status_code in (400, 413), answer.content[:300]
    assert len(answer.content) < 200_000
