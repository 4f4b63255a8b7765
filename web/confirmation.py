"""The question before something is taken away: a page that lists what stops working.

Its button sends the same form to the same address again, so it works without JavaScript, and one
stray POST takes nothing away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.dependents import Dependents

CONFIRMED: Final = "confirmed"
_OWN: Final = ("csrfmiddlewaretoken", CONFIRMED, "reason")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked, after the caller checked that the sender may do it."""

    page: str
    """The page that the navigation marks."""
    title: str
    facts: Sequence[tuple[str, str]]
    """What stops working, and what stays: a heading and a sentence each."""
    button: str
    """Verb and object."""
    back: str
    """The address of Cancel."""
    takes_reason: bool = True
    """Whether the audit gets a reason."""


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the sender has seen the question."""
    return request.POST.get(CONFIRMED) == "yes"


def ask_first(request: HttpRequest, question: Question) -> HttpResponse:
    """Show the question; the fields of the form are sent again with the answer."""
    fields = [
        (name, value)
        for name, values in request.POST.lists()
        if name not in _OWN
        for value in values
    ]
    context = {
        "page": question.page,
        "question": question,
        "fields": fields,
        "reason": request.POST.get("reason", "")[:REASON_CHARS_MAX],
    }
    return render(request, "pages/confirm.html", context)


def build_dependent_facts(dependents: Dependents) -> list[tuple[str, str]]:
    """Return the lines of a question about the dependents of a role."""
    pending = (
        f"{dependents.pending:,} queued: rejected when they start, unless another role allows them"
    )
    owned = _join_names(dependents.schedules, dependents.schedule_count)
    schedules = f"{owned}: their next runs are rejected, unless another role allows them"
    return [
        ("Tables", _join_names(dependents.tables, dependents.table_count) or "none"),
        ("Operations", pending if dependents.pending else "none queued"),
        ("Schedules", schedules if dependents.schedule_count else "none with this owner"),
        ("Kept", "roles of other groups and scopes, and all data"),
    ]


def _join_names(names: Sequence[str], count: int) -> str:
    more = count - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
