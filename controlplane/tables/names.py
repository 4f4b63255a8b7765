"""What a table may be called: its slug in addresses, its name for people, its namespace."""

from __future__ import annotations

import re

from controlplane.errors import InvalidRequest

SLUG = re.compile(r"\A[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?\Z")
NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9 _.-]{0,199}\Z")

TAG = re.compile(r"\A[a-z0-9][a-z0-9._-]{0,39}\Z")
OWNER_CHARS_MAX = 150
TAGS_CHARS_MAX = 300
DESCRIPTION_CHARS_MAX = 500


def check_slug(slug: str) -> None:
    """Refuse, as InvalidRequest, what is no slug."""
    if not SLUG.match(slug):
        raise InvalidRequest(
            "a slug must have 1 to 64 lower-case letters, digits and dashes", slug=slug[:80]
        )


def check_name(name: str) -> None:
    """Refuse, as InvalidRequest, a name with other characters than `NAME` has."""
    if not NAME.match(name):
        raise InvalidRequest("the name contains characters that are not allowed", name=name[:80])


def check_namespace(namespace: str) -> None:
    """Refuse, as InvalidRequest, what is no namespace: they are written as slugs are."""
    if not SLUG.match(namespace):
        raise InvalidRequest(
            "a namespace must have only lower-case letters, digits and dashes",
            namespace=namespace[:80],
        )


def check_owner(owner: str) -> None:
    """Refuses what is no owner's name. Raises InvalidRequest."""
    if len(owner) > OWNER_CHARS_MAX or not owner.isprintable() or owner != owner.strip():
        raise InvalidRequest(
            f"an owner must be a name of at most {OWNER_CHARS_MAX} characters", owner=owner[:80]
        )


def normalize_description(text: str) -> str:
    """Return the text as one paragraph, with one space where there was more.

    Raises InvalidRequest for a text that is too long or has control characters.
    """
    paragraph = " ".join(text.split())
    if len(paragraph) > DESCRIPTION_CHARS_MAX or not paragraph.isprintable():
        raise InvalidRequest(
            f"a description must be a text of at most {DESCRIPTION_CHARS_MAX} characters",
            description=paragraph[:80],
        )
    return paragraph


def tags_in_order(text: str) -> str:
    """Words with spaces or commas between them as a table keeps them: each once, in order.

    Raises InvalidRequest for a word that no tag can be.
    """
    tags = sorted(set(text.replace(",", " ").split()))
    wrong = next((tag for tag in tags if not TAG.match(tag)), None)
    if wrong is not None:
        raise InvalidRequest(
            "a tag must have 1 to 40 lower-case letters, digits, dots and dashes", tags=wrong[:80]
        )
    kept = " ".join(tags)
    if len(kept) > TAGS_CHARS_MAX:
        raise InvalidRequest(
            f"tags must have at most {TAGS_CHARS_MAX} characters together", tags=kept[:80]
        )
    return kept
