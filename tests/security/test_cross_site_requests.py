"""Threat T11: no other site makes a browser change something here. All addresses come from the URL
resolver, pages and API alike, so a new one that is exempt from the checks fails here.
"""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.tables.row_access import READ_ROWS
from tests.controlplane.api.test_permissions import CASES, REPORTS
from tests.security.test_tables_of_others import addresses as all_addresses
from tests.security.test_tables_of_others import hidden, known  # noqa: F401 - fixtures
from tests.web.test_page_roles import table_of

pytestmark = pytest.mark.slow

CHANGING = ("POST", "PUT", "PATCH", "DELETE")
WORKERS_ONLY = {f"api:{name}" for name in REPORTS}
"""They take no session at all."""
FOREIGN = ("https://evil.example.com", "null", "http://testserver.evil")
OF_SESSIONS = "django_session"
"""What a GET may write: nothing of ours."""


@pytest.fixture
def strict(admin: User) -> Client:
    """As a browser: an admin's session, and Django's own checks."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)
    client.get("/tokens")  # Its form brings the cookie.
    client.raise_request_exception = False
    return client


def only_changing() -> set[str]:
    """Names of addresses that no GET is for, by the two matrices of roles."""
    lines = [(line.name, line.method) for line in table_of("admin")]
    lines += [(f"api:{name}", method) for name, method, *_ in CASES]
    return {name for name, method in lines if method != "GET"} - {
        name for name, method in lines if method == "GET"
    }


def answers(client: Client, known: dict[str, str], **headers: str) -> dict[str, int]:  # noqa: F811
    """The status of every changing method at every address."""
    statuses = {}
    for address in all_addresses():
        is_api = address.name.startswith("api:")
        kind = "application/json" if is_api else "application/x-www-form-urlencoded"
        for method in CHANGING:
            answer = client.generic(
                method, address.made_of(known), b"{}" if is_api else b"", kind, headers=headers
            )
            statuses[f"{method} {address.name}"] = answer.status_code
    return statuses


def passed(statuses: dict[str, int]) -> dict[str, int]:
    """Those that were let in: neither refused, nor sent by a method that nobody takes there."""
    return {
        line: status
        for line, status in statuses.items()
        if status not in (405, 401 if line.split()[1] in WORKERS_ONLY else 403)
    }


def test_without_the_token_or_from_elsewhere_nothing_is_let_in(
    strict: Client,
    known: dict[str, str],  # noqa: F811
) -> None:
    token = strict.cookies["csrftoken"].value

    bare = answers(strict, known)
    foreign = answers(strict, known, **{"X-CSRFToken": token, "Origin": FOREIGN[0]})

    assert len(bare) > 400
    assert (passed(bare), passed(foreign)) == ({}, {})


@pytest.mark.slow
def test_from_nowhere_and_with_another_sessions_token_nothing_is_let_in(
    strict: Client,
    known: dict[str, str],  # noqa: F811
) -> None:
    other = Client()
    other.get("/login/")
    foreign_token = {"X-CSRFToken": other.cookies["csrftoken"].value}
    token = strict.cookies["csrftoken"].value

    assert passed(answers(strict, known, **foreign_token)) == {}
    for origin in FOREIGN[1:]:
        given = {"X-CSRFToken": token, "Origin": origin}
        assert passed(answers(strict, known, **given)) == {}


def test_from_our_own_pages_it_is_let_in(strict: Client) -> None:
    """Otherwise the tests above would pass where nobody can do anything."""
    own = {"X-CSRFToken": strict.cookies["csrftoken"].value, "Origin": "http://testserver"}

    by_page = strict.post("/people/groups", {"name": "night"}, headers=own)
    by_api = strict.post("/api/v1/groups/", {"name": "day"}, "application/json", headers=own)

    assert (by_page.status_code, by_api.status_code) == (302, 201)


def test_a_get_changes_nothing(
    strict: Client,
    known: dict[str, str],  # noqa: F811
) -> None:
    """Whatever an address does by a GET, a picture on another site can make a browser do."""
    only = only_changing() - WORKERS_ONLY
    let_in, written = {}, {}
    for address in all_addresses():
        with CaptureQueriesContext(connection) as queries:
            status = strict.get(address.made_of(known)).status_code
        if address.name in only and status != 405:
            let_in[address.name] = status
        # A cursor of the server, by which rows are only read, shows no statement.
        statements = [query["sql"] for query in queries if query["sql"] and is_ours(query["sql"])]
        if writes := [text[:80] for text in statements if not says_who_looked(text)]:
            written[address.name] = writes

    assert len(only) > 30
    assert (let_in, written) == ({}, {})


def says_who_looked(statement: str) -> bool:
    """Whoever reads rows is in the audit, also where another site made his browser do it."""
    return statement.startswith('INSERT INTO "audit_auditevent"') and f"'{READ_ROWS}'" in statement


def is_ours(statement: str) -> bool:
    """Whether it writes, and more than the session."""
    writes = statement.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE"))
    return writes and OF_SESSIONS not in statement
