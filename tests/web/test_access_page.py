"""The page of who has which role: giving and taking by it, and what each sees of it."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from controlplane.accounts.models import Grant
from controlplane.tables.access import Permission, may
from controlplane.tables.models import Table


@pytest.fixture
def nina(db: None) -> User:
    """An admin of the namespace sales, in which the table deals stands."""
    nina = User.objects.create_user("nina")
    Table.objects.create(slug="deals", name="Deals", namespace="sales", location="/lake/deals")
    Table.objects.create(slug="wages", name="Wages", namespace="hr", location="/lake/wages")
    Grant.objects.create(user=nina, namespace="sales", role="admin", granted_by="ada")
    User.objects.create_user("pia")
    return nina


@pytest.fixture
def as_nina(nina: User) -> Client:
    client = Client()
    client.force_login(nina)
    return client


def test_role_is_given_and_taken_by_the_page(nina: User, as_nina: Client) -> None:
    pia, deals = User.objects.get(username="pia"), Table.objects.get(slug="deals")

    given = as_nina.post("/access", {"role": "operator", "user": "pia", "table": "deals"})
    shown = as_nina.get("/access").content.decode()
    [take] = re.findall(rf"/access/{Grant.objects.get(user=pia).pk}/take", shown)

    assert given.status_code == 302
    assert may(pia, Permission.OPERATE, deals)
    assert as_nina.post(take, {"confirmed": "yes"}).status_code == 302
    assert not may(pia, Permission.VIEW, deals)


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"user": "pia"}, 422, "Enter either a namespace or a table"),
        ({"user": "pia", "group": "g", "table": "deals"}, 422, "Enter either a user or a group"),
        ({"user": "pia", "table": "wages"}, 422, "No table has this slug."),
        ({"user": "pia", "table": "none"}, 422, "No table has this slug."),
        ({"user": "nobody", "table": "deals"}, 400, "User not found"),
        ({"user": "pia", "namespace": "hr"}, 403, "the namespace hr"),
    ],
)
def test_what_cannot_be_given_is_said(
    form: dict[str, str], status: int, words: str, as_nina: Client
) -> None:
    answer = as_nina.post("/access", {"role": "viewer", **form})

    assert (answer.status_code, words in answer.content.decode()) == (status, True)
    assert Grant.objects.count() == 1


def test_each_sees_what_is_his_to_see(nina: User, as_nina: Client, as_admin: Client) -> None:
    Grant.objects.create(user=nina, namespace="hr", role="viewer", granted_by="the boss")
    auditor = User.objects.create_user("otto")
    auditor.groups.add(Group.objects.get(name="auditor"))
    as_auditor = Client()
    as_auditor.force_login(auditor)

    of_nina, of_admin, of_auditor = (
        client.get("/access").content.decode() for client in (as_nina, as_admin, as_auditor)
    )

    assert ["the boss" in page for page in (of_nina, of_admin, of_auditor)] == [False, True, True]
    assert ["otto</th>" in page for page in (of_nina, of_admin, of_auditor)] == [False, True, True]
    assert ["Grant role" in page for page in (of_nina, of_admin, of_auditor)] == [
        True,
        True,
        False,
    ]
    assert as_auditor.post("/access", {"role": "admin", "user": "otto"}).status_code == 403
