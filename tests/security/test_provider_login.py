"""Threat T10: nobody signs in by a provider on what it has not said to this client, for this login,
just now; and no account of ours falls to whoever is called the same elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from joserfc.jwk import RSAKey
from pytest_django import Settings

from controlplane.accounts.models import ProviderIdentity
from controlplane.accounts.roles import load_effective_roles
from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest
from controlplane.people.actions.provider_logins import do_connect
from controlplane.people.actions.users import do_deactivate_user
from controlplane.people.oidc import provider as providers
from controlplane.people.queries.users import get_user_detail
from controlplane.settings.oidc import OidcSettings
from controlplane.tables.grants import Granter
from tests.support.oidc_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    Claims,
    OidcProvider,
    oidc_provider,
    signed,
    signed_with_the_public_key,
    unsigned,
)

HOST = "http://testserver"
PIA: Claims = {
    "sub": "248289761001",
    "preferred_username": "pia",
    "email": "pia@example.com",
    "email_verified": True,
    "groups": ["staff", "lake-operators"],
}
SHELL = Granter(user=None, name="root (shell)")


@pytest.fixture
def provider(
    db: None, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OidcProvider]:
    monkeypatch.setattr(providers, "_cache", {})  # Another test may have had the same port.
    settings.SLUICE_PUBLIC_URL = HOST
    with oidc_provider(f"{HOST}/login/oidc/callback/") as running:
        running.person = dict(PIA)
        settings.SLUICE_OIDC = OidcSettings(
            issuer=running.issuer,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            name="Example ID",
            roles={"operator": ("lake-operators",), "admin": ("lake-admins",)},
            groups={"night shift": ("night",)},
        )
        yield running


def begun(client: Client, query: str = "") -> str:
    """What the provider sends the browser back to."""
    start = client.get(f"/login/oidc/{query}")
    assert start.status_code == 302, start.content
    answer = requests.get(start["Location"], allow_redirects=False, timeout=60)
    return answer.headers["Location"].removeprefix(HOST)


def sign_in(client: Client | None = None) -> Client:
    client = client or Client()
    client.get(begun(client))
    return client


def who(client: Client) -> str:
    """Empty for nobody."""
    key = client.session.get("_auth_user_id")
    return User.objects.get(pk=key).get_username() if key else ""


def refusal(client: Client, back: str) -> str:
    answer = client.get(back)
    assert answer["Location"] == "/login/", answer
    assert who(client) == ""
    return client.get("/login/").content.decode()


def test_login_makes_a_user_with_the_roles_of_the_claim(provider: OidcProvider) -> None:
    client = Client()
    button = client.get("/login/?next=/operations").content.decode()
    back = begun(client, "?next=/operations")

    answer = client.get(back)

    assert 'href="/login/oidc/?next=/operations"' in button
    assert "Sign in with Example ID" in button
    assert answer["Location"] == "/operations"
    assert client.get("/operations").status_code == 200
    pia = get_user_detail("pia")
    assert (pia.person.roles, pia.person.groups, pia.person.email) == (
        ["operator"], [], "pia@example.com",
    )  # fmt: skip
    assert pia.person.signs_in_by == provider.issuer
    assert [(row.what, row.who) for row in AuditEvent.objects.order_by("pk")] == [
        ("user.create", "the provider"), ("user.follow", "the provider"),
    ]  # fmt: skip


def test_challenge_state_and_nonce_are_new_each_time(provider: OidcProvider) -> None:
    client = Client()
    queries = [
        {name: texts[0] for name, texts in parse_qs(urlsplit(address).query).items()}
        for address in (client.get("/login/oidc/")["Location"] for _ in range(2))
    ]

    for name in ("state", "nonce", "code_challenge"):
        assert len({query[name] for query in queries}) == 2
        assert len(queries[0][name]) >= 32
    assert queries[0]["code_challenge_method"] == "S256"


OTHER_KEY = RSAKey.generate_key(2048, {"kid": "first", "alg": "RS256"})
BENT: dict[str, Callable[[Claims], Claims]] = {
    "another login's nonce": lambda claims: claims | {"nonce": "of another login"},
    "no nonce": lambda claims: {name: claims[name] for name in claims if name != "nonce"},
    "expired": lambda claims: claims | {"exp": int(time.time()) - 60},
    "without an end": lambda claims: {name: claims[name] for name in claims if name != "exp"},
    "of the future": lambda claims: claims | {"iat": int(time.time()) + 600},
    "another audience": lambda claims: claims | {"aud": "another"},
    "two audiences": lambda claims: claims | {"aud": [CLIENT_ID, "another"]},
    "issued for another": lambda claims: claims | {"azp": "another"},
    "no audience": lambda claims: {name: claims[name] for name in claims if name != "aud"},
    "another issuer": lambda claims: claims | {"iss": "https://id.example.com"},
    "another subject": lambda claims: claims | {"sub": "somebody else"},
    "no subject": lambda claims: {name: claims[name] for name in claims if name != "sub"},
}
SIGNED: dict[str, Callable[[Claims], str]] = {
    "alg none": unsigned,
    "the public key as a secret": signed_with_the_public_key,
    "another key": lambda claims: signed(claims, OTHER_KEY),
    "cut off": lambda claims: signed(claims)[:-20],
    "no token": lambda claims: "a.b",
    "other claims": lambda claims: _exchanged(signed(claims), unsigned(claims | {"sub": "admin"})),
}


def _exchanged(token: str, other: str) -> str:
    head, _, signature = token.split(".")
    return f"{head}.{other.split('.')[1]}.{signature}"


@pytest.mark.parametrize("name", BENT)
def test_id_token_that_says_something_else_is_refused(name: str, provider: OidcProvider) -> None:
    provider.bend = BENT[name]
    client = Client()

    said = refusal(client, begun(client))

    assert "the answer of Example ID is not trusted" in said
    assert not User.objects.exists()


@pytest.mark.parametrize("name", SIGNED)
def test_id_token_that_is_signed_otherwise_is_refused(name: str, provider: OidcProvider) -> None:
    provider.sign = SIGNED[name]
    client = Client()

    said = refusal(client, begun(client))

    assert "is not trusted" in said
    assert not User.objects.exists()


def test_userinfo_of_somebody_else_is_refused(provider: OidcProvider) -> None:
    provider.userinfo = dict(PIA) | {"sub": "another", "groups": ["lake-admins"]}
    client = Client()

    assert "is not trusted" in refusal(client, begun(client))


def test_state_of_another_session_is_refused(provider: OidcProvider) -> None:
    back = begun(Client())
    fresh, other = Client(), Client()
    begun(other)

    assert "this sign-in has expired" in refusal(fresh, back)
    assert "this sign-in has expired" in refusal(other, back)
    assert "this sign-in has expired" in refusal(other, "/login/oidc/callback/?code=1&state=2")
    assert "this sign-in has expired" in refusal(other, "/login/oidc/callback/")
    assert not provider.tokens


def test_code_that_comes_again_is_refused(provider: OidcProvider) -> None:
    client = Client()
    back = begun(client)
    client.get(back)
    assert who(client) == "pia"
    client.post("/logout/")

    assert "this sign-in has expired" in refusal(client, back)
    used = parse_qs(urlsplit(back).query)["code"][0]
    state = parse_qs(urlsplit(begun(client)).query)["state"][0]
    assert "is not trusted" in refusal(client, f"/login/oidc/callback/?code={used}&state={state}")
    assert provider.refusals == ["code", "verifier"]


def test_code_that_was_stolen_opens_nothing_in_another_session(provider: OidcProvider) -> None:
    victim, thief = Client(), Client()
    code = parse_qs(urlsplit(begun(victim)).query)["code"][0]
    state = parse_qs(urlsplit(begun(thief)).query)["state"][0]

    said = refusal(thief, f"/login/oidc/callback/?code={code}&state={state}")

    assert "is not trusted" in said
    assert provider.refusals == ["verifier"]


def test_error_of_the_provider_signs_nobody_out(provider: OidcProvider, as_admin: Client) -> None:
    answer = as_admin.get("/login/oidc/callback/?error=access_denied")

    assert answer["Location"] == "/login/"
    assert who(as_admin) == "ada"


def test_role_follows_the_claim_at_the_next_login(provider: OidcProvider, admin: User) -> None:
    provider.person = PIA | {"groups": ["lake-admins", "night"]}
    sign_in()
    pia = User.objects.get(username="pia")
    given_here = Group.objects.create(name="given here")
    pia.groups.add(given_here, Group.objects.get(name="auditor"))
    assert get_user_detail("pia").person.groups == ["given here", "night shift"]

    for said in ({"groups": ["staff"]}, {}):
        provider.person = {name: PIA[name] for name in PIA if name != "groups"} | said
        client = sign_in()
        assert who(client) == "pia"
        row = get_user_detail("pia").person
        assert (row.roles, row.groups) == (["auditor"], ["given here"])
    followed = AuditEvent.objects.filter(what="user.follow").latest("pk")
    assert followed.details["lost"] == ["admin", "night shift"]


def test_claim_never_takes_the_role_of_the_last_admin(
    provider: OidcProvider, caplog: pytest.LogCaptureFixture
) -> None:
    provider.person = PIA | {"groups": ["lake-admins", "night"]}
    sign_in()
    provider.person = PIA | {"groups": []}

    sign_in()
    alone = get_user_detail("pia").person
    kept = AuditEvent.objects.filter(what="user.follow").latest("pk")
    another = User.objects.create(username="ada")
    another.groups.add(Group.objects.get(name="admin"))
    sign_in()

    assert (alone.roles, alone.groups) == (["admin"], [])
    assert (kept.details["kept"], kept.details["lost"]) == (["admin"], ["night shift"])
    assert "pia keeps the role" in caplog.text
    assert get_user_detail("pia").person.roles == []


def test_who_is_locked_out_gets_in_no_more_and_loses_the_session(provider: OidcProvider) -> None:
    session, client = sign_in(), Client()
    User.objects.update(is_active=False)
    assert session.get("/operations")["Location"].startswith("/login/")
    User.objects.update(is_active=True)
    session = sign_in()
    do_deactivate_user("pia", by=SHELL)

    assert session.get("/operations")["Location"].startswith("/login/")
    assert "this account is deactivated" in refusal(client, begun(client))
    User.objects.update(is_active=True)
    assert session.get("/operations")["Location"].startswith("/login/")


@pytest.mark.parametrize("name", ["pia", "PIA"])
def test_account_of_ours_does_not_fall_to_an_equal_name_or_address(
    name: str, provider: OidcProvider
) -> None:
    ours = User.objects.create_user(name, "pia@example.com", "a long enough password")
    client = Client()

    said = refusal(client, begun(client))

    assert "manage.py user connect pia 248289761001" in said
    assert not ProviderIdentity.objects.exists()
    provider.person = PIA | {"preferred_username": "pia.other"}
    assert who(sign_in()) == "pia.other"
    assert get_user_detail(name).person.signs_in_by == "password"
    assert not load_effective_roles(ours).is_somewhere


def test_shell_connects_an_account_which_then_has_no_password(provider: OidcProvider) -> None:
    User.objects.create_user("olga", password="a long enough password")
    call_command("user", "connect", "olga", "248289761001", "--reason", "moved")

    assert not Client().login(username="olga", password="a long enough password")
    assert who(sign_in()) == "olga"
    assert AuditEvent.objects.get(what="user.connect").reason == "moved"
    oidc = providers.get_oidc_settings()
    assert oidc is not None
    for name, subject in (("olga", "another"), ("vera", "248289761001")):
        User.objects.get_or_create(username="vera")
        with pytest.raises(InvalidRequest):
            do_connect(name, subject, oidc, by=SHELL)


def test_unknown_people_are_refused_where_none_are_made(
    provider: OidcProvider, settings: Settings
) -> None:
    settings.SLUICE_OIDC = replace(settings.SLUICE_OIDC, makes_users=False)
    client = Client()

    assert "you have no account on this node" in refusal(client, begun(client))
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("said", "is_let_in"),
    [
        ({"email": "pia@Example.com"}, True),
        ({"email": "pia@example.org"}, False),
        ({"email": "pia@evil-example.com"}, False),
        ({"email": "pia@example.com@example.org"}, False),
        ({"email": "pia@example.com", "email_verified": False}, False),
        ({"email": "pia@example.com", "email_verified": "true"}, False),
        ({"email": None}, False),
    ],
)
def test_only_verified_addresses_of_the_domains_are_let_in(
    said: dict[str, Any], is_let_in: bool, provider: OidcProvider, settings: Settings
) -> None:
    settings.SLUICE_OIDC = replace(settings.SLUICE_OIDC, email_domains=frozenset({"example.com"}))
    provider.person = PIA | said

    assert who(sign_in()) == ("pia" if is_let_in else "")
    assert User.objects.exists() is is_let_in


def test_provider_that_says_it_is_another_one_is_not_asked(
    provider: OidcProvider,
) -> None:
    provider.described_as = "https://id.example.com"
    client = Client()

    assert client.get("/login/oidc/")["Location"] == "/login/"
    assert "Example ID does not answer" in client.get("/login/").content.decode()


def test_next_leads_to_no_other_site(provider: OidcProvider) -> None:
    client = Client()
    back = begun(client, "?next=https://evil.example.com/")

    assert client.get(back)["Location"] == "/"


def test_sign_out_ends_the_session_and_offers_to_end_the_providers(provider: OidcProvider) -> None:
    client = sign_in()

    out = client.post("/logout/")
    there = client.get("/login/oidc/leave/")["Location"]

    assert out["Location"] == "/login/?left=1"
    assert "Sign out of Example ID too" in client.get(out["Location"]).content.decode()
    assert who(client) == ""
    assert there.startswith(f"{provider.issuer}/logout?")
    query = parse_qs(urlsplit(there).query)
    assert query["post_logout_redirect_uri"] == [f"{HOST}/login/"]
    claims = jwt.decode(query["id_token_hint"][0], options={"verify_signature": False})
    assert claims["sub"] == PIA["sub"]
    assert "id_token_hint" not in client.get("/login/oidc/leave/")["Location"]


def test_password_form_is_not_taken_for_a_code(provider: OidcProvider) -> None:
    """Neither is a code taken where nobody checked its state."""
    client = Client()
    back = begun(client)
    query = urlsplit(back).query

    answer = client.post(f"/login/?{query}", {"username": "pia", "password": "x"})

    assert answer.status_code == 200
    assert who(client) == ""
    assert not provider.tokens
