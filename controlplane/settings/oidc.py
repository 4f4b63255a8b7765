"""Login by an OpenID Connect provider: SLUICE_OIDC_* as one value; None where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from controlplane.accounts.access_levels import ROLES

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Only such as the provider alone can sign with."""
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """What is known of the provider before it is asked."""

    issuer: str
    client_id: str
    client_secret: str = ""
    name: str = "single sign-on"
    """What the button says."""
    scopes: str = "openid email profile"
    algorithm: str = "RS256"
    """The only one that is taken for id tokens."""
    groups_claim: str = "groups"
    roles: Mapping[str, tuple[str, ...]]
    """Role everywhere -> the provider's groups that have it; `*` is everybody's."""
    groups: Mapping[str, tuple[str, ...]]
    """Group of people -> the provider's groups whose members are in it."""
    makes_users: bool = True
    email_domains: frozenset[str] = frozenset()
    """In lower case; empty for any."""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"OidcSettings({self.issuer})"


def read_oidc(environ: Mapping[str, str]) -> OidcSettings | None:
    """The provider that the variables describe. Raises ImproperlyConfigured naming a wrong one."""
    issuer = environ.get("SLUICE_OIDC_ISSUER", "")
    if not issuer:
        return None
    where = urlsplit(issuer)
    if where.scheme != "https" and where.hostname not in _LOOPBACK:
        raise ImproperlyConfigured("SLUICE_OIDC_ISSUER must begin with https://")
    algorithm = environ.get("SLUICE_OIDC_ALGORITHM") or "RS256"
    if algorithm not in ALGORITHMS:
        raise ImproperlyConfigured(f"SLUICE_OIDC_ALGORITHM must be one of {', '.join(ALGORITHMS)}")
    client_id = environ.get("SLUICE_OIDC_CLIENT_ID", "")
    if not client_id:
        raise ImproperlyConfigured(
            "SLUICE_OIDC_CLIENT_ID must be set together with SLUICE_OIDC_ISSUER"
        )
    roles = _mapping(environ, "SLUICE_OIDC_ROLES")
    groups = _mapping(environ, "SLUICE_OIDC_GROUPS")
    if unknown := set(roles) - set(ROLES):
        raise ImproperlyConfigured(
            f"SLUICE_OIDC_ROLES contains {unknown.pop()}, which is not a role"
        )
    if in_both := set(groups) & set(ROLES):
        raise ImproperlyConfigured(f"SLUICE_OIDC_GROUPS contains {in_both.pop()}, which is a role")
    return OidcSettings(
        issuer=issuer,
        client_id=client_id,
        client_secret=_secret(environ),
        name=environ.get("SLUICE_OIDC_NAME") or "single sign-on",
        scopes=environ.get("SLUICE_OIDC_SCOPES") or "openid email profile",
        algorithm=algorithm,
        groups_claim=environ.get("SLUICE_OIDC_GROUPS_CLAIM") or "groups",
        roles=roles,
        groups=groups,
        makes_users=environ.get("SLUICE_OIDC_MAKES_USERS") != "0",
        email_domains=frozenset(
            domain.strip().lower()
            for domain in environ.get("SLUICE_OIDC_EMAIL_DOMAINS", "").split(",")
            if domain.strip()
        ),
    )


def _secret(environ: Mapping[str, str]) -> str:
    path = environ.get("SLUICE_OIDC_CLIENT_SECRET_FILE", "")
    if not path:
        return environ.get("SLUICE_OIDC_CLIENT_SECRET", "")
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"SLUICE_OIDC_CLIENT_SECRET_FILE cannot be read: {error.strerror}"
        ) from error


def _mapping(environ: Mapping[str, str], name: str) -> Mapping[str, tuple[str, ...]]:
    """`their group=ours, other=ours` -> {"ours": ("their group", "other")}."""
    theirs_by_ours: dict[str, tuple[str, ...]] = {}
    for pair in environ.get(name, "").split(","):
        if not pair.strip():
            continue
        theirs, sign, ours = (word.strip() for word in pair.rpartition("="))
        if not (theirs and sign and ours):
            raise ImproperlyConfigured(
                f"{name} must be a comma-separated list of `their group=our group`"
            )
        theirs_by_ours[ours] = (*theirs_by_ours.get(ours, ()), theirs)
    return theirs_by_ours
