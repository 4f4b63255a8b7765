"""Threat T12: a token opens no more than its scope and its places let through, nor more than its
owner may at that moment. The routes come from the URLconf, by way of the matrix of all roles.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from controlplane.accounts.access_levels import SCOPES, TokenLimits
from controlplane.accounts.models import Grant, Token
from controlplane.accounts.roles import limit_to_token, load_effective_roles
from controlplane.accounts.tokens import create_token
from controlplane.audit.models import AuditEvent
from controlplane.tables.access import visible_tables
from controlplane.tables.models import Table
from tests.controlplane.api.test_permissions import CASES, REPORTS, ROLES

PATH = "/api/v1/tokens/"
CHANGES = [case for case in CASES if case[1] != "GET" and case[0] not in REPORTS]
CHANGE_NOTHING = {"service_plan", "sql", "sql_cancel"}
"""Reads that are a POST because a question may be long, and the end of one's own."""
OF_ADMINS = {"channels", "channel", "channel_messages", "connections", "connection"}
"""What a token that only reads does not show."""
OF_ROWS = {"sink_letter", "instant_changes", "rows", "rows_export", "rows_plan"}
"""An admin reads rows as an admin; to a lesser token he needs the right to read rows."""
BODIES_NAME_PLACES = {
    *("POST bulk_cancel", "POST bulk_service", "POST bulk_silence", "POST bulk_tags"),
    *("POST grants", "POST row_grants", "POST sql", "PUT approval_rule", "PUT threshold"),
    *("POST saved_queries", "PUT saved_query", "POST sql_cancel", "POST uploads"),
}
"""The body names the tables, or the request concerns the sender's own files and statements."""


def headers(
    user: User, scope: str = "administer", **places: list[str] | list[int]
) -> dict[str, str]:
    namespaces = [str(name) for name in places.get("namespaces", [])]
    keys = [int(key) for key in places.get("table_keys", [])]
    _, token = create_token(user, scope=scope, namespaces=namespaces, table_keys=keys)
    return {"Authorization": f"Token {token}"}


def status(address: str, method: str, by: Mapping[str, str]) -> int:
    answer = Client().generic(method, address, b"{}", "application/json", headers=by)
    return answer.status_code


def test_token_that_reads_changes_nothing_on_any_route(
    addresses: dict[str, str],
    admin: User,
) -> None:
    by = headers(admin, "read")
    before = AuditEvent.objects.count()

    passed = {
        name
        for name, method, *_ in CHANGES
        if status(addresses[name], method, by) != 403 and name not in CHANGE_NOTHING
    }

    assert passed == set()
    assert AuditEvent.objects.count() == before


def test_token_that_reads_gets_all_that_its_owner_reads(
    addresses: dict[str, str],
    admin: User,
) -> None:
    by = headers(admin, "read")
    reading = [case for case in CASES if case[1] == "GET"]

    differing = {
        name: got
        for name, method, *expected in reading
        if (got := status(addresses[name], method, by)) != int(expected[ROLES.index("admin")])
    }

    assert differing == dict.fromkeys(OF_ADMINS | OF_ROWS, 403)


def test_admins_token_that_operates_is_answered_as_an_operator(
    addresses: dict[str, str],
    admin: User,
) -> None:
    by = headers(admin, "operate")
    column = ROLES.index("operator")
    refused = [case for case in CHANGES if case[2 + column] == "403"]

    passed = {name for name, method, *_ in refused if status(addresses[name], method, by) != 403}

    assert len(refused) > 5
    assert passed == set()


def test_token_of_another_namespace_opens_no_table_and_changes_nothing(
    addresses: dict[str, str],
    admin: User,
) -> None:
    by = headers(admin, namespaces=["elsewhere"])

    statuses = {
        f"{method} {name}": status(addresses[name], method, by)
        for name, method, *_ in CASES
        if name not in REPORTS and (method != "GET" or "/trips/" in addresses[name])
    }

    open_ones = {name for name, got in statuses.items() if got not in (403, 404)}
    assert open_ones == BODIES_NAME_PLACES
    listed = Client().get("/api/v1/operations/", headers=by).json()
    assert listed["results"] == []
    assert Client().get("/api/v1/tables/", headers=by).json()["results"] == []


@pytest.fixture
def lakes(db: None) -> dict[str, Table]:
    """Three tables in two namespaces."""
    slugs = {"trips": "sales", "rides": "sales", "wages": "hr"}
    return {
        slug: Table.objects.create(slug=slug, name=slug, namespace=place, location=f"/lake/{slug}")
        for slug, place in slugs.items()
    }


# What the owner has everywhere, in sales, on wages; the token's scope and places;
# then what is left: everywhere, on trips, on rides, on wages.
LEFT = """
admin    -        -        read       -                   viewer,auditor viewer   viewer   viewer
admin    -        -        operate    -              operator,auditor operator operator operator
admin    -        -        administer -                   admin    admin    admin    admin
auditor  -        -        administer -                   auditor  auditor  auditor  auditor
auditor  -        -        administer namespaces=sales    -        viewer   viewer   -
viewer   -        -        administer -                   viewer   viewer   viewer   viewer
-        operator admin    read       -                   -        viewer   viewer   viewer
-        operator admin    administer tables=wages        -        -        -        admin
-        operator admin    operate    tables=wages        -        -        -        operator
-        operator admin    administer namespaces=hr       -        -        -        admin
-        operator admin    administer namespaces=sales    -        operator operator -
-        operator admin    administer tables=rides,namespaces=hr -   -        operator admin
-        -        viewer   administer tables=trips        -        -        -        -
admin    -        -        operate    tables=trips        -        operator -        -
admin    -        -        administer namespaces=none     -        -        -        -
""".strip().splitlines()


