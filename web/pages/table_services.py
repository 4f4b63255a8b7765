"""Table services: what each has left to do, what is planned, what ran; and the way to run one,
which is plan, confirm, run, verify. The plan is the only page here that looks at storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from controlplane.errors import ControlPlaneError, InvalidRequest, PlanVoid
from controlplane.operations.actions import (
    ServiceKind,
    ServicePlanView,
    check_row_choice,
    do_request_service,
    permission_of,
    permission_to_plan,
    plan_service,
    service_kinds,
)
from controlplane.operations.descriptions.services import find_missing, get_service, read_parameters
from controlplane.operations.request_places import check_named_places
from controlplane.tables.access import Permission, access_table, may
from web.forms import ServiceForm
from web.plans import deletion_treemap, item_groups
from web.refusals import page, person, refusal_of
from web.rollback_flow import approver_wanted
from web.table_service_board import service_board

if TYPE_CHECKING:
    from controlplane.tables.models import Table


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def services(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {
        "page": "services",
        "table": table,
        **service_board(table, person(request), request.GET),
    }
    return render(request, "pages/services.html", context)


@require_safe
@page
def services_part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    """One fragment, fresh."""
    table = access_table(person(request), slug, Permission.VIEW)
    if part not in ("cards", "plans", "history"):
        raise Http404(f"part {part} not found")
    context = {"table": table, **service_board(table, person(request), request.GET)}
    return render(request, f"fragments/service_{part}.html", context)


@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_http_methods(["GET", "HEAD", "POST"])
@page
def service(request: HttpRequest, slug: str, service: str) -> HttpResponse:
    """Choose, look at the plan; a POST asks for exactly that plan."""
    kind = _kind(service)
    parameters = read_parameters(service, _texts(request))
    is_posted = request.method == "POST"
    permission = permission_of(service) if is_posted else permission_to_plan(parameters)
    table = access_table(person(request), slug, permission)
    if is_posted:
        return _confirm(request, table, kind)
    return _show(_Shown(request, table, kind, parameters))


def _texts(request: HttpRequest) -> dict[str, str]:
    """Of the address. What is there several times, such as boxes that were ticked, is a list."""
    return {name: ",".join(texts) for name, texts in request.GET.lists()}


@dataclass(slots=True)
class _Shown:
    """One look at the plan page."""

    request: HttpRequest
    table: Table
    kind: ServiceKind
    parameters: dict[str, str]
    form: ServiceForm | None = None
    problem: ControlPlaneError | None = None
    is_new_plan: bool = False
    status: int = 200


def _confirm(request: HttpRequest, table: Table, kind: ServiceKind) -> HttpResponse:
    form = ServiceForm(
        request.POST,
        expected_names=(table.name, table.slug),
        is_destructive=kind.is_destructive,
    )
    shown = _Shown(request, table, kind, read_parameters(kind.name, request.POST), form=form)
    if not form.is_valid():
        shown.status = 422
        return _show(shown)
    try:
        operation = do_request_service(
            table,
            kind.name,
            shown.parameters,
            form.cleaned_data["plan_hash"],
            form.cleaned_data["reason"],
            form.cleaned_data["typed_name"],
            person(request),
            idempotency_key=str(form.cleaned_data["idempotency_key"]),
        )
    except ControlPlaneError as error:
        # What was typed stays; after PlanVoid the hash and the key are those of the new plan.
        shown.problem, shown.is_new_plan = error, isinstance(error, PlanVoid)
        return _show(shown)
    return redirect("operation", table.slug, operation.pk)


def _show(shown: _Shown) -> HttpResponse:
    table, kind, form = shown.table, shown.kind, shown.form
    absent = find_missing(kind.name, shown.parameters)
    plan = None if absent else _plan(shown)
    if plan and (form is None or shown.is_new_plan):
        typed = form.data if form is not None else {}
        form = ServiceForm.of(plan)
        form.initial.update({key: typed[key] for key in ("typed_name", "reason") if key in typed})
    may_ask = may(person(shown.request), permission_of(kind.name), table)
    context: dict[str, Any] = {
        "page": _nav(kind.name),
        "table": table,
        "kind": kind,
        "words": get_service(kind.name),
        "parameters": shown.parameters,
        "choices": [
            (one, shown.parameters.get(one.name, "")) for one in get_service(kind.name).fields
        ],
        "plan": plan,
        "form": form,
        "may_ask": may_ask,
        "approver": approver_wanted(table, kind.name) if kind.is_destructive else None,
        "may_run": bool(plan and plan.is_executable) and may_ask,
    }
    if plan:
        groups = item_groups(plan, shown.request.GET)
        context |= {
            "groups": groups,
            "figure_groups": [] if plan.figures else groups,
            "treemap": deletion_treemap(plan),
        }
    status = shown.status
    if shown.problem is not None:
        status, title, text = refusal_of(shown.problem)
        context["problem"] = {"title": f"{title}.", "text": text}
    return render(shown.request, "pages/service.html", context, status=status)


def _plan(shown: _Shown) -> ServicePlanView | None:
    """The current plan; what speaks against making one becomes the page's problem."""
    try:
        # Whoever may see the table may see what would be done to it.
        check_named_places(person(shown.request), {"parameters": shown.parameters})
        check_row_choice(person(shown.request), shown.table, shown.kind.name, shown.parameters)
        return plan_service(
            shown.table, shown.kind.name, shown.parameters, None, reader=person(shown.request)
        )
    except ControlPlaneError as error:
        is_first_look = isinstance(error, InvalidRequest) and not shown.parameters
        if not (is_first_look and get_service(shown.kind.name).fields):
            shown.problem = shown.problem or error
        return None


def _kind(service: str) -> ServiceKind:
    kind = next((one for one in service_kinds() if one.name == service), None)
    if kind is None:
        raise Http404(f"service {service} not found")
    return kind


def _nav(service: str) -> str:
    if service == "rollback_several":
        return "rollback"
    return "savepoints" if service in ("savepoint", "delete_savepoint", "restore") else "services"
