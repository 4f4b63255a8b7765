"""Threat T12: who makes, changes and locks out people, and that a lock-out holds at once."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.db.models.signals import pre_save
from django.test import Client

from controlplane.accounts.models import Grant, Token
from controlplane.accounts.roles import is_admin
from controlplane.accounts.tokens import create_token
from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.people.actions.groups import do_add_member, do_create_group, do_delete_group
from controlplane.people.actions.users import (
    do_activate_user,
    do_create_user,
    do_deactivate_user,
    do_make_link,
    do_set_roles,
)
from controlplane.people.queries.users import RightRow, get_user_detail
from controlplane.tables.grants import Granter
from controlplane.tables.models import RowGrant, Table

SHELL = Granter(user=None, name="root (shell)")
PASSWORD = "quite a long password"
USERS = "/api/v1/users/"


def send(by: Client, method: str, address: str, **body: Any) -> int:
    answer = by.generic(method, address, (body and _json(body)) or "{}", "application/json")
    return answer.status_code


def _json(body: dict[str, Any]) -> str:

    return json.dumps(body)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_admin_makes_a_user_who_sets_a_password_by_the_link_once(as_admin: Client) -> None:
    made = as_admin.post(USERS, {"name": "pia", "roles": ["operator"]}, "application/json")
    path = as_admin.post(f"{USERS}pia/link/", {}, "application/json").json()["path"]
    pia = Client()
    form = pia.get(path)["Location"]

    too_easy = pia.post(form, {"new_password1": "12345678", "new_password2": "12345678"})
    set_now = pia.post(form, {"new_password1": PASSWORD, "new_password2": PASSWORD})

    assert (made.status_code, made.json()["signs_in_by"]) == (201, "nothing yet")
    assert too_easy.status_code == 200
    assert "too common" in too_easy.content.decode()
    assert set_now["Location"] == "/login/"
    assert pia.login(username="pia", password=PASSWORD)
    assert "This link is invalid" in Client().get(path).content.decode()
    assert "This link is invalid" in pia.get(form).content.decode()
    noted = AuditEvent.objects.filter(what__startswith="user.").order_by("pk")
    assert [(row.what, row.who) for row in noted] == [
        ("user.create", "ada"), ("user.link", "ada"), ("user.password", "pia"),
    ]  # fmt: skip
    assert path not in str([row.details for row in noted])


@pytest.mark.parametrize(
    ("kind", "row", "address"),
    [(User, {"username": "pia"}, USERS), (Group, {"name": "pia"}, "/api/v1/groups/")],
)
def test_name_that_somebody_else_takes_at_the_same_moment_is_refused(
    kind: Any, row: dict[str, str], address: str, as_admin: Client
) -> None:
    """After it was looked for, and before it is stored."""

    def take(**_: object) -> None:
        pre_save.disconnect(take, sender=kind)
        kind.objects.bulk_create([kind(**row)])

    pre_save.connect(take, sender=kind)
    try:
        answer = as_admin.post(address, {"name": "pia"}, "application/json")
    finally:
        pre_save.disconnect(take, sender=kind)

    assert answer.status_code == 400, answer.content
    assert "already has this name" in answer.json()["detail"]


def test_link_ends_with_a_lock_out(admin: User) -> None:
    do_create_user("pia", by=SHELL)
    path = do_make_link("pia", by=SHELL)
    do_deactivate_user("pia", by=SHELL)

    assert "This link is invalid" in Client().get(path).content.decode()
    with pytest.raises(NotAllowedNow, match="deactivated"):
        do_make_link("pia", by=SHELL)


def test_lock_out_ends_sessions_and_tokens_for_good(operator: User, as_admin: Client) -> None:
    session = signed_in(operator)
    _, secret = create_token(operator, scope="read")
    headers = {"Authorization": f"Token {secret}"}
    assert session.get("/operations").status_code == 200

    locked = send(as_admin, "PATCH", f"{USERS}olaf/", is_active=False, reason="left")

    assert locked == 200
    assert session.get("/operations")["Location"].startswith("/login/")
    assert Client().get("/api/v1/tables/", headers=headers).status_code == 401
    assert not Token.objects.exists()
    do_activate_user("olaf", by=SHELL)
    assert session.get("/operations")["Location"].startswith("/login/")
    assert Client().get("/api/v1/tables/", headers=headers).status_code == 401
    noted = AuditEvent.objects.get(what="user.deactivate")
    assert (noted.who, noted.reason, noted.details["tokens"]) == ("ada", "left", 1)


def test_last_admin_stays_one_and_stays_in(admin: User, operator: User) -> None:
    with pytest.raises(NotAllowedNow, match="this is the last admin"):
        do_deactivate_user("ada", by=SHELL)
    with pytest.raises(NotAllowedNow, match="this is the last admin"):
        do_set_roles("ada", ["viewer"], by=SHELL)
    do_set_roles("olaf", ["admin"], by=SHELL)
    do_deactivate_user("olaf", by=SHELL)
    with pytest.raises(NotAllowedNow, match="this is the last admin"):
        do_deactivate_user("ada", by=SHELL)
    do_activate_user("olaf", by=SHELL)

    do_deactivate_user("ada", by=SHELL)

    assert is_admin(User.objects.get(username="olaf"))
    assert not is_admin(User.objects.get(username="ada"))


def test_change_that_is_refused_in_part_changes_nothing(as_admin: Client, admin: User) -> None:
    status = send(as_admin, "PATCH", f"{USERS}ada/", roles=["admin", "auditor"], is_active=False)

    assert status == 409
    assert [group.name for group in admin.groups.all()] == ["admin"]
    assert not AuditEvent.objects.filter(what__startswith="user.").exists()


@pytest.mark.parametrize("role", ["nobody", "viewer", "operator", "auditor"])
def test_only_admins_everywhere_change_people(role: str, nobody: User, admin: User) -> None:
    if role != "nobody":
        nobody.groups.add(Group.objects.get(name=role))
    Grant.objects.create(user=nobody, namespace="sales", role="admin")
    group = do_create_group("night shift", by=SHELL)
    client = signed_in(nobody)
    changes = AuditEvent.objects.count()
    wanted: dict[tuple[str, str], dict[str, Any]] = {
        ("POST", USERS): {"name": "eve", "roles": ["admin"]},
        ("PATCH", f"{USERS}nora/"): {"roles": ["admin"]},
        ("POST", f"{USERS}ada/link/"): {},
        ("POST", "/api/v1/groups/"): {"name": "all"},
        ("PUT", f"/api/v1/groups/{group.id}/members/nora/"): {},
        ("DELETE", f"/api/v1/groups/{group.id}/members/nora/"): {},
        ("DELETE", f"/api/v1/groups/{group.id}/"): {},
    }

    statuses = {send(client, method, path, **body) for (method, path), body in wanted.items()}
    pages = {
        client.post(path, {"name": "eve", "roles": "admin", "user": "nora"}).status_code
        for path in (
            "/people", f"/people/{nobody.pk}/roles", f"/people/{admin.pk}/lock",
            f"/people/{admin.pk}/link", "/people/groups", f"/people/groups/{group.id}/add",
            f"/people/groups/{group.id}/remove", f"/people/groups/{group.id}/delete",
        )
    }  # fmt: skip

    assert statuses == pages == {403}
    assert client.get(USERS).status_code == (200 if role == "auditor" else 403)
    assert client.get("/people").status_code == (200 if role == "auditor" else 403)
    assert AuditEvent.objects.count() == changes
    assert set(User.objects.values_list("username", flat=True)) == {"nora", "ada"}


@pytest.mark.parametrize(
    ("name", "email", "roles"),
    [
        ("ADA", "", []),
        ("", "", []),
        ("a b", "", []),
        ("x/y", "", []),
        ("x" * 151, "", []),
        ("eve", "no address", []),
        ("eve", "", ["night shift"]),
        ("eve", "", ["superuser"]),
    ],
)
def test_nobody_is_made_of_a_wrong_name(
    name: str, email: str, roles: list[str], admin: User
) -> None:
    Group.objects.create(name="night shift")

    with pytest.raises(InvalidRequest):
        do_create_user(name, by=Granter.person(admin), email=email, roles=roles)

    assert User.objects.count() == 1


def test_groups_give_and_take_with_membership(nobody: User, admin: User) -> None:
    trips = Table.objects.create(slug="trips", name="t", namespace="sales", location="/lake/t")
    group = do_create_group("night shift", by=Granter.person(admin))
    members = Group.objects.get(pk=group.id)
    Grant.objects.create(group=members, namespace="sales", role="operator")
    RowGrant.objects.create(group=members, table=trips, right="rows")
    Grant.objects.create(user=nobody, table=trips, role="viewer")
    nobody.groups.add(Group.objects.get(name="auditor"))

    do_add_member(group.id, "nora", by=Granter.person(admin))
    rights = get_user_detail("nora").rights
    do_delete_group(group.id, by=Granter.person(admin))

    assert rights == [
        RightRow(right="auditor", place="everywhere", by_group=""),
        RightRow(right="operator", place="namespace sales", by_group="night shift"),
        RightRow(right="rows", place="table trips", by_group="night shift"),
        RightRow(right="viewer", place="table trips", by_group=""),
    ]
    assert [right.by_group for right in get_user_detail("nora").rights] == ["", ""]
    deleted = AuditEvent.objects.get(what="group.delete")
    assert deleted.details["members"] == ["nora"]
    assert deleted.details["rights"] == ["operator namespace sales", "rows table trips"]


def test_group_of_a_role_is_no_group_of_people(nobody: User, as_admin: Client) -> None:
    role = Group.objects.get(name="admin")

    assert send(as_admin, "PUT", f"/api/v1/groups/{role.pk}/members/nora/") == 404
    assert send(as_admin, "DELETE", f"/api/v1/groups/{role.pk}/") == 404
    assert send(as_admin, "POST", "/api/v1/groups/", name="admin") == 400
    assert as_admin.get("/api/v1/groups/").json() == []
    assert not nobody.groups.exists()


def test_shell_looks_after_people(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str) -> str:
        said = StringIO()
        call_command("user", *words, stdout=said, stderr=StringIO())
        return said.getvalue()

    monkeypatch.setattr("getpass.getpass", lambda _: PASSWORD)

    assert run("create", "pia", "--role", "viewer", "--reason", "on call").startswith("pia\tviewer")
    assert run("roles", "pia", "operator").startswith("pia\toperator\t-\tin\tnothing yet")
    assert "/password/" in run("link", "pia")
    assert "set" in run("password", "pia")
    assert Client().login(username="pia", password=PASSWORD)
    run("group-create", "night shift")
    assert run("group-add", "night shift", "pia") == "night shift\tpia\t-\n"
    assert "pia\toperator\tnight shift\tin\tpassword" in run("list")
    assert "operator\teverywhere\town" in run("show", "pia")
    assert "deactivated" in run("deactivate", "pia")
    assert not Client().login(username="pia", password=PASSWORD)
    assert run("group-remove", "night shift", "pia") == "night shift\t-\t-\n"
    assert run("groups") == "night shift\t-\t-\n"
    run("group-delete", "night shift")
    for words in (["show", "vasco"], ["group-add", "night shift", "pia"], ["deactivate", "ada"]):
        with pytest.raises(CommandError):
            run(*words)
    assert AuditEvent.objects.filter(what__startswith="user.", who__endswith="(shell)").exists()
