"""SQL: one SELECT over tables whose rows the person may read, and the queries that people keep."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.api.v1.rows import rows_download
from controlplane.errors import ControlPlaneError
from controlplane.row_files import FORMATS
from controlplane.rows.answers import RowColumn
from controlplane.rows.readable_tables import ReadableTables, readable_tables
from controlplane.sql.actions import SqlAnswer, do_export_sql, do_run_sql
from controlplane.sql.exports import format_named
from controlplane.sql.limits import sql_limits
from controlplane.sql.runs import do_cancel_run, statement_runs
from controlplane.sql.saved import (
    QueryWords,
    SavedQueryRow,
    do_change_query,
    do_delete_query,
    do_save_query,
    namespaces_of,
    saved_queries,
    saved_query,
)
from controlplane.tables.access import may_see_some
from web.confirmation import Question, ask_first, is_confirmed
from web.curl import format_post
from web.parts import is_part, part_or_page
from web.refusals import explained, page, person, refusal_of, sentence_of
from web.row_cells import cell_of, is_number

LIMITS = (100, 1_000, 10_000)
RUNS_SHOWN = 20
TIMEOUTS_S = (5, 20, 60)
_STATEMENT_CHARS_MAX = 20_000


@require_http_methods(["GET", "HEAD", "POST"])
@page
def sql(request: HttpRequest) -> HttpResponse:
    """The editor; with POST the answer of its statement."""
    _check_role(request)
    if request.method != "POST":
        chosen = _chosen(request)
        statement = request.GET.get("statement", "") or (chosen.statement if chosen else "")
        context = _context(request, statement[:_STATEMENT_CHARS_MAX], chosen)
        return render(request, "pages/sql.html", context)
    statement = request.POST.get("statement", "")[: _STATEMENT_CHARS_MAX + 1]
    context = {} if is_part(request) else _context(request, statement, None)
    context |= _bounds_context(request)
    context |= _answer(request, statement)
    return part_or_page(request, "fragments/sql_answer.html", "pages/sql.html", context)


@require_POST
@page
def cancel(request: HttpRequest) -> HttpResponse:
    """End the statement that the page runs. Raises InvalidRequest for what is not its id."""
    _check_role(request)
    was_running = do_cancel_run(request.POST.get("run_id", ""), by=person(request))
    return JsonResponse({"was_running": was_running})


@require_POST
@page
def export(request: HttpRequest) -> HttpResponse:
    """The answer as a file; what was refused stands on the page."""
    _check_role(request)
    file_format = format_named(request.POST.get("file", ""))
    statement = request.POST.get("statement", "")[: _STATEMENT_CHARS_MAX + 1]
    try:
        content = do_export_sql(statement, file_format, by=person(request), **_bounds(request))
    except (ControlPlaneError, PermissionDenied) as error:
        context = _context(request, statement, None) | {"problem": _problem(error)}
        return render(request, "pages/sql.html", context, status=400)
    return rows_download(content, file_format, "sql")


@require_POST
@page
def save(request: HttpRequest) -> HttpResponse:
    """Keep the statement: as a new query, or over one that is one's own."""
    _check_role(request)
    words = QueryWords(
        name=request.POST.get("name", ""),
        statement=request.POST.get("statement", ""),
        note=request.POST.get("note", ""),
        namespace=request.POST.get("namespace", ""),
    )
    over = request.POST.get("query", "")
    try:
        if over.isdecimal():
            query = do_change_query(int(over), words, by=person(request))
        else:
            query = do_save_query(words, by=person(request))
    except ControlPlaneError as error:
        context = _context(request, words.statement, None) | {
            "saving": words,
            "save_problem": refusal_of(error).text,
            "save_field": str(error.values.get("field", "")),
        }
        return render(request, "pages/sql.html", context, status=422)
    messages.success(request, f"Query {query.name} saved.")
    return redirect(f"{reverse('sql')}?saved={query.id}")


