"""Making a table by the page: a file may suggest its columns and keys, and everything can be
changed before it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from controlplane.errors import ControlPlaneError
from controlplane.operations.ask import Requester
from controlplane.operations.requesting import Given
from controlplane.operations.table_creation.actions import do_create_table
from controlplane.operations.table_creation.definition import Column, NewTable
from controlplane.operations.table_creation.suggesting import (
    KeySuggestion,
    TableSuggestion,
    suggest_table,
)
from controlplane.tables.access import Permission, may_everywhere
from controlplane.tables.queries import namespaces_of
from web.refusals import explained, page, person, refusal_of
from web.table_forms import CreateForm

PATH_CHARS_MAX = 700
_WORDS = ("name", "slug", "namespace", "location", "record_key", "partition_by", "ordering")


@require_http_methods(["GET", "HEAD", "POST"])
@page
def create(request: HttpRequest) -> HttpResponse:
    """A GET with `path` looks at a file and changes nothing; a POST makes the table."""
    if not may_everywhere(person(request), Permission.ADMINISTER):
        raise PermissionDenied(f"this needs the role {Permission.ADMINISTER.role}")
    context: dict[str, Any] = {
        "page": "tables",
        "path": request.GET.get("path", "").strip()[:PATH_CHARS_MAX],
        "missing": request.GET.get("missing", "NA")[:50],
        "namespaces": namespaces_of(person(request)),
    }
    status = 200
    if request.method == "POST":
        form = CreateForm(request.POST)
        status = 422
        if form.is_valid():
            try:
                table = _made(request, form)
            except ControlPlaneError as error:
                status, context["problem"] = refusal_of(error).status, form.refuse(error)
            else:
                messages.success(request, f"{table.name} is made, and empty: write into it now.")
                return redirect("overview", table.slug)
    else:
        suggestion = None
        if context["path"]:
            try:
                suggestion = suggest_table(context["path"], missing=context["missing"])
            except ControlPlaneError as error:
                status, context["path_problem"] = refusal_of(error).status, explained(error)
        context["suggestion"] = suggestion
        context["keys"] = _key_choices(request, suggestion)
        form = CreateForm(initial=_initial(request, suggestion))
    return render(request, "pages/table_create.html", {**context, "form": form}, status=status)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChoice:
    """A link that takes a key that was tried."""

    key: KeySuggestion
    query: str


def _key_choices(request: HttpRequest, suggestion: TableSuggestion | None) -> list[KeyChoice]:
    """Whatever else the address says stays."""
    kept = {word: str(text) for word, text in request.GET.items() if word != "record_key"}
    return [
        KeyChoice(key=key, query=urlencode({**kept, "record_key": ", ".join(key.columns)}))
        for key in (suggestion.keys if suggestion is not None else ())
    ]


def _made(request: HttpRequest, form: CreateForm) -> Any:
    words = form.cleaned_data
    new = NewTable(
        location=words["location"],
        slug=words["slug"],
        name=words["name"],
        namespace=words["namespace"],
        columns=[Column(*column) for column in words["columns"]],
        record_key=words["record_key"],
        partition_by=words["partition_by"],
        ordering=words["ordering"],
        table_type=words["table_type"],
        groups=words["groups"],
    )
    given = Given(idempotency_key=str(words["idempotency_key"]))
    return do_create_table(new, by=Requester.person(person(request)), given=given)


def _initial(request: HttpRequest, suggestion: TableSuggestion | None) -> dict[str, str]:
    """What the address says, and what the file suggests besides."""
    initial = {"namespace": "default"}
    initial |= {word: request.GET[word][:700] for word in _WORDS if word in request.GET}
    if suggestion is None:
        return initial
    initial["columns"] = "\n".join(f"{column.name} {column.type}" for column in suggestion.columns)
    unique = [key for key in suggestion.keys if key.is_unique]
    if unique and "record_key" not in initial:
        initial["record_key"] = ", ".join(unique[0].columns)
    return initial
