"""Threat T12: who may give and take roles, and that nobody gives more than he has."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest
from controlplane.tables.access import Permission, may
from controlplane.tables.grants import Granter, GrantRequest, do_grant
from controlplane.tables.models import Table

PATH = "/api/v1/grants/"


@pytest.fixture
def people(db: None) -> dict[str, User]:
    """`nina` is an admin of the namespace sales, `tom` of the table trips alone."""
    trips = Table.objects.create(slug="trips", name="t", namespace="sales", location="/lake/trips")
    Table.objects.create(slug="wages", name="w", namespace="hr", location="/lake/wages")
    people = {name: User.objects.create_user(name) for name in ("nina", "tom", "pia")}
    Grant.objects.create(user=people["nina"], namespace="sales", role="admin")
    Grant.objects.create(user=people["tom"], table=trips, role="admin")
    Group.objects.create(name="night shift")
    return people


def post(giver: User, /, **body: str) -> Any:
    client = Client()
    client.force_login(giver)
    return client.post(PATH, body, content_type="application/json")


# Who gives, what he gives to whom and where; then the status.
CASES = """
nina role=admin    user=pia           namespace=sales 201
nina role=operator user=pia           table=trips     201
nina role=viewer   group=night-shift  table=trips     201
nina role=viewer   user=pia           namespace=hr    403
nina role=viewer   user=pia           table=wages     404
nina role=viewer   user=pia           table=none      404
nina role=viewer   user=nobody        table=trips     400
nina role=viewer   group=admin        table=trips     400
nina role=auditor  user=pia           table=trips     400
tom  role=viewer   user=pia           table=trips     403
tom  role=admin    user=tom           namespace=sales 403
pia  role=viewer   user=pia           table=trips     403
ada  role=admin    user=pia           namespace=new   201
ada  role=viewer   user=pia           table=wages     201
"""


@pytest.mark.parametrize("line", [line.split() for line in CASES.strip().splitlines()])
def test_admin_gives_where_he_is_one(line: list[str], people: dict[str, User], admin: User) -> None:
    giver, *pairs, status = line
    body = dict(pair.replace("night-shift", "night shift").split("=") for pair in pairs)
    before = set(Grant.objects.values_list("pk", flat=True))

    answer = post({**people, "ada": admin}[giver], **body)

    assert answer.status_code == int(status), answer.content
    new = Grant.objects.exclude(pk__in=before)
    assert new.count() == (status == "201")
    audited = AuditEvent.objects.filter(what="grant.give", who=giver)
    assert audited.count() == (status == "201")


def test_giving_again_replaces_and_taking_ends_it(people: dict[str, User]) -> None:
    nina, pia = people["nina"], people["pia"]
    trips = Table.objects.get(slug="trips")
    first = post(nina, role="operator", user="pia", table="trips").json()
    again = post(nina, role="viewer", user="pia", table="trips").json()
    client = Client()
    client.force_login(nina)

    assert first["id"] == again["id"]
    assert not may(pia, Permission.OPERATE, trips)
    assert may(pia, Permission.VIEW, trips)
    assert client.delete(f"{PATH}{again['id']}/").status_code == 204
    assert client.delete(f"{PATH}{again['id']}/").status_code == 404
    assert not may(pia, Permission.VIEW, trips)
    taken = AuditEvent.objects.get(what="grant.take")
    assert (taken.who, taken.object, taken.details["user"]) == ("nina", "trips", "pia")


def test_nobody_takes_or_sees_what_holds_elsewhere(
    people: dict[str, User], admin: User, viewer: User
) -> None:
    elsewhere = Grant.objects.create(user=people["pia"], namespace="hr", role="viewer")
    client = Client()
    shown = {}
    for user in (people["nina"], people["tom"], viewer, admin):
        client.force_login(user)
        shown[user.username] = {row["namespace"] for row in client.get(PATH).json()}
    client.force_login(people["nina"])

    assert client.delete(f"{PATH}{elsewhere.pk}/").status_code == 404
    assert shown == {"nina": {"sales", ""}, "tom": set(), "vera": set(), "ada": {"sales", "", "hr"}}


def test_auditor_sees_all_and_takes_nothing(people: dict[str, User], nobody: User) -> None:
    nobody.groups.add(Group.objects.get(name="auditor"))
    client = Client()
    client.force_login(nobody)
    grant = Grant.objects.get(user=people["tom"])

    assert len(client.get(PATH).json()) == 2
    assert client.delete(f"{PATH}{grant.pk}/").status_code == 403


@pytest.mark.parametrize(
    "values",
    [
        {"user": "pia"},
        {"user": "pia", "namespace": "sales", "table": "trips"},
        {"namespace": "sales"},
        {"user": "pia", "group": "night shift", "namespace": "sales"},
        {"user": "pia", "namespace": "Not A Name"},
    ],
)
def test_half_a_grant_is_refused(
    values: dict[str, str], people: dict[str, User], admin: User
) -> None:
    with pytest.raises(InvalidRequest):
        do_grant(GrantRequest(role="viewer", **values), by=Granter.person(admin))


def test_shell_gives_lists_and_takes(people: dict[str, User]) -> None:
    def run(*words: str) -> str:
        said = StringIO()
        call_command("grant", *words, stdout=said)
        return said.getvalue()

    given = run("give", "operator", "--user", "pia", "--table", "wages", "--reason", "on call")
    number = given.split("\t")[0]

    assert "pia\toperator\ttable wages" in given
    assert given in run("list")
    assert AuditEvent.objects.get(what="grant.give").reason == "on call"
    assert "revoked" in run("take", number)
    assert not Grant.objects.filter(pk=number).exists()
    for words in (["take", number], ["give", "viewer", "--user", "x", "--table", "wages"]):
        with pytest.raises(CommandError, match="not found"):
            run(*words)
