"""What a table may be called: its slug in addresses, its name for people, its namespace."""

from __future__ import annotations

import re

from controlplane.errors import InvalidRequest

SLUG = re.compile(r"\A[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")
NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9 _.-]{0,199}\Z")


def check_slug(slug: str) -> None:
    """Raises InvalidRequest."""
    if not SLUG.match(slug):
        raise InvalidRequest(
            "a slug has lower-case letters, digits and dashes, at most 64", slug=slug[:80]
        )


def check_name(name: str) -> None:
    """Raises InvalidRequest."""
    if not NAME.match(name):
        raise InvalidRequest("the name has characters that are not allowed", name=name[:80])


def check_namespace(namespace: str) -> None:
    """Raises InvalidRequest."""
    if not SLUG.match(namespace):
        raise InvalidRequest(
            "a namespace has lower-case letters, digits and dashes", namespace=namespace[:80]
        )
