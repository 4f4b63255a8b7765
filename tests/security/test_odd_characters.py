"""Control characters in an address, its query, a form or a body: refused at the edge as what they
are, by every page and every address of the API, and no other character ends in a fault of ours.
The same file runs on SQLite in `tests/controlplane/test_databases.py`: PostgreSQL keeps no NUL.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import URLResolver, get_resolver

from controlplane.tables.models import Table

SEED = os.environ["SLUICE_TEST_SEED"]
ROOT = Path(__file__).resolve().parents[2]
TRIED = 8
"""Addresses of each kind in one run; another seed tries others."""
CONTROL = ("\x00", "a\x00b", "\x1b[31m", "\x07", "\x7f", "\x9b", "\x01")
ODD = (
    "a b",
    "%",
    "'",
    '"',
    "\\",
    "<b>",
    "\u00e9",
    "\U0001f600",
    "..",
    "a/b",
    "\t\n",
    "-",
    "9" * 40,
)
_READ_BY_PAGES = re.compile(r"""GET(?:\.get|\.getlist)?[(\[]\s*["'](\w+)["']""")
_ANSWERED = {200, 302, 307, 400, 401, 403, 404, 405, 409, 422, 503}
"""503: live streams have no bus here."""


def _addresses(odd: str) -> list[str]:
    """Each route, with the table's slug, and with `odd` in the place of whatever else it takes."""
    quoted = quote(odd, safe="")
    addresses = []

    def walk(resolver: URLResolver, before: str) -> None:
        for pattern in resolver.url_patterns:
            text = before + re.sub(
                r"\(\?P<\w+>[^)]*\)|<(?:\w+:)?slug>", "trips", str(pattern.pattern)
            )
            if isinstance(pattern, URLResolver):
                walk(pattern, text)
            else:
                addresses.append("/" + re.sub(r"<[^>]+>", quoted, text).lstrip("^/").rstrip("$"))

    walk(get_resolver(), "")
    return addresses


def _names() -> list[str]:
    """Parameters that some view reads, from the source, so that a new one is tried as well."""
    texts = [
        path.read_text(encoding="utf-8")
        for folder in ("web", "controlplane")
        for path in (ROOT / folder).rglob("*.py")
    ]
    of_pages = {name for text in texts for name in _READ_BY_PAGES.findall(text)}
    of_api = {
        name
        for text in texts
        for name in re.findall(r"^        (\w+) = serializers\.\w+\($", text, re.MULTILINE)
    }
    return sorted(of_pages | of_api)


@pytest.fixture
def strict(as_admin: Client) -> Client:
    """A fault of ours is an answer, as it is for a browser."""
    as_admin.raise_request_exception = False
    return as_admin


def test_names_of_parameters_are_found() -> None:
    assert {"q", "namespace", "partition", "table", "cursor", "sort"} <= set(_names())


def test_no_query_with_a_control_character_comes_to_a_view(strict: Client, trips: Table) -> None:
    chance = random.Random(f"{SEED} query")
    wrong = []
    for address in chance.sample(_addresses("x"), TRIED):
        name, text = chance.choice(_names()), chance.choice(CONTROL)
        answer = strict.get(address, {name: text})
        if answer.status_code != 400:
            wrong.append((address, name, text, answer.status_code))

    assert wrong == []


def test_no_path_with_a_control_character_comes_to_a_view(strict: Client, trips: Table) -> None:
    chance = random.Random(f"{SEED} path")
    quoted = chance.choice(CONTROL)
    odd = [address for address in _addresses(quoted) if "%" in address]

    wrong = [
        (address, answer.status_code)
        for address in chance.sample(odd, TRIED)
        if (answer := strict.get(address)).status_code != 400
    ]

    assert wrong == []


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("odd", ODD)
def test_odd_characters_are_no_fault_of_ours(odd: str, strict: Client, trips: Table) -> None:
    chance = random.Random(f"{SEED} {odd}")
    addresses = [*_addresses("x"), *_addresses(odd)]
    able = [each for each in addresses if not {"events", "live", "reports"} & set(each.split("/"))]
    wrong = []
    for address in chance.sample(able, 6):  # Streams do not end, and reports are of workers.
        parameters = dict.fromkeys(chance.sample(_names(), 3), odd)
        answer = strict.get(address, parameters)
        if answer.status_code not in _ANSWERED:
            wrong.append((address, parameters, answer.status_code))

    assert wrong == []


@pytest.mark.parametrize(
    "address",
    [
        "/?q=%00", "/tables/rows?q=%00", "/go?q=%00", "/people?q=%00", "/t/trips/files?q=%00",
        "/t/trips/conflicts?q=%00", "/api/v1/users/%00/", "/tables?namespace=%00",
        "/api/v1/tables/trips/file-groups/?partition=%00", "/%00", "/?%00=1", "/?q=%C2%85",
    ],
)  # fmt: skip
def test_known_faults(address: str, strict: Client, trips: Table) -> None:
    answer = strict.get(address)

    assert answer.status_code == 400
    if address.startswith("/api/"):
        assert answer.json()["code"] == "invalid_request"
        assert "control character" in answer.json()["detail"]
    else:
        assert "Bad request" in answer.content.decode()


@pytest.mark.parametrize("table", ["a%20b", "a/b", "%25", "..", "A", "none", ""])
def test_go_knows_no_table_of_an_odd_name(table: str, strict: Client, trips: Table) -> None:
    instant = trips.instants.values_list("requested_at", flat=True)[0]

    answer = strict.get(f"/go?q={instant}&table={table}")

    assert answer.status_code == (302 if table in ("none", "") else 404)


def test_form_and_body_with_a_nul_are_refused(strict: Client, trips: Table) -> None:
    form = strict.post("/t/trips/write?kind=csv", {"path": "/a\x00b", "deed": "preview"})
    several_lines = strict.post("/t/trips/write?kind=csv", {"more": "a=b\r\nc=d\t"})
    bodies = [
        strict.post(
            "/api/v1/tables/trips/operations/",
            f'{{"source": {{"kind": "csv", "path": "/data/x"}}, "options": {{"{text}": "x"}}}}',
            "application/json",
        )
        for text in (r"a\u0000", r"a\ud800")
    ]

    assert form.status_code == 400
    assert several_lines.status_code == 422
    for answer in bodies:
        assert answer.status_code == 400
        assert "NUL or a surrogate" in answer.json()["detail"]
