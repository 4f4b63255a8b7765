"""The page of tokens: its secret is shown once, and each sees what is his."""

from __future__ import annotations

import re

from django.contrib.auth.models import User
from django.test import Client

from controlplane.accounts.models import Token
from controlplane.accounts.tokens import create_token

FORM = {"name": "dashboards", "scope": "read", "days": "30", "namespaces": "sales hr"}


def test_token_is_shown_once_works_and_is_revoked(as_viewer: Client) -> None:
    answer = as_viewer.post("/tokens", FORM)
    shown = re.findall(r"sluice_[0-9a-f]{64}", answer.content.decode())
    [secret] = set(shown)  # As text, and on the button that copies it.
    token = Token.objects.get()

    assert "no-store" in answer["Cache-Control"]
    assert (token.scope, token.namespaces) == ("read", ["hr", "sales"])
    assert secret not in as_viewer.get("/tokens").content.decode()
    headers = {"Authorization": f"Token {secret}"}
    assert Client().get("/api/v1/tables/", headers=headers).status_code == 200
    assert (
        as_viewer.post(f"/tokens/{token.token_key}/revoke", {"confirmed": "yes"}).status_code == 302
    )
    assert Client().get("/api/v1/tables/", headers=headers).status_code == 401


def test_each_sees_his_own_and_an_admin_all(
    as_viewer: Client, as_admin: Client, operator: User
) -> None:
    create_token(operator, scope="operate", name="nightly load")
    token = Token.objects.get()

    assert "nightly load" not in as_viewer.get("/tokens").content.decode()
    assert (
        as_viewer.post(f"/tokens/{token.token_key}/revoke", {"confirmed": "yes"}).status_code == 404
    )
    assert "nightly load" in as_admin.get("/tokens").content.decode()
    assert (
        as_admin.post(f"/tokens/{token.token_key}/revoke", {"confirmed": "yes"}).status_code == 302
    )
    assert not Token.objects.exists()


def test_what_is_wrong_is_said_and_makes_nothing(as_viewer: Client) -> None:
    answers = {
        name: as_viewer.post("/tokens", FORM | {name: text})
        for name, text in (("name", ""), ("days", "9999"), ("tables", "none"), ("scope", "all"))
    }

    assert {name: answer.status_code for name, answer in answers.items()} == {
        "name": 422, "days": 400, "tables": 422, "scope": 422,
    }  # fmt: skip
    assert "Unknown table slug." in answers["tables"].content.decode()
    assert not Token.objects.exists()
