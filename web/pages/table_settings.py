"""What is registered of a table: its name, slug, namespace and place, and taking it off the
register; and registering one that is there already.
"""

from __future__ import annotations

import os
from itertools import groupby

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from controlplane.errors import ControlPlaneError
from controlplane.mirror.masking import do_mask_columns, masked_columns
from controlplane.node.table_settings import load_table_settings
from controlplane.operations.ask import Requester
from controlplane.operations.requesting import Given
from controlplane.operations.table_changes.actions import (
    TableChange,
    do_change_table,
    do_unregister_table,
)
from controlplane.operations.table_changes.hanging import table_change_plan
from controlplane.tables.access import Permission, access_table, may, may_everywhere
from controlplane.tables.actions import do_register_table
from controlplane.tables.grants import Granter
from controlplane.tables.queries import namespaces_of
from web.refusals import explained, page, person, refusal_of
from web.table_forms import EMPTIABLE, MaskForm, RegisterForm, SettingsForm, UnregisterForm


@require_http_methods(["GET", "HEAD", "POST"])
@page
def settings(request: HttpRequest, slug: str) -> HttpResponse:
    """A POST changes whatever differs from what is registered, or nothing."""
    permission = Permission.ADMINISTER if request.method == "POST" else Permission.VIEW
    table = access_table(person(request), slug, permission)
    registered = {
        "name": table.name,
        "slug": table.slug,
        "namespace": table.namespace,
        "location": table.location,
        "owner": table.owner,
        "tags": table.tags,
        "description": table.description,
    }
    form = SettingsForm(request.POST if request.method == "POST" else None, initial=registered)
    status, problem = 200, ""
    if request.method == "POST" and form.is_valid():
        words = form.cleaned_data
        given = Given(reason=words["reason"], idempotency_key=str(words["idempotency_key"]))
        change = TableChange(
            **{key: words[key] or registered[key] for key in registered if key not in EMPTIABLE},
            **{key: words[key] for key in EMPTIABLE if key in request.POST},
        )
        try:
            changed = do_change_table(
                table, change, by=Requester.person(person(request)), given=given
            )
        except ControlPlaneError as error:
            status, problem = refusal_of(error).status, form.refuse(error)
        else:
            messages.success(request, f"{changed.name} updated.")
            return redirect("settings", changed.slug)
    elif request.method == "POST":
        status = 422
    context = {
        "page": "settings",
        "table": table,
        "form": form,
        "problem": problem,
        "plan": table_change_plan(table),
        "masked": masked_columns(table),
        "namespaces": namespaces_of(person(request)),
        "may_change": may(person(request), Permission.ADMINISTER, table),
    }
    return render(request, "pages/table_settings.html", context, status=status)


@require_safe
@page
def effective(request: HttpRequest, slug: str) -> HttpResponse:
    """Show every option with the value that applies and its source."""
    table = access_table(person(request), slug, Permission.VIEW)
    rows = load_table_settings(table, os.environ)
    context = {
        "page": "settings",
        "table": table,
        "areas": [(area, list(of)) for area, of in groupby(rows, lambda row: row.area)],
        "changed": sum(row.source != "default" for row in rows),
        "total": len(rows),
    }
    return render(request, "pages/table_effective.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def masks(request: HttpRequest, slug: str) -> HttpResponse:
    """Which columns are masked; a POST masks these and no others."""
    is_posted = request.method == "POST"
    permission = Permission.ADMINISTER if is_posted else Permission.VIEW
    table = access_table(person(request), slug, permission)
    masked = masked_columns(table)
    form = MaskForm(
        request.POST if is_posted else None, initial={"columns": "\n".join(masked.columns)}
    )
    status = 422 if is_posted else 200
    if is_posted and form.is_valid():
        words = form.cleaned_data
        by = Granter.person(person(request))
        try:
            masked = do_mask_columns(table, words["columns"], by=by, reason=words["reason"])
        except ControlPlaneError as error:
            status = refusal_of(error).status
            form.add_error("columns", explained(error))
        else:
            messages.success(
                request, f"Masked columns of {table.name} saved: {len(masked.columns)}."
            )
            return redirect("settings", table.slug)
    context = {
        "page": "settings",
        "table": table,
        "form": form,
        "masked": masked,
        "may_change": may(person(request), Permission.ADMINISTER, table),
    }
    return render(request, "pages/table_masks.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def unregister(request: HttpRequest, slug: str) -> HttpResponse:
    """Show what goes and what stays; a POST with the name typed and a reason does it."""
    permission = Permission.ADMINISTER if request.method == "POST" else Permission.VIEW
    table = access_table(person(request), slug, permission)
    form = UnregisterForm(
        request.POST if request.method == "POST" else None,
        expected_names=(table.name, table.slug),
    )
    status, problem = 200, ""
    if request.method == "POST" and form.is_valid():
        words = form.cleaned_data
        given = Given(
            reason=words["reason"],
            typed_name=words["typed_name"],
            idempotency_key=str(words["idempotency_key"]),
        )
        try:
            done = do_unregister_table(table, by=Requester.person(person(request)), given=given)
        except ControlPlaneError as error:
            status, title, text = refusal_of(error)
            problem = f"{title}. {text}"
        else:
            messages.success(request, f"Unregistered {table.name}. Files kept: {done.location}")
            return redirect("tables")
    elif request.method == "POST":
        status = 422
    plan = table_change_plan(table)
    may_change = may(person(request), Permission.ADMINISTER, table)
    context = {
        "page": "settings",
        "table": table,
        "form": form,
        "problem": problem,
        "plan": plan,
        "may_change": may_change,
        "may_run": may_change and not plan.blockers,
    }
    return render(request, "pages/table_unregister.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def register(request: HttpRequest) -> HttpResponse:
    if not may_everywhere(person(request), Permission.ADMINISTER):
        raise PermissionDenied(f"this requires the {Permission.ADMINISTER.role} role")
    form = RegisterForm(
        request.POST if request.method == "POST" else None,
        initial={"namespace": request.GET.get("namespace", "default")[:64]},
    )
    status, problem = 200, ""
    if request.method == "POST" and form.is_valid():
        try:
            table = do_register_table(**form.cleaned_data, by=person(request))
        except ControlPlaneError as error:
            status, problem = refusal_of(error).status, form.refuse(error)
        else:
            messages.success(
                request,
                f"{table.name} registered. The mirror reads it in its next cycle.",
            )
            return redirect("overview", table.slug)
    elif request.method == "POST":
        status = 422
    context = {
        "page": "tables",
        "form": form,
        "problem": problem,
        "namespaces": namespaces_of(person(request)),
    }
    return render(request, "pages/table_register.html", context, status=status)
