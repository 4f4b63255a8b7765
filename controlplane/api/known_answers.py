"""304 for whoever has an answer already, before the answer is made.

Possible where the database says what the rows are of which an answer is made, and the answer is
made of nothing else: neither of the time nor of who asks. The tag holds besides for one address,
its query included, and for one program. Whether somebody may see the answer is asked before.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from django.utils.http import parse_etags
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.program import program

CACHE_CONTROL: Final = "private, no-cache"
"""No cache between two people may keep an answer, and nobody shows one without asking again."""
WEAK: Final = "W/"


def answered_unless_known(
    request: Request, digest_now: Callable[[], str], make: Callable[[], tuple[Any, str]]
) -> Response:
    """`make` gives the answer and the digest of the very rows of which it was made; `digest_now`
    what that digest would be. Both are empty where the database makes none: then the answer is made
    each time, and its own digest is its tag.
    """
    known = request.headers.get("If-None-Match", "")
    if known and (digest := digest_now()):
        tag = _tag(request, digest)
        if _is_among(tag, known):
            return Response(status=304, headers={"ETag": tag, "Cache-Control": CACHE_CONTROL})
    answer, digest = make()
    return Response(answer, headers={"ETag": _tag(request, digest)} if digest else None)


def _tag(request: Request, digest: str) -> str:
    said = f"{program()} {request.get_full_path()} {digest}"
    return f'{WEAK}"{sha256(said.encode()).hexdigest()[:32]}"'


def _is_among(tag: str, known: str) -> bool:
    """As RFC 9110 (13.1.2) compares: weakly, and `*` is whatever there is."""
    tags = parse_etags(known)
    bare = tag.removeprefix(WEAK)
    return tags == ["*"] or any(one.removeprefix(WEAK) == bare for one in tags)
