"""One group of people: its members, and the roles that it gives them."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.accounts.roles import is_admin, is_auditor
from controlplane.errors import ControlPlaneError
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.dependents import find_dependents
from controlplane.people.actions.groups import (
    do_add_member,
    do_create_group,
    do_delete_group,
    do_remove_member,
)
from controlplane.people.actions.users import require_user_admin
from controlplane.people.queries.users import PeopleGroup, get_group_row
from controlplane.tables.grants import Granter
from web.confirmation import (
    Question,
    ask_first,
    build_dependent_facts,
    is_confirmed,
)
from web.refusals import explained, page, person, refusal_of


@require_POST
@page
def group_create(request: HttpRequest) -> HttpResponse:
    """An empty group."""
    row = do_create_group(request.POST.get("name", ""), by=Granter.person(person(request)))
    messages.success(request, f"Group {row.name} created. Add members and grant roles.")
    return redirect("group", row.id)


@require_http_methods(["GET", "HEAD"])
@page
def group(request: HttpRequest, group_key: int) -> HttpResponse:
    """Its members and its roles."""
    return _shown(request, group_key)


@require_POST
@page
def group_add(request: HttpRequest, group_key: int) -> HttpResponse:
    """A member more."""
    return _changed(request, group_key, do_add_member)


@require_POST
@page
def group_remove(request: HttpRequest, group_key: int) -> HttpResponse:
    """A member less, after a question."""
    if not is_confirmed(request):
        row, name = _to_change(request, group_key), request.POST.get("user", "").strip()[:150]
        title, button = f"Remove {name} from the group {row.name}?", f"Take {name} out"
        question = Question(
            page="people",
            title=title,
            facts=[("Loses", _rights(row)), *build_dependent_facts(find_dependents(user=name))],
            button=button,
            back=reverse("group", args=[group_key]),
        )
        return ask_first(request, question)
    return _changed(request, group_key, do_remove_member)


@require_POST
@page
def group_delete(request: HttpRequest, group_key: int) -> HttpResponse:
    """The group and its roles, after a question."""
    if not is_confirmed(request):
        group = _to_change(request, group_key)
        question = Question(
            page="people",
            title=f"Delete the group {group.name}?",
            facts=[
                ("Members", ", ".join(group.members) or "none"),
                ("Members lose", _rights(group)),
                *build_dependent_facts(find_dependents(group=group.name)),
            ],
            button="Delete group",
            back=reverse("group", args=[group_key]),
        )
        return ask_first(request, question)
    reason = request.POST.get("reason", "")[:REASON_CHARS_MAX]
    row = do_delete_group(group_key, by=Granter.person(person(request)), reason=reason)
    messages.success(request, f"Group {row.name} deleted.")
    return redirect("people")


def _changed(
    request: HttpRequest, group_key: int, change: Callable[..., PeopleGroup]
) -> HttpResponse:
    name = request.POST.get("user", "").strip()[:150]
    try:
        reason = request.POST.get("reason", "")[:REASON_CHARS_MAX]
        change(group_key, name, by=Granter.person(person(request)), reason=reason)
    except ControlPlaneError as error:
        return _shown(request, group_key, explained(error), refusal_of(error).status)
    messages.success(request, "Group updated.")
    return redirect("group", group_key)


def _to_change(request: HttpRequest, group_key: int) -> PeopleGroup:
    require_user_admin(Granter.person(person(request)))
    return get_group_row(group_key)


def _rights(row: PeopleGroup) -> str:
    return ", ".join(f"{right.right} {right.place}" for right in row.rights) or "nothing"


def _shown(
    request: HttpRequest, group_key: int, problem: str = "", status: int = 200
) -> HttpResponse:
    user = person(request)
    if not is_auditor(user):
        raise PermissionDenied("this requires the admin or auditor role everywhere")
    context = {
        "page": "people",
        "group": get_group_row(group_key),
        "problem": problem,
        "keeps": is_admin(user),
    }
    return render(request, "pages/group.html", context, status=status)