@pytest.mark.parametrize("line", LEFT, ids=range(len(LEFT)))
def test_what_is_left_of_its_owners_roles(line: str, lakes: dict[str, Table]) -> None:
    everywhere, in_sales, on_wages, scope, places, *expected = line.split()
    pia = User.objects.create_user("pia")
    if everywhere != "-":
        pia.groups.add(Group.objects.get(name=everywhere))
    if in_sales != "-":
        Grant.objects.create(user=pia, namespace="sales", role=in_sales)
    if on_wages != "-":
        Grant.objects.create(user=pia, table=lakes["wages"], role=on_wages)
    named = dict(pair.split("=") for pair in places.split(",") if "=" in pair)
    limits = TokenLimits(
        scope=scope,
        namespaces=frozenset({named["namespaces"]} if "namespaces" in named else ()),
        table_keys=frozenset({lakes[named["tables"]].pk} if "tables" in named else ()),
    )

    limit_to_token(pia, limits)
    reach = load_effective_roles(pia)

    left = [",".join(sorted(reach.everywhere, reverse=True)) or "-"]
    left += [reach.get_table_role(table.namespace, table.pk) or "-" for table in lakes.values()]
    assert left == expected
    seen = set(visible_tables(pia).values_list("slug", flat=True))
    assert seen == {slug for slug, role in zip(lakes, left[1:], strict=True) if role != "-"}


def test_token_of_a_table_that_is_gone_opens_nothing_and_no_new_one(
    lakes: dict[str, Table], admin: User
) -> None:
    trips = lakes["trips"]
    by = headers(admin, table_keys=[trips.pk])
    assert status("/api/v1/tables/trips/", "GET", by) == 200
    trips.delete()
    Table.objects.create(slug="trips", name="trips", namespace="sales", location="/lake/new")

    assert status("/api/v1/tables/trips/", "GET", by) == 403
    assert status("/api/v1/tables/wages/", "GET", by) == 403


def test_role_that_its_owner_lost_is_lost_to_the_token_at_once(
    lakes: dict[str, Table], viewer: User
) -> None:
    by = headers(viewer)
    assert status("/api/v1/tables/trips/", "GET", by) == 200

    viewer.groups.clear()

    assert status("/api/v1/tables/trips/", "GET", by) == 403


@pytest.mark.parametrize("scope", SCOPES)
def test_no_token_makes_a_token(scope: str, admin: User) -> None:
    assert status(PATH, "POST", headers(admin, scope)) == 403
    assert Token.objects.count() == 1


def test_what_is_wrong_with_a_new_token_is_refused(
    lakes: dict[str, Table], viewer: User, settings: Settings
) -> None:
    client = Client()
    client.force_login(viewer)
    bodies = [
        {"days": 0},
        {"days": settings.SLUICE_TOKEN_DAYS_MAX + 1},
        {"scope": "everything"},
        {"namespaces": ["Not A Name"]},
        {"tables": ["no-such-table"]},
        {"name": "x" * 101},
        {"name": "two\nlines"},
        {"user": "ada"},
    ]

    statuses = [client.post(PATH, body, "application/json").status_code for body in bodies]

    assert statuses == [400, 400, 400, 400, 404, 400, 400, 400]
    assert not Token.objects.exists()


def test_use_is_noted_once_a_minute(viewer: User) -> None:
    by = headers(viewer)
    token = Token.objects.get()

    for ago_s, is_noted in ((None, True), (30, False), (61, True)):
        used_at = None if ago_s is None else timezone.now() - timedelta(seconds=ago_s)
        Token.objects.update(last_used_at=used_at)
        assert status("/api/v1/tables/", "GET", by) == 200
        token.refresh_from_db()
        assert (token.last_used_at != used_at) is is_noted


def test_auditor_sees_and_ends_tokens_of_others_and_a_viewer_does_not(
    viewer: User, operator: User, nobody: User
) -> None:
    nobody.groups.add(Group.objects.get(name="auditor"))
    _, secret = create_token(operator, scope="operate")
    token_key = secret[:15]
    as_viewer, as_auditor = Client(), Client()
    as_viewer.force_login(viewer)
    as_auditor.force_login(nobody)

    assert secret.startswith("sluice_")
    assert as_viewer.get(f"{PATH}?everybody=true").json() == []
    assert as_viewer.delete(f"{PATH}{token_key}/").status_code == 404
    answer = as_auditor.get(f"{PATH}?everybody=true")
    assert [row["user"] for row in answer.json()] == ["olaf"]
    assert secret not in answer.content.decode()
    assert Token.objects.get().digest not in answer.content.decode()
    assert status(f"{PATH}{token_key}/", "DELETE", headers(nobody, "operate")) == 404
    assert as_auditor.delete(f"{PATH}{token_key}/").status_code == 204
    ended = AuditEvent.objects.get(what="token.revoke")
    assert (ended.who, ended.details["user"]) == ("nora", "olaf")


def test_audit_keeps_no_secret(viewer: User) -> None:
    client = Client()
    client.force_login(viewer)

    answer = client.post(PATH, {"name": "nightly", "scope": "read"}, "application/json")

    assert answer["Cache-Control"] == "no-store"
    made = AuditEvent.objects.get(what="token.create")
    assert made.object == answer.json()["id"]
    assert made.details["scope"] == "read"
    assert answer.json()["token"] not in f"{made.details} {made.object}"
