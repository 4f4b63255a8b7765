"""Access: who has which role, everywhere, in a namespace or on a table, and who reads rows; giving
and taking.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.accounts.roles import is_auditor
from controlplane.errors import ControlPlaneError
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.dependents import find_dependents
from controlplane.operations.descriptions.access import GRANT, GRANT_ROWS
from controlplane.tables.grants import (
    Granter,
    GrantRequest,
    GrantRow,
    do_grant,
    do_revoke,
    everywhere_shown_to,
    grant_to_take,
    grants_shown_to,
    may_grant_somewhere,
)
from controlplane.tables.queries import namespaces_of
from controlplane.tables.row_grants import (
    RowGrantRequest,
    RowGrantRow,
    do_give_rows,
    do_take_rows,
    row_grant_to_take,
    row_grants_shown_to,
)
from web.confirmation import (
    Question,
    ask_first,
    build_dependent_facts,
    is_confirmed,
)
from web.refusals import explained, page, person, refusal_of
from web.request_forms import RequestForm

_RIGHTS = {choice.value: choice.label for choice in GRANT_ROWS["right"].choices}


class _HolderForm(RequestForm):
    """One user or group, and a place."""

    def clean(self) -> dict[str, Any]:
        words = dict(super().clean() or {})
        if bool(words.get("user")) == bool(words.get("group")):
            self.add_error("user", "Enter either a user or a group.")
        return words


class GrantForm(_HolderForm):
    """One role, for one user or group, in one namespace or on one table."""

    description = GRANT

    def clean(self) -> dict[str, Any]:
        words = super().clean()
        if bool(words.get("namespace")) == bool(words.get("table")):
            self.add_error("namespace", "Enter either a namespace or a table.")
        return words


class RowGrantForm(_HolderForm):
    """The right to read rows, for one user or group, at one place or everywhere."""

    description = GRANT_ROWS

    def clean(self) -> dict[str, Any]:
        words = super().clean()
        if sum(bool(words.get(name)) for name in ("namespace", "table", "everywhere")) != 1:
            self.add_error("namespace", "Enter a namespace or a table, or choose all tables.")
        return words


@require_http_methods(["GET", "HEAD", "POST"])
@page
def access(request: HttpRequest) -> HttpResponse:
    """A POST gives a role."""
    user = person(request)
    may_give = may_grant_somewhere(user)
    if not (may_give or is_auditor(user)) or (request.method == "POST" and not may_give):
        raise PermissionDenied("this requires the admin role in a namespace")
    form = GrantForm(request.POST if request.method == "POST" else None)
    status, problem = 200, ""
    if request.method == "POST" and form.is_valid():
        refusal = _give(form, user)
        if refusal is None:
            messages.success(request, "Role granted.")
            return redirect("access")
        status, problem = refusal
    elif request.method == "POST":
        status = 422
    context = {
        "page": "access",
        "form": form,
        "problem": problem,
        "everywhere": everywhere_shown_to(user),
        "grants": grants_shown_to(user),
        "row_grants": [(row, _RIGHTS[row.right]) for row in row_grants_shown_to(user)],
        "may_give": may_give,
        "namespaces": namespaces_of(user) if may_give else [],
    }
    return render(request, "pages/access.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def access_rows(request: HttpRequest) -> HttpResponse:
    """A POST lets somebody read rows."""
    user = person(request)
    if not may_grant_somewhere(user):
        raise PermissionDenied("this requires the admin role in a namespace")
    is_posted = request.method == "POST"
    form = RowGrantForm(request.POST if is_posted else None)
    status, problem = 422 if is_posted else 200, ""
    if is_posted and form.is_valid():
        refusal = _give_rows(form, user)
        if refusal is None:
            messages.success(request, "Row access granted.")
            return redirect("access")
        status, problem = refusal
    context = {
        "page": "access",
        "form": form,
        "problem": problem,
        "namespaces": namespaces_of(user),
    }
    return render(request, "pages/access_rows.html", context, status=status)


@require_POST
@page
def access_rows_take(request: HttpRequest, grant_id: int) -> HttpResponse:
    """End one right to read rows at once, after a question."""
    if not may_grant_somewhere(person(request)):
        raise PermissionDenied("this requires the admin role in a namespace")
    by = Granter.person(person(request))
    if not is_confirmed(request):
        row = row_grant_to_take(grant_id, by=by)
        return ask_first(request, _question(row, _RIGHTS[row.right]))
    taken = do_take_rows(grant_id, by=by, reason=_reason(request))
    where = "" if taken.place == "everywhere" else "in "
    holder = taken.user or taken.group
    messages.success(request, f"{holder} no longer has row access {where}{taken.place}.")
    return redirect("access")


@require_POST
@page
def access_take(request: HttpRequest, grant_id: int) -> HttpResponse:
    """End one grant at once, after a question."""
    if not may_grant_somewhere(person(request)):
        raise PermissionDenied("this requires the admin role in a namespace")
    by = Granter.person(person(request))
    if not is_confirmed(request):
        row = grant_to_take(grant_id, by=by)
        return ask_first(request, _question(row, f"the role {row.role}"))
    taken = do_revoke(grant_id, by=by, reason=_reason(request))
    where = taken.table or taken.namespace
    messages.success(request, f"{taken.user or taken.group} is no longer {taken.role} in {where}.")
    return redirect("access")


def _question(row: GrantRow | RowGrantRow, right: str) -> Question:
    """What goes with a role, or with the right to read rows."""
    holder = row.user or f"the group {row.group}"
    dependents = find_dependents(
        user=row.user, group=row.group, namespace=row.namespace, table=row.table
    )
    return Question(
        page="access",
        title=f"Take “{right}” from {holder}?",
        facts=[("Who", holder), *build_dependent_facts(dependents)],
        button=f"Revoke from {holder}",
        back=reverse("access"),
    )


def _reason(request: HttpRequest) -> str:
    return request.POST.get("reason", "")[:REASON_CHARS_MAX]


def _give_rows(form: RowGrantForm, user: User) -> tuple[int, str] | None:
    """As `_give`."""
    words = dict(form.cleaned_data)
    reason = words.pop("reason")
    try:
        do_give_rows(RowGrantRequest(**words), by=Granter.person(user), reason=reason)
    except Http404:
        form.add_error("table", "No table has this slug.")
        return 422, ""
    except ControlPlaneError as error:
        return refusal_of(error).status, explained(error)
    return None


def _give(form: GrantForm, user: User) -> tuple[int, str] | None:
    """The status and the problem of what was refused; None once it was given."""
    words = dict(form.cleaned_data)
    reason = words.pop("reason")
    try:
        do_grant(GrantRequest(**words), by=Granter.person(user), reason=reason)
    except Http404:
        form.add_error("table", "No table has this slug.")
        return 422, ""
    except ControlPlaneError as error:
        return refusal_of(error).status, explained(error)
    return None
