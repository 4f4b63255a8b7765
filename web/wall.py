"""Wall mode: the live page for a screen on a wall, which goes from one busy table to the next.

`?wall` in the address is all that it is; nothing is remembered of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from controlplane.tables.rotation import next_busy_table
from web.refusals import person

if TYPE_CHECKING:
    from controlplane.tables.models import Table

SECONDS = 20
SECONDS_MIN, SECONDS_MAX = 5, 3600


@dataclass(frozen=True, slots=True)
class Wall:
    """How long a table is shown, and which comes next."""

    seconds: int
    next_address: str
    """Empty where no other table is busy."""
    next_name: str


def wall_of(request: HttpRequest, table: Table) -> Wall | None:
    """What `?wall`, `?wall=60` and `&namespace=sales` ask for; None without."""
    if "wall" not in request.GET:
        return None
    given_s = request.GET["wall"]
    seconds = SECONDS
    if given_s.isascii() and given_s.isdigit():
        seconds = min(max(int(given_s[:6]), SECONDS_MIN), SECONDS_MAX)
    namespace = request.GET.get("namespace", "")
    following = next_busy_table(person(request), table.slug, namespace)
    if following is None:
        return Wall(seconds, "", "")
    kept = {"wall": given_s} | ({"namespace": namespace} if namespace else {})
    address = f"{reverse('live', args=[following.slug])}?{urlencode(kept)}"
    return Wall(seconds, address, following.name)
