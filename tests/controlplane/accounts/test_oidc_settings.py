"""SLUICE_OIDC_*: what is read of them, and that what is wrong is named before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane.settings.oidc import read_oidc


def test_settings_are_read_and_what_is_wrong_is_named(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    given = {
        "SLUICE_OIDC_ISSUER": "https://id.example.com",
        "SLUICE_OIDC_CLIENT_ID": "sluice",
        "SLUICE_OIDC_CLIENT_SECRET_FILE": str(secret),
        "SLUICE_OIDC_ROLES": "cn=a=admin, ops=operator,*=viewer",
        "SLUICE_OIDC_GROUPS": "night=night shift",
        "SLUICE_OIDC_EMAIL_DOMAINS": "Example.com",
    }

    read = read_oidc(given)

    assert read is not None
    assert read.client_secret == "from a file"
    assert "from a file" not in repr(read)
    assert read.roles == {"admin": ("cn=a",), "operator": ("ops",), "viewer": ("*",)}
    assert read.email_domains == {"example.com"}
    assert read_oidc({}) is None
    for name, text in (
        ("SLUICE_OIDC_ISSUER", "http://id.example.com"),
        ("SLUICE_OIDC_ALGORITHM", "none"),
        ("SLUICE_OIDC_ALGORITHM", "HS256"),
        ("SLUICE_OIDC_CLIENT_ID", ""),
        ("SLUICE_OIDC_CLIENT_SECRET_FILE", str(tmp_path / "none")),
        ("SLUICE_OIDC_ROLES", "staff=owner"),
        ("SLUICE_OIDC_ROLES", "staff"),
        ("SLUICE_OIDC_GROUPS", "staff=admin"),
    ):
        with pytest.raises(ImproperlyConfigured, match=name):
            read_oidc(given | {name: text})
