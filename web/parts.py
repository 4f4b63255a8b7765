"""Pages whose content takes a second: the frame comes at once, and a script fetches the part. The
same address without the script's header is the whole page, for readers without scripts.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

HEADER = "X-Sluice-Part"


def is_part(request: HttpRequest) -> bool:
    """Whether only the part is wanted."""
    return HEADER in request.headers


def part_or_page(
    request: HttpRequest, part: str, page: str, context: dict[str, Any]
) -> HttpResponse:
    """The part alone, or the page with the part in it; nobody keeps either on the way."""
    whole = {**context, "part": part}
    answer = render(request, part if is_part(request) else page, whole)
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["Vary"] = HEADER
    return answer
