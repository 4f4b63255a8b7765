"""Access: who has which role, everywhere, in a namespace or on a table; giving and taking."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.accounts.role_names import GRANTED
from controlplane.accounts.roles import is_auditor
from controlplane.errors import ControlPlaneError
from controlplane.tables.grants import (
    Granter,
    GrantRequest,
    do_grant,
    do_revoke,
    everywhere_shown_to,
    grants_shown_to,
    may_grant_somewhere,
)
from controlplane.tables.queries import namespaces_of
from web.refusals import explained, page, person, refusal_of

_PLACES = ("user", "group", "namespace", "table")


class GrantForm(forms.Form):
    """One role, for one user or group, in one namespace or on one table."""

    role = forms.ChoiceField(choices=[(role, role) for role in GRANTED])
    user = forms.CharField(max_length=150, required=False, help_text="the name to sign in with")
    group = forms.CharField(max_length=150, required=False, help_text="of people, not of a role")
    namespace = forms.CharField(max_length=64, required=False, help_text="all tables in it")
    table = forms.CharField(max_length=64, required=False, help_text="the slug of one table")
    reason = forms.CharField(max_length=500, required=False, help_text="for the audit")

    def clean(self) -> dict[str, Any]:
        words = dict(super().clean() or {})
        for either, other in (("user", "group"), ("namespace", "table")):
            if bool(words.get(either)) == bool(words.get(other)):
                self.add_error(either, f"Name a {either} or a {other}, one of the two.")
        return words


@require_http_methods(["GET", "HEAD", "POST"])
@page
def access(request: HttpRequest) -> HttpResponse:
    """A POST gives a role."""
    user = person(request)
    may_give = may_grant_somewhere(user)
    if not (may_give or is_auditor(user)) or (request.method == "POST" and not may_give):
        raise PermissionDenied("this needs the role admin in a namespace")
    form = GrantForm(request.POST if request.method == "POST" else None)
    status, problem = 200, ""
    if request.method == "POST" and form.is_valid():
        refusal = _give(form, user)
        if refusal is None:
            messages.success(request, "The role was given. It holds from now on.")
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
        "may_give": may_give,
        "namespaces": namespaces_of(user) if may_give else [],
    }
    return render(request, "pages/access.html", context, status=status)


@require_POST
@page
def access_take(request: HttpRequest, grant_id: int) -> HttpResponse:
    """End one grant at once."""
    if not may_grant_somewhere(person(request)):
        raise PermissionDenied("this needs the role admin in a namespace")
    taken = do_revoke(grant_id, by=Granter.person(person(request)))
    where = taken.table or taken.namespace
    messages.success(request, f"{taken.user or taken.group} is no longer {taken.role} in {where}.")
    return redirect("access")


def _give(form: GrantForm, user: User) -> tuple[int, str] | None:
    """The status and the problem of what was refused; None once it was given."""
    words = form.cleaned_data
    wanted = GrantRequest(role=words["role"], **{key: words[key] for key in _PLACES})
    try:
        do_grant(wanted, by=Granter.person(user), reason=words["reason"])
    except Http404:
        form.add_error("table", "There is no table of this slug.")
        return 422, ""
    except ControlPlaneError as error:
        return refusal_of(error).status, explained(error)
    return None
