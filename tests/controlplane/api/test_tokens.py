"""Tokens from the shell, and what is said to somebody who sends a password instead of one."""

from __future__ import annotations

import base64
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import get_shell_user


def token(*words: str) -> str:
    out = StringIO()
    call_command("token", *words, stdout=out, stderr=StringIO())
    return out.getvalue().strip()


def status(client: Client, given: str) -> int:
    return client.get("/api/v1/tables/", headers={"Authorization": f"Token {given}"}).status_code


def test_a_token_is_made_listed_and_revoked_in_the_shell(client: Client, viewer: User) -> None:
    made = token("create", "vera", "--days", "7")

    assert "\n" not in made
    assert status(client, made) == 200
    [listed] = token("list", "vera").splitlines()
    assert made.startswith(listed.split()[0])
    assert token("revoke", "vera", listed.split()[0]) == "revoked"
    assert status(client, made) == 401


def test_the_audit_says_whose_token_it_is_and_who_made_and_revoked_it(
    client: Client, viewer: User
) -> None:
    token("create", "vera")
    in_shell = token("list", "vera").split()[0]
    token("revoke", "vera", in_shell)
    client.force_login(viewer)
    over_api = client.post("/api/v1/tokens/", {}, "application/json").json()["id"]
    client.delete(f"/api/v1/tokens/{over_api}/")

    noted = AuditEvent.objects.filter(what__startswith="token.").order_by("pk")
    assert [(row.what, row.object, row.who) for row in noted] == [
        ("token.create", in_shell, get_shell_user()),
        ("token.revoke", in_shell, get_shell_user()),
        ("token.create", over_api, "vera"),
        ("token.revoke", over_api, "vera"),
    ]
    assert {row.details["user"] for row in noted} == {"vera"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["create", "vasco"], "user vasco not found; users: ada, nora, vera"),
        (["create", "nora"], "nora has no role"),
        (["create", "vera", "--days", "0"], "days must be 1 to 365"),
        (["revoke", "vera", "12345678"], "vera has no token 12345678"),
    ],
)
def test_what_gives_no_token_says_why(
    admin: User, viewer: User, nobody: User, words: list[str], sentence: str
) -> None:
    with pytest.raises(CommandError, match=sentence):
        token(*words)


@pytest.mark.parametrize("method", ["get", "post"])
def test_who_sends_a_password_is_told_what_to_do(client: Client, viewer: User, method: str) -> None:
    basic = base64.b64encode(b"vera:a long password").decode()

    answer = getattr(client, method)("/api/v1/tokens/", headers={"Authorization": f"Basic {basic}"})

    assert answer.status_code == 401
    assert answer.json()["code"] == "not_authenticated"
    assert "manage.py token create" in answer.json()["detail"]
    assert "/login/" in answer.json()["detail"]
