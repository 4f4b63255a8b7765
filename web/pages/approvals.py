"""What awaits the approval of a second person: the list, one request with its plan as it is now,
and the rules that say what needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from controlplane.errors import ControlPlaneError
from controlplane.operations.approvals.deciding import (
    Decider,
    awaited,
    check_decider,
    do_approve,
    do_decline,
)
from controlplane.operations.approvals.queries import (
    ApprovalDetail,
    approval_detail,
    approval_rows,
)
from controlplane.operations.approvals.rules import do_set_rule, rule_rows
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.queries import operation_detail
from controlplane.tables.access import Permission, access_table, may_see_some
from controlplane.tables.queries import namespaces_of
from controlplane.tables.scopes import Scope, may_administer, visible_scope
from web.operation_plan import PlannedEffect, describe_plan
from web.refusals import page, person, refusal_of

LINES_SHOWN = 500
_NO_REASON = "Enter a reason (stored in the audit log)."


class VerdictForm(forms.Form):
    """Approved of or declined, and why."""

    verdict = forms.ChoiceField(choices=[("approve", "Approve"), ("decline", "Decline")])
    plan_hash = forms.CharField(max_length=64, required=False)
    reason = forms.CharField(
        max_length=REASON_CHARS_MAX, widget=forms.Textarea, error_messages={"required": _NO_REASON}
    )


class RuleForm(forms.Form):
    """Whether one action needs approval here, and why."""

    action = forms.CharField(max_length=32)
    needs_approval = forms.TypedChoiceField(
        choices=[("yes", "yes"), ("no", "no")], coerce=lambda text: text == "yes"
    )
    reason = forms.CharField(max_length=REASON_CHARS_MAX)


@dataclass(frozen=True, slots=True)
class PlannedLine:
    """One thing that the plan names: a file, a file group, an instant."""

    effect: str
    what: str
    bytes: int
    detail: str


@require_safe
@page
def approvals(request: HttpRequest) -> HttpResponse:
    _refuse_who_sees_nothing(request)
    by = Decider.person(person(request))
    context = {
        "page": "approvals",
        "pending": approval_rows(by, is_pending=True),
        "decided": approval_rows(by, is_pending=False),
    }
    return render(request, "pages/approvals.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def approval(request: HttpRequest, approval_id: UUID) -> HttpResponse:
    """Show what would be done; a POST approves of it or declines it."""
    _refuse_who_sees_nothing(request)
    by = Decider.person(person(request))
    operation = awaited(approval_id, by).operation
    if request.method == "POST":
        check_decider(operation, by)
        form = VerdictForm(request.POST)
        if not form.is_valid():
            return _shown(request, approval_id, by, form, "", 422)
        try:
            _decide(approval_id, by, form.cleaned_data)
        except ControlPlaneError as error:
            refusal = refusal_of(error)
            return _shown(request, approval_id, by, form, refusal.text, refusal.status)
        return redirect("operation", operation.table.slug, approval_id)
    return _shown(request, approval_id, by, VerdictForm(), "", 200)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def approval_rules(request: HttpRequest) -> HttpResponse:
    """Everywhere, or in the namespace of the query."""
    _refuse_who_sees_nothing(request)
    namespace = request.GET.get("namespace", "")
    scope = visible_scope(person(request), namespace)
    if request.method == "POST" and not may_administer(person(request), scope):
        raise PermissionDenied("this requires the admin role")
    back = reverse("approval-rules") + (f"?namespace={namespace}" if namespace else "")
    return _rules(request, scope, back)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def table_approval_rules(request: HttpRequest, slug: str) -> HttpResponse:
    permission = Permission.ADMINISTER if request.method == "POST" else Permission.VIEW
    table = access_table(person(request), slug, permission)
    return _rules(request, Scope(table=table), reverse("table-approval-rules", args=[slug]))


def _refuse_who_sees_nothing(request: HttpRequest) -> None:
    if not may_see_some(person(request)):
        raise PermissionDenied("this requires the viewer role")


def _decide(approval_id: UUID, by: Decider, words: Mapping[str, str]) -> None:
    if words["verdict"] == "approve":
        do_approve(approval_id, by=by, plan_hash=words["plan_hash"], reason=words["reason"])
    else:
        do_decline(approval_id, by=by, reason=words["reason"])


def _shown(
    request: HttpRequest,
    approval_id: UUID,
    by: Decider,
    form: VerdictForm,
    problem: str,
    status: int,
) -> HttpResponse:
    detail = approval_detail(approval_id, by)
    lines = _lines(detail.plan)
    context = {
        "page": "approvals",
        "approval": detail,
        "row": detail.row,
        "lines": lines[:LINES_SHOWN],
        "count": detail.plan.get("item_count", detail.plan.get("file_count", len(lines))),
        "effect": _describe_effect(request, detail),
        "form": form,
        "problem": problem,
    }
    return render(request, "pages/approval.html", context, status=status)


def _describe_effect(request: HttpRequest, detail: ApprovalDetail) -> PlannedEffect | None:
    """Return condition or keys, by the reader's rights, and counts of the current plan."""
    operation = operation_detail(detail.row.operation, person(request))
    if operation is None or not detail.plan:
        return None
    return describe_plan(operation, detail.plan)


def _lines(plan: Mapping[str, Any]) -> list[PlannedLine]:
    """Items of a service's plan, or files of a rollback's."""
    files = [
        PlannedLine("delete", file["path"], file["bytes"], "") for file in plan.get("files", [])
    ]
    return files or [
        PlannedLine(planned["effect"], planned["what"], planned["bytes"], planned["detail"])
        for planned in plan.get("items", [])
    ]


def _rules(request: HttpRequest, scope: Scope, back: str) -> HttpResponse:
    if request.method == "POST":
        _set(request, scope)
        return redirect(back)
    context = {
        "page": "approvals",
        "scope": scope,
        "rules": rule_rows(scope),
        "may_set": may_administer(person(request), scope),
        "namespaces": namespaces_of(person(request)),
    }
    return render(request, "pages/approval_rules.html", context)


def _set(request: HttpRequest, scope: Scope) -> None:
    form = RuleForm(request.POST)
    if not form.is_valid():
        messages.error(request, _NO_REASON)
        return
    words = form.cleaned_data
    try:
        row = do_set_rule(
            words["action"],
            words["needs_approval"],
            scope=scope,
            by=person(request),
            reason=words["reason"],
        )
    except ControlPlaneError as error:
        messages.error(request, refusal_of(error).text)
    else:
        verb = "needs" if row.needs_approval else "needs no"
        messages.success(request, f"{row.title}: {verb} approval here.")