@require_POST
@page
def delete(request: HttpRequest, query_id: int) -> HttpResponse:
    """After a question."""
    _check_role(request)
    query = saved_query(person(request), query_id)
    if not is_confirmed(request):
        shared = f"users of the namespace {query.namespace}" if query.namespace else "only you"
        question = Question(
            page="sql",
            title=f"Delete the query {query.name}?",
            facts=[("Owner", query.owner), ("Shared with", shared)],
            button="Delete query",
            back=f"{reverse('sql')}?saved={query_id}",
            takes_reason=False,
        )
        return ask_first(request, question)
    do_delete_query(query_id, by=person(request))
    messages.success(request, "Query deleted.")
    return redirect("sql")


def _check_role(request: HttpRequest) -> None:
    """Raises PermissionDenied for whoever sees no table at all."""
    if not may_see_some(person(request)):
        raise PermissionDenied("this requires the viewer role")


def _chosen(request: HttpRequest) -> SavedQueryRow | None:
    given = request.GET.get("saved", "")
    return saved_query(person(request), int(given)) if given.isdecimal() else None


def _context(request: HttpRequest, statement: str, chosen: SavedQueryRow | None) -> dict[str, Any]:
    by = person(request)
    readable = readable_tables(by)
    return {
        "page": "sql",
        "statement": statement,
        "chosen": chosen,
        "saving": QueryWords(name="", statement="")
        if chosen is None
        else QueryWords(
            name=chosen.name,
            statement=chosen.statement,
            note=chosen.note,
            namespace=chosen.namespace,
        ),
        "saved": saved_queries(by),
        "namespaces": namespaces_of(by),
        "readable": readable,
        "words": _words(readable),
        "runs": statement_runs(by)[:RUNS_SHOWN],
        "limits": LIMITS,
        "formats": FORMATS,
        **_bounds_context(request),
    }


def _words(readable: ReadableTables) -> dict[str, list[str]]:
    """Return the names that the editor suggests: columns by table. A statement cannot filter or
    sort by a masked column, so it is not among them; the list of tables shows it as masked.
    """
    return {
        table.slug: [column.name for column in table.columns if not column.is_masked]
        for table in readable.tables
    }


def _bounds_context(request: HttpRequest) -> dict[str, Any]:
    bounds = _bounds(request)
    most_s = sql_limits().wall_s
    timeouts = sorted({*(one for one in TIMEOUTS_S if one < most_s), int(most_s)})
    return {
        "limit": bounds["rows_max"],
        "timeout_s": int(bounds["wall_s"] or most_s),
        "timeouts": timeouts,
    }


def _bounds(request: HttpRequest) -> dict[str, Any]:
    limit, timeout_s = request.POST.get("limit", ""), request.POST.get("timeout_s", "")
    is_limit = limit.isdecimal() and int(limit) in LIMITS
    return {
        "rows_max": int(limit) if is_limit else LIMITS[0],
        "wall_s": float(timeout_s) if timeout_s.isdecimal() and 0 < int(timeout_s) < 600 else None,
    }


def _answer(request: HttpRequest, statement: str) -> dict[str, Any]:
    try:
        run_id = request.POST.get("run_id", "")
        answer: SqlAnswer = do_run_sql(
            statement, by=person(request), run_id=run_id, **_bounds(request)
        )
    except (ControlPlaneError, PermissionDenied) as error:
        return {"problem": _problem(error)}
    columns = [
        RowColumn(name=column.name, type=column.type, is_masked=column.is_masked)
        for column in answer.columns
    ]
    bounds = _bounds(request)
    body = {"statement": statement, "limit": bounds["rows_max"]}
    body |= {"timeout_s": bounds["wall_s"]} if bounds["wall_s"] else {}
    return {
        "answer": answer,
        "curl": format_post(request, "sql", body),
        "heads": [(column, is_number(column)) for column in columns],
        "lines": [
            [
                (column, cell_of(content, column))
                for column, content in zip(columns, line, strict=True)
            ]
            for line in answer.rows
        ],
    }


def _problem(error: ControlPlaneError | PermissionDenied) -> dict[str, str]:
    if isinstance(error, PermissionDenied):
        return {"title": "No row access", "text": sentence_of(error)}
    return {"title": refusal_of(error).title, "text": explained(error)}
