"""Which operations are wanted: the filters of the list of all tables, for pages and API alike."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet

from controlplane.operations.models import Operation
from controlplane.operations.query_sources import shown_whole
from controlplane.operations.states import FINAL, OPEN, OperationState
from controlplane.tables.access import Caller

NOBODY = "schedule"
"""As `who`: what no person asked for."""
TEXT_CHARS_MAX = 200
SEARCHED_MAX = 5_000
"""So many of the newest operations whose messages hold the text are found by it."""
ENDED = "ended"
STATE_GROUPS = {"open": OPEN, ENDED: FINAL}
"""Names for several states at once."""
BROKEN = frozenset({OperationState.FAILED, OperationState.LOST, OperationState.UNKNOWN})
UNANSWERED = "unanswered"
"""As a state: it broke, and nobody asked for it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFilter:
    """All that is given must hold; None, or an empty text, leaves it open."""

    table: str = ""
    """Its slug."""
    kinds: frozenset[str] | None = None
    """Names of kinds, and of services."""
    states: frozenset[str] | None = None
    """Names of states, and of `STATE_GROUPS`."""
    who: str = ""
    """A part of the requester's name, or `NOBODY`."""
    since: datetime | None = None
    until: datetime | None = None
    """When it was asked for: from `since` on, before `until`."""
    text: str = ""
    """A part of its reason, or of a message that is shown whole, whatever the case."""

    @property
    def is_any(self) -> bool:
        return self == ANY


ANY = OperationFilter()


def filtered(
    operations: QuerySet[Operation], wanted: OperationFilter, user: Caller | None
) -> QuerySet[Operation]:
    """Return the operations that meet the filter. Messages are searched only as far as `user` is
    shown them whole: a search must not guess what is masked.
    """
    conditions = Q()
    if wanted.table:
        conditions &= Q(table__slug=wanted.table)
    if wanted.kinds is not None:
        conditions &= Q(kind__in=wanted.kinds) | Q(service__in=wanted.kinds)
    if wanted.states is not None:
        conditions &= _in_states(wanted.states)
    if wanted.who == NOBODY:
        conditions &= Q(requested_by=None)
    elif wanted.who:
        conditions &= Q(requested_by__username__icontains=wanted.who)
    if wanted.since is not None:
        conditions &= Q(requested_at__gte=wanted.since)
    if wanted.until is not None:
        conditions &= Q(requested_at__lt=wanted.until)
    if wanted.text:
        in_message = Q(message__icontains=wanted.text)
        if user is not None:
            met = operations.filter(conditions & in_message).order_by("-requested_at")
            in_message = Q(pk__in=shown_whole(user, met[:SEARCHED_MAX]))
        conditions &= Q(reason__icontains=wanted.text) | in_message
    return operations.filter(conditions)


def unanswered() -> Q:
    """Operations that broke, and that nobody asked for again."""
    repeats = Operation.objects.filter(again_of=OuterRef("pk"))
    return Q(state__in=sorted(BROKEN)) & ~Q(Exists(repeats))


def _in_states(names: frozenset[str]) -> Q:
    in_states = Q(state__in=_states(names - {UNANSWERED}))
    return in_states | unanswered() if UNANSWERED in names else in_states


def _states(names: frozenset[str]) -> list[str]:
    grouped = {str(state) for name in names for state in STATE_GROUPS.get(name, ())}
    return sorted(grouped | (names - STATE_GROUPS.keys()))
