"""People: who may sign in, in which groups they are, what each may do where and why. Auditors see
it; admins everywhere change it.
"""

from __future__ import annotations

from collections.abc import Callable

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.accounts.access_levels import ROLES
from controlplane.accounts.roles import is_admin, is_auditor
from controlplane.errors import ControlPlaneError
from controlplane.operations.dependents import find_dependents
from controlplane.people.actions.users import (
    do_activate_user,
    do_create_user,
    do_deactivate_user,
    do_make_link,
    do_set_roles,
    get_link_hours,
    require_user_admin,
)
from controlplane.people.queries.tokens import list_tokens_by_owner
from controlplane.people.queries.users import (
    LISTED_MAX,
    count_users,
    get_user_detail,
    get_user_name,
    list_groups,
    list_users,
)
from controlplane.tables.grants import Granter
from web.confirmation import Question, ask_first, build_dependent_facts, is_confirmed
from web.refusals import explained, page, person, refusal_of

_ROLES = [(role, role) for role in ROLES]


class ReasonForm(forms.Form):
    """Why, stored in the audit log."""

    reason = forms.CharField(max_length=500, required=False, help_text="stored in the audit log")


class RolesForm(ReasonForm):
    """Those that hold everywhere."""

    roles = forms.MultipleChoiceField(
        choices=_ROLES, required=False, widget=forms.CheckboxSelectMultiple
    )


class PersonForm(RolesForm):
    """Somebody new."""

    name = forms.CharField(max_length=150, help_text="user name; cannot be changed")
    email = forms.CharField(max_length=254, required=False)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def people_page(request: HttpRequest) -> HttpResponse:
    """A POST makes a user."""
    keeps = _check(request)
    if request.method == "POST" and not keeps:
        raise PermissionDenied("this requires the admin role everywhere")
    form = PersonForm(request.POST if request.method == "POST" else None)
    status, problem = 200, ""
    if request.method == "POST" and form.is_valid():
        words = form.cleaned_data
        by = Granter.person(person(request))
        try:
            row = do_create_user(
                words["name"],
                by=by,
                email=words["email"],
                roles=words["roles"],
                reason=words["reason"],
            )
        except ControlPlaneError as error:
            status, problem = refusal_of(error).status, explained(error)
        else:
            messages.success(request, f"{row.name} created. Create a password link next.")
            return redirect("person", row.id)
    elif request.method == "POST":
        status = 422
    search, after = request.GET.get("q", "")[:150], request.GET.get("after", "")[:150]
    listed, count = list_users(search, after=after), count_users(search)
    context = {
        "page": "people",
        "form": form,
        "problem": problem,
        "people": listed,
        "groups": list_groups(),
        "search": search,
        "people_count": count,
        "next_after": listed[-1].name if len(listed) == LISTED_MAX else "",
        "keeps": keeps,
    }
    return render(request, "pages/people.html", context, status=status)


@require_http_methods(["GET", "HEAD"])
@page
def person_page(request: HttpRequest, user_key: int) -> HttpResponse:
    """One person."""
    return _shown(request, user_key)


@require_POST
@page
def person_roles(request: HttpRequest, user_key: int) -> HttpResponse:
    """The roles that hold everywhere."""
    form = RolesForm(request.POST)
    if not form.is_valid():
        return _shown(request, user_key, problem="Unknown role.", status=422)
    words = form.cleaned_data
    require_user_admin(Granter.person(person(request)))
    held = get_user_detail(get_user_name(user_key)).person
    if not is_confirmed(request) and (lost := sorted(set(held.roles) - set(words["roles"]))):
        question = Question(
            page="people",
            title=f"Revoke the role {', '.join(lost)} of {held.name}?",
            facts=[
                ("Remaining roles", ", ".join(words["roles"]) or "no global roles"),
                *build_dependent_facts(find_dependents(user=held.name)),
            ],
            button="Save roles",
            back=reverse("person", args=[user_key]),
        )
        return ask_first(request, question)
    return _changed(
        request,
        user_key,
        lambda name, by: do_set_roles(name, words["roles"], by=by, reason=words["reason"]),
        "Roles saved.",
    )


@require_POST
@page
def person_lock(request: HttpRequest, user_key: int) -> HttpResponse:
    """Lock out, at once, after a question."""
    require_user_admin(Granter.person(person(request)))
    if not is_confirmed(request):
        name = get_user_name(user_key)
        question = Question(
            page="people",
            title=f"Lock {name} out?",
            facts=[
                ("Ends", f"sessions and tokens ({len(list_tokens_by_owner(name)):,}), permanently"),
                *build_dependent_facts(find_dependents(user=name)),
            ],
            button=f"Lock {name} out",
            back=reverse("person", args=[user_key]),
        )
        return ask_first(request, question)
    reason = request.POST.get("reason", "")[:500]
    return _changed(
        request,
        user_key,
        lambda name, by: do_deactivate_user(name, by=by, reason=reason),
        "User deactivated.",
    )


@require_POST
@page
def person_unlock(request: HttpRequest, user_key: int) -> HttpResponse:
    """Let in again."""
    reason = request.POST.get("reason", "")[:500]
    return _changed(
        request,
        user_key,
        lambda name, by: do_activate_user(name, by=by, reason=reason),
        "User reactivated. Create a password link next.",
    )


@require_POST
@page
@never_cache
def person_link(request: HttpRequest, user_key: int) -> HttpResponse:
    """A link that sets the password. The answer is the only page that shows it."""
    _check(request)
    try:
        path = do_make_link(get_user_name(user_key), by=Granter.person(person(request)))
    except ControlPlaneError as error:
        refusal = refusal_of(error)
        return _shown(request, user_key, problem=explained(error), status=refusal.status)
    return _shown(request, user_key, link=f"{settings.SLUICE_PUBLIC_URL.rstrip('/')}{path}")


def _changed(
    request: HttpRequest,
    user_key: int,
    change: Callable[[str, Granter], object],
    success: str,
) -> HttpResponse:
    _check(request)
    try:
        change(get_user_name(user_key), Granter.person(person(request)))
    except ControlPlaneError as error:
        refusal = refusal_of(error)
        return _shown(request, user_key, problem=explained(error), status=refusal.status)
    messages.success(request, success)
    return redirect("person", user_key)


def _shown(
    request: HttpRequest, user_key: int, *, problem: str = "", link: str = "", status: int = 200
) -> HttpResponse:
    keeps = _check(request)
    name = get_user_name(user_key)
    detail = get_user_detail(name)
    context = {
        "page": "people",
        "detail": detail,
        "person": detail.person,
        "tokens": list_tokens_by_owner(name),
        "roles": _ROLES,
        "problem": problem,
        "link": link,
        "hours": get_link_hours(),
        "keeps": keeps,
    }
    return render(request, "pages/person.html", context, status=status)


def _check(request: HttpRequest) -> bool:
    """Whether who asks may change people. Raises PermissionDenied for whoever may not see them."""
    user = person(request)
    if not is_auditor(user):
        raise PermissionDenied("this requires the admin or auditor role everywhere")
    return is_admin(user)
