"""Tokens: what programs sign in with. Everybody sees and makes his own; auditors and admins see
and revoke those of all people.
"""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.accounts.access_levels import ADMINISTER, OPERATE, READ
from controlplane.accounts.roles import is_auditor
from controlplane.errors import ControlPlaneError
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.people.actions.tokens import (
    NAME_CHARS_MAX,
    TokenRequest,
    do_create_token,
    do_revoke_token,
    find_token_to_revoke,
)
from controlplane.people.queries.tokens import TokenRow, list_visible_tokens
from controlplane.tables.access import may_see_some
from controlplane.tables.grants import Granter
from web.confirmation import Question, ask_first, is_confirmed
from web.refusals import explained, page, person, refusal_of
from web.time_zones import shown_zone

_SCOPES = [
    (READ, "read: read-only"),
    (OPERATE, "operate: also write and run table services"),
    (ADMINISTER, "administer: all of your roles"),
]


class TokenForm(forms.Form):
    """What a new token is for, how much it may, where, and until when."""

    name = forms.CharField(
        max_length=NAME_CHARS_MAX,
        help_text="purpose of the token",
        error_messages={"required": "Enter a name."},
    )
    scope = forms.ChoiceField(choices=_SCOPES, initial=READ)
    namespaces = forms.CharField(
        max_length=3_300, required=False, help_text="separated by spaces; empty: all"
    )
    tables = forms.CharField(
        max_length=4_100, required=False, help_text="slugs separated by spaces; empty: all"
    )
    days = forms.IntegerField(min_value=1, initial=settings.SLUICE_TOKEN_DAYS)

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed on as they came
        days_max = settings.SLUICE_TOKEN_DAYS_MAX
        self.fields["days"].help_text = f"expires automatically; at most {days_max}"

    def wanted(self) -> TokenRequest:
        words = self.cleaned_data
        return TokenRequest(
            days=words["days"],
            name=words["name"],
            scope=words["scope"],
            namespaces=tuple(words["namespaces"].split()),
            tables=tuple(words["tables"].split()),
        )


@require_http_methods(["GET", "HEAD", "POST"])
@page
@never_cache
@sensitive_variables("secret")
def tokens(request: HttpRequest) -> HttpResponse:
    """A POST makes a token. Its answer is the only page that shows it, and no cache keeps that."""
    user = person(request)
    if not may_see_some(user):
        raise PermissionDenied("you have no role, so a token would have no access")
    form = TokenForm(request.POST if request.method == "POST" else None)
    status, problem, secret = 200, "", ""
    if request.method == "POST" and form.is_valid():
        status, problem, secret = _make(form, user)
    elif request.method == "POST":
        status = 422
    context = {
        "page": "tokens",
        "form": TokenForm() if secret else form,
        "problem": problem,
        "secret": secret,
        "tokens": list_visible_tokens(user),
        "sees_all": is_auditor(user),
    }
    return render(request, "pages/tokens.html", context, status=status)


@require_POST
@page
def token_revoke(request: HttpRequest, token_key: str) -> HttpResponse:
    """End one at once, after a question."""
    by = Granter.person(person(request))
    if not is_confirmed(request):
        return ask_first(request, _question(find_token_to_revoke(token_key, by=by)))
    reason = request.POST.get("reason", "")[:REASON_CHARS_MAX]
    ended = do_revoke_token(token_key, by=by, reason=reason)
    messages.success(request, f"Token {ended.id} of {ended.user} revoked.")
    return redirect("tokens")


def _question(row: TokenRow) -> Question:
    at = row.last_used_at
    last = f"{at.astimezone(shown_zone()):%Y-%m-%d %H:%M %Z}" if at else "never"
    places = [*row.namespaces, *row.tables]
    return Question(
        page="tokens",
        title=f"Revoke the token {row.id} of {row.user}?",
        facts=[
            ("Name", row.name or "unnamed"),
            ("Last used", last),
            ("Access", f"{row.scope}, {', '.join(places) if places else 'everywhere'}"),
            ("Stops", "programs that use it, from their next request"),
        ],
        button="Revoke token",
        back=reverse("tokens"),
    )


@sensitive_variables("secret")
def _make(form: TokenForm, user: User) -> tuple[int, str, str]:
    """The status, the problem of what was refused, and the new token."""
    try:
        _, secret = do_create_token(user, form.wanted(), by=user.get_username())
    except Http404:
        form.add_error("tables", "Unknown table slug.")
        return 422, "", ""
    except ControlPlaneError as error:
        return refusal_of(error).status, explained(error), ""
    return 200, "", secret
