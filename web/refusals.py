"""Refusals: the errors of a change of state as HTTP answers that say what to do. `page` guards each
view with them, and lets only people through who are signed in.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import loader
from django.views.decorators.csrf import requires_csrf_token
from django.views.defaults import server_error

from controlplane.errors import (
    DATABASE_RETRY_AFTER_S,
    ControlPlaneError,
    InvalidRequest,
    KeyReused,
    NotAllowedNow,
    PlanVoid,
    QueueUnavailable,
    StorageUnavailable,
    TooLarge,
)
from controlplane.tables.access import Permission, access_table, begin_visit
from web.time_zones import times_for

View = Callable[..., HttpResponse]
"""Takes the request, then what the address names."""

_TITLES: dict[type[ControlPlaneError], tuple[int, str]] = {
    InvalidRequest: (400, "Bad request"),
    KeyReused: (422, "Form already submitted"),
    NotAllowedNow: (409, "Not possible now"),
    QueueUnavailable: (503, "Queue unavailable"),
    PlanVoid: (409, "The table changed after the plan was computed"),
    StorageUnavailable: (503, "Table storage unavailable"),
    TooLarge: (413, "File too large"),
}


class Refusal(NamedTuple):
    """An HTTP status, a title, and a sentence with its full stop."""

    status: int
    title: str
    text: str


def page(view: View) -> View:
    """A page for people who are signed in. Their roles are read once, however often one is asked
    for. A table that the address names and somebody may not see is not found here already.
    """

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        begin_visit(person(request))
        if "slug" in kwargs:
            access_table(person(request), str(kwargs["slug"]), Permission.VIEW)
        with times_for(request):
            try:
                return view(request, *args, **kwargs)
            except ControlPlaneError as error:
                return refused(request, error)

    return login_required(guarded)


def person(request: HttpRequest) -> User:
    """Who is signed in; `page` lets nobody else through."""
    user = request.user
    assert isinstance(user, User), user
    return user


def as_operation_id(text: str) -> UUID | None:
    """The id of an operation of ours; other engines and other hands write other things there."""
    try:
        return UUID(text)
    except ValueError:
        return None


def refused(request: HttpRequest, error: ControlPlaneError) -> HttpResponse:
    refusal = refusal_of(error)
    context: dict[str, Any] = {"title": refusal.title, "text": refusal.text}
    return render(request, "errors/refused.html", context, status=refusal.status)


def explained(error: ControlPlaneError) -> str:
    """The sentence of an error and the values that belong to it, for the page where it happened."""
    named = ", ".join(
        f"{name} {str(value)[:80]}" for name, value in error.values.items() if name != "blockers"
    )
    return refusal_of(error).text + (f" ({named})" if named else "")


def sentence_of(error: PermissionDenied) -> str:
    """What is missing, as a sentence with its full stop."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


@requires_csrf_token
def answer_error(request: HttpRequest) -> HttpResponse:
    """Answer an exception that nothing else answered. A database that is locked by another writer
    for too long, or does not answer, is 503.
    """
    if not isinstance(sys.exc_info()[1], OperationalError | InterfaceError):
        return server_error(request)
    headers = {"Retry-After": str(DATABASE_RETRY_AFTER_S)}
    return HttpResponse(loader.render_to_string("503.html"), status=503, headers=headers)


def refusal_of(error: ControlPlaneError) -> Refusal:
    """What a person may see of an error. An error that nobody named gets status 400."""
    status, title = _TITLES.get(type(error), (400, "Request rejected"))
    text = error.message[:1].upper() + error.message[1:]
    blockers = error.values.get("blockers")
    if isinstance(blockers, list):
        text += ": " + "; ".join(str(blocker) for blocker in blockers)
    return Refusal(status, title, text + ".")
