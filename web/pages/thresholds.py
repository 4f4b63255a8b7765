"""Thresholds of health checks: everywhere, in a namespace, on a table."""

from __future__ import annotations

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane.errors import ControlPlaneError
from controlplane.monitoring.thresholds import do_set_threshold, list_thresholds
from controlplane.tables.access import Permission, access_table, may_see_some
from controlplane.tables.queries import namespaces_of
from controlplane.tables.scopes import Scope, may_administer, visible_scope
from web.refusals import page, person, refusal_of


class ThresholdForm(forms.Form):
    """One amount; an empty one takes away what was set here."""

    name = forms.CharField(max_length=64)
    amount = forms.FloatField(required=False)
    reason = forms.CharField(max_length=500, required=False)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def thresholds(request: HttpRequest) -> HttpResponse:
    """Everywhere, or in the namespace of the query."""
    if not may_see_some(person(request)):
        raise PermissionDenied("this requires the viewer role")
    namespace = request.GET.get("namespace", "")
    scope = visible_scope(person(request), namespace)
    if request.method == "POST" and not may_administer(person(request), scope):
        raise PermissionDenied("this requires the admin role")
    back = reverse("thresholds") + (f"?namespace={namespace}" if namespace else "")
    return _answered(request, scope, back)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def table_thresholds(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    if request.method == "POST":
        access_table(person(request), slug, Permission.ADMINISTER)
    return _answered(request, Scope(table=table), reverse("table-thresholds", args=[slug]))


def _answered(request: HttpRequest, scope: Scope, back: str) -> HttpResponse:
    user = person(request)
    if request.method == "POST":
        _set(request, scope)
        return redirect(back)
    context = {
        "page": "alerts",
        "scope": scope,
        "thresholds": list_thresholds(scope),
        "may_set": may_administer(user, scope),
        "namespaces": namespaces_of(user),
    }
    return render(request, "pages/thresholds.html", context)


def _set(request: HttpRequest, scope: Scope) -> None:
    form = ThresholdForm(request.POST)
    if not form.is_valid():
        messages.error(request, "A threshold must be a number.")
        return
    words = form.cleaned_data
    try:
        row = do_set_threshold(
            words["name"],
            words["amount"],
            scope=scope,
            by=person(request),
            reason=words["reason"],
        )
    except ControlPlaneError as error:
        messages.error(request, refusal_of(error).text)
    else:
        messages.success(request, f"{row.title}: set to {row.amount:g} {row.unit}.")
