"""Threat T19: a giant or endlessly nested request is refused within a second. What 100,000 instants
cost a page is in `tests/controlplane/test_scale.py`; files of that kind in `test_bombs.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from controlplane.tables.models import Table

TOOK_S_MAX = 1.0


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

    began_s = time.process_time()
    answer = as_admin.generic(method, address, body, "application/json")
    took_s = time.process_time() - began_s

    assert answer.status_code in (400, 413), answer.content[:300]
    assert took_s < TOOK_S_MAX
    assert len(answer.content) < 200_000
