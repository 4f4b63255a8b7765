"""Making a table by the page: a file, or a statement over other tables, may suggest its columns and
keys, and everything can be changed before it is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from controlplane.errors import ControlPlaneError
from controlplane.operations.ask import Requester
from controlplane.operations.descriptions.write import STATEMENT_CHARS_MAX
from controlplane.operations.requesting import Given
from controlplane.operations.table_creation.actions import do_create_table
from controlplane.operations.table_creation.definition import NewTable
from controlplane.operations.table_creation.suggesting import (
    TableSuggestion,
    suggest_from_statement,
    suggest_table,
)
from controlplane.tables.access import Permission, may_everywhere
from controlplane.tables.queries import namespaces_of
from controlplane.uploads.queries import name_source
from web.option_lines import options_of
from web.refusals import explained, page, person, refusal_of, sentence_of
from web.table_forms import CreateForm
from web.upload_form import build_upload_form
from web.write_forms import ADDRESS_CHARS_MAX

PATH_CHARS_MAX = 700
LOAD_CHARS_MAX = 2_000
_WORDS = ("name", "slug", "namespace", "location", "record_key", "partition_by", "ordering")


@require_http_methods(["GET", "HEAD", "POST"])
@page
def create(request: HttpRequest) -> HttpResponse:
    """A GET with `path` looks at a file, a POST with `deed=look` at the answer of a statement, and
    neither changes anything; any other POST makes the table.
    """
    if not may_everywhere(person(request), Permission.ADMINISTER):
        raise PermissionDenied(f"this requires the {Permission.ADMINISTER.role} role")
    if request.method == "POST" and request.POST.get("deed") != "look":
        return _make(request)
    return _look(request, request.POST if request.method == "POST" else request.GET)


def _make(request: HttpRequest) -> HttpResponse:
    form = CreateForm(request.POST)
    if not form.is_valid():
        return _shown(request, form, request.POST, status=422)
    try:
        table = _made(request, form)
    except ControlPlaneError as error:
        problem = form.refuse(error)
        return _shown(request, form, request.POST, status=refusal_of(error).status, problem=problem)
    messages.success(request, f"{table.name} created. It is empty: write to it next.")
    if source := _source_of(request.POST):
        return redirect(f"{reverse('table-write', args=[table.slug])}?{source}")
    return redirect("overview", table.slug)


def show_upload_problem(request: HttpRequest, error: ControlPlaneError) -> HttpResponse:
    """Show the page after a file that was refused."""
    form = CreateForm(initial=_initial({}, None))
    refusal = refusal_of(error)
    return _shown(request, form, {}, status=refusal.status, problem=refusal.text)


def _source_of(words: Mapping[str, str]) -> str:
    """What suggested the table, for the form of its first write; empty where nothing did."""
    statement, path = words.get("source_statement", ""), words.get("source_path", "")
    if statement and len(statement) <= ADDRESS_CHARS_MAX:
        return urlencode({"kind": "sql", "statement": statement})
    kinds = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
    if path:
        plain = name_source(path).lower().removesuffix(".gz").removesuffix(".zst")
        kind = kinds.get(PurePosixPath(plain).suffix, "json")
        return urlencode({"kind": kind, "path": path[:PATH_CHARS_MAX]})
    return ""


def _look(request: HttpRequest, words: Mapping[str, str]) -> HttpResponse:
    """The form, filled in with what the file or the statement suggests."""
    path = words.get("path", "").strip()[:PATH_CHARS_MAX]
    statement = words.get("statement", "").strip()[:STATEMENT_CHARS_MAX]
    key = [name.strip() for name in words.get("record_key", "").split(",") if name.strip()]
    suggestion, status, problems = None, 200, {}
    try:
        if statement and request.method == "POST":
            suggestion = suggest_from_statement(statement, by=person(request), key=key)
        elif path:
            missing = words.get("missing", "NA")[:50]
            load = {"missing": missing, **options_of(words.get("load", "")[:LOAD_CHARS_MAX])}
            suggestion = suggest_table(path, by=person(request), load=load, key=key)
    except ValidationError as error:
        status, problems = 422, {"path_problem": " ".join(error.messages)}
    except PermissionDenied as error:
        status, problems = 403, {"statement_problem": sentence_of(error)}
    except ControlPlaneError as error:
        status = refusal_of(error).status
        problems = {"statement_problem" if statement else "path_problem": explained(error)}
    form = CreateForm(initial=_initial(words, suggestion))
    return _shown(request, form, words, status=status, suggestion=suggestion, **problems)


def _shown(
    request: HttpRequest,
    form: CreateForm,
    words: Mapping[str, str],
    *,
    status: int,
    **more: object,
) -> HttpResponse:
    """The page; `words` say which file or statement was looked at."""
    path = words.get("path", words.get("source_path", ""))[:PATH_CHARS_MAX]
    context = {
        "upload": build_upload_form(request, reverse("table-create-upload"), path),
        "page": "tables",
        "path": path,
        "missing": words.get("missing", "NA")[:50],
        "load": words.get("load", "")[:LOAD_CHARS_MAX],
        "statement": words.get("statement", words.get("source_statement", "")),
        "namespaces": namespaces_of(person(request)),
        "form": form,
        **more,
    }
    return render(request, "pages/table_create.html", context, status=status)


def _made(request: HttpRequest, form: CreateForm) -> Any:
    words = dict(form.cleaned_data)
    key = str(words.pop("idempotency_key"))
    by = Requester.person(person(request))
    return do_create_table(NewTable(**words), by=by, given=Given(idempotency_key=key))


def _initial(words: Mapping[str, str], suggestion: TableSuggestion | None) -> dict[str, str]:
    """What was said, and what the file or the statement suggests besides."""
    initial = {"namespace": "default"}
    initial |= {word: words[word][:700] for word in _WORDS if word in words}
    if suggestion is None:
        return initial
    initial["columns"] = "\n".join(f"{column.name} {column.type}" for column in suggestion.columns)
    unique = [key for key in suggestion.keys if key.is_unique]
    if unique and not initial.get("record_key"):
        initial["record_key"] = ", ".join(unique[0].columns)
    return initial
