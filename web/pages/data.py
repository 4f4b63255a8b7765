"""Rows of a table: of any moment, one row's history, what a commit changed, two moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from controlplane.api.v1.rows import rows_download
from controlplane.errors import ControlPlaneError
from controlplane.row_files import FORMATS
from controlplane.rows.actions import (
    RowsWanted,
    do_compare_moments,
    do_export_rows,
    do_plan_rows,
    do_read_commit,
    do_read_history,
    do_read_rows,
)
from controlplane.rows.answers import ChangedRows, RowColumn, RowVersions, TableRows
from controlplane.rows.choices import columns_of_table, commit_moment, moments_of
from controlplane.rows.cursors import CURSOR_CHARS_MAX
from controlplane.rows.errors import RowsGone, RowsRefused
from controlplane.sql.exports import format_named
from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import RowAccess, row_access
from web.curl import format_call
from web.parts import part_or_page
from web.refusals import explained, page, person, refusal_of, sentence_of
from web.row_cells import cell_of, changed_cells, is_number
from web.row_filters import (
    OPERATORS,
    VALUE_CHARS_MAX,
    FilterFields,
    FilterProblem,
    add_condition,
)

if TYPE_CHECKING:
    from controlplane.tables.models import Table

LIMITS = (20, 50, 100, 500, 1_000)
LIMIT = 100
KEY_CHARS_MAX = 1_000
_WHERE_CHARS_MAX = 10_000
_NESTED = ("struct", "array", "map")
_NO_COLUMN = ("predicate names no column", "table has no such column")
"""What the reader says of a name, with the names that there are."""


class SortLink(NamedTuple):
    """How rows are sorted by a column now, and the query that sorts them in the next way."""

    order: str
    """`ascending`, `descending` or empty."""
    query: str


@require_safe
@page
def data(request: HttpRequest, slug: str) -> HttpResponse:
    """The frame at once; the rows come behind it."""
    table, access = _visited(request, slug)
    return render(request, "pages/data.html", _data_context(request, table, access))


@require_safe
@page
def data_rows(request: HttpRequest, slug: str) -> HttpResponse:
    table, access = _visited(request, slug)
    context = _data_context(request, table, access)
    if access.may_read:
        context |= _rows(request, table, context)
    return part_or_page(request, "fragments/data_rows.html", "pages/data.html", context)


@require_safe
@page
def data_filter(request: HttpRequest, slug: str) -> HttpResponse:
    """Add the condition of column, operator and value to the filter, and show the rows."""
    table, access = _visited(request, slug)
    context = _data_context(request, table, access)
    fields = FilterFields(
        request.GET.get("filter_column", ""),
        request.GET.get("filter_operator", ""),
        request.GET.get("filter_value", "")[:VALUE_CHARS_MAX],
    )
    try:
        where = add_condition(context["wanted"].where, fields, context["columns"])
    except FilterProblem as problem:
        context |= {"filter_fields": fields, "filter_problem": str(problem)}
        return render(request, "pages/data.html", context)
    query = request.GET.copy()
    for name in ("filter_column", "filter_operator", "filter_value", "cursor"):
        query.pop(name, None)
    query["where"] = where
    if len(query.getlist("columns")) == len(context["columns"]):
        query.pop("columns")  # All columns are what is shown when none is named.
    for name in [name for name in query if not query[name]]:
        query.pop(name)
    return redirect(f"{reverse('data', args=[table.slug])}?{query.urlencode()}")


@require_safe
@page
def data_plan(request: HttpRequest, slug: str) -> HttpResponse:
    """The frame of columns and read plan."""
    table, access = _visited(request, slug)
    return render(request, "pages/data_plan.html", _plan_context(request, table, access))


@require_safe
@page
def data_plan_part(request: HttpRequest, slug: str) -> HttpResponse:
    table, access = _visited(request, slug)
    context = _plan_context(request, table, access)
    if access.may_read:
        context |= _plan(request, table, context["wanted"])
    return part_or_page(request, "fragments/data_plan.html", "pages/data_plan.html", context)


@require_safe
@page
def data_export(request: HttpRequest, slug: str) -> HttpResponse:
    """Rows as a file. Raises PermissionDenied, which the page of refusals shows."""
    table, _ = _visited(request, slug)
    file_format = format_named(request.GET.get("file", ""))
    content = do_export_rows(table, _wanted(request), file_format, by=person(request))
    return rows_download(content, file_format, f"{table.slug}-rows")


@require_safe
@page
def row(request: HttpRequest, slug: str) -> HttpResponse:
    """The frame of one row's history."""
    table, access = _visited(request, slug)
    return render(request, "pages/data_row.html", _row_context(request, table, access))


@require_safe
@page
def row_versions(request: HttpRequest, slug: str) -> HttpResponse:
    table, access = _visited(request, slug)
    context = _row_context(request, table, access)
    if context["key"] and access.may_read and not access.hides_keys:
        context |= _history(request, table, context)
    return part_or_page(request, "fragments/data_versions.html", "pages/data_row.html", context)


@require_safe
@page
def changes(request: HttpRequest, slug: str, requested_at: str) -> HttpResponse:
    """The frame of what one commit changed."""
    table, access = _visited(request, slug)
    context = _changes_context(request, table, access, requested_at)
    return render(request, "pages/data_changes.html", context)


@require_safe
@page
def changes_rows(request: HttpRequest, slug: str, requested_at: str) -> HttpResponse:
    table, access = _visited(request, slug)
    context = _changes_context(request, table, access, requested_at)
    if access.may_read:
        chosen = {name: context[name] for name in ("limit", "partition", "file_id")}
        by = person(request)
        call = format_call(request, "instant_changes", table.slug, requested_at, **chosen)
        context |= _changed(call, lambda: do_read_commit(table, requested_at, by=by, **chosen))
    return part_or_page(request, "fragments/data_changes.html", "pages/data_changes.html", context)


@require_safe
@page
def compare(request: HttpRequest, slug: str) -> HttpResponse:
    """The frame of two moments."""
    table, access = _visited(request, slug)
    return render(request, "pages/data_compare.html", _compare_context(request, table, access))


@require_safe
@page
def compare_rows(request: HttpRequest, slug: str) -> HttpResponse:
    table, access = _visited(request, slug)
    context = _compare_context(request, table, access)
    earlier, later = context["earlier"], context["later"]
    if access.may_read and earlier and later:
        by, chosen = (
            person(request),
            {name: context[name] for name in ("earlier", "later", "limit")},
        )
        call = format_call(request, "row_differences", table.slug, **chosen)
        context |= _changed(call, lambda: do_compare_moments(table, by=by, **chosen))
    return part_or_page(request, "fragments/data_changes.html", "pages/data_compare.html", context)


def _visited(request: HttpRequest, slug: str) -> tuple[Table, RowAccess]:
    table = access_table(person(request), slug, Permission.VIEW)
    return table, row_access(person(request), table)


def _frame(
    request: HttpRequest, table: Table, access: RowAccess, here: str, source: str
) -> dict[str, Any]:
    """`source`: where the part of this page comes from."""
    query = request.GET.urlencode()
    return {
        "page": "data",
        "here": here,
        "table": table,
        "access": access,
        "source": source + (f"?{query}" if query else ""),
        "limits": LIMITS,
        "limit": _limit(request),
    }


def _plan_context(request: HttpRequest, table: Table, access: RowAccess) -> dict[str, Any]:
    return {
        **_frame(request, table, access, "plan", reverse("data-plan-part", args=[table.slug])),
        "wanted": _wanted(request),
    }


def _plan(request: HttpRequest, table: Table, choice: RowsWanted) -> dict[str, Any]:
    try:
        answer = do_plan_rows(table, choice.where, as_of=choice.as_of, by=person(request))
    except (ControlPlaneError, PermissionDenied) as error:
        return _problem(error, "where")
    chosen = {"where": choice.where, "as_of": choice.as_of}
    return {"answer": answer, "curl": format_call(request, "rows_plan", table.slug, **chosen)}


def _data_context(request: HttpRequest, table: Table, access: RowAccess) -> dict[str, Any]:
    moments, columns = moments_of(table), columns_of_table(table, access)
    wanted = _wanted(request)
    known = {commit.completed_at for commit in moments.commits}
    return {
        **_frame(request, table, access, "rows", reverse("data-rows", args=[table.slug])),
        "moments": moments,
        "other_moment": wanted.as_of if wanted.as_of and wanted.as_of not in known else "",
        "wanted": wanted,
        "columns": columns,
        "chosen": set(wanted.columns) or {column.name for column in columns},
        "masked_count": sum(column.is_masked for column in columns),
        "operators": OPERATORS,
        "order": _order_text(wanted),
        "orders": [
            order
            for column in columns
            if _has_order(column)
            for order in (
                (column.name, column.name),
                (f"-{column.name}", f"{column.name}, descending"),
            )
        ],
        "export_query": urlencode(
            [
                *(("columns", name) for name in wanted.columns),
                *(("where", wanted.where) for _ in range(bool(wanted.where))),
                *(("as_of", wanted.as_of) for _ in range(bool(wanted.as_of))),
                *(("order_by", _order_text(wanted)) for _ in range(bool(wanted.order_by))),
                ("limit", wanted.limit),
                *(("cursor", wanted.cursor) for _ in range(bool(wanted.cursor))),
            ]
        ),
        "formats": FORMATS,
    }


def _order_text(choice: RowsWanted) -> str:
    return f"-{choice.order_by}" if choice.is_descending else choice.order_by


def _wanted(request: HttpRequest) -> RowsWanted:
    order = request.GET.get("order_by", "")[:KEY_CHARS_MAX]
    return RowsWanted(
        where=request.GET.get("where", "").strip()[:_WHERE_CHARS_MAX],
        columns=[name for name in request.GET.getlist("columns") if name],
        as_of=request.GET.get("as_of", "").strip()[:40] or None,
        order_by=order.removeprefix("-"),
        is_descending=order.startswith("-"),
        limit=_limit(request),
        cursor=request.GET.get("cursor", "")[:CURSOR_CHARS_MAX],
    )


def _limit(request: HttpRequest) -> int:
    given = request.GET.get("limit", "")
    return int(given) if given.isdecimal() and int(given) in LIMITS else LIMIT


def _rows(request: HttpRequest, table: Table, context: dict[str, Any]) -> dict[str, Any]:
    choice: RowsWanted = context["wanted"]
    try:
        answer: TableRows = do_read_rows(table, choice, by=person(request))
    except (ControlPlaneError, PermissionDenied) as error:
        return _problem(error, "where")
    return {
        "answer": answer,
        "curl": format_call(
            request,
            "rows",
            table.slug,
            where=choice.where,
            columns=",".join(choice.columns),
            as_of=choice.as_of,
            order_by=_order_text(choice),
            limit=choice.limit,
            cursor=choice.cursor,
        ),
        "heads": [
            (column, is_number(column), _sort_link(request, column, choice))
            for column in answer.columns
        ],
        "lines": [
            (
                stored,
                [
                    (column, cell_of(content, column))
                    for column, content in zip(answer.columns, stored.cells, strict=True)
                ],
            )
            for stored in answer.rows
        ],
    }


def _has_order(column: RowColumn) -> bool:
    return not column.is_masked and not column.type.startswith(_NESTED)


def _sort_link(request: HttpRequest, column: RowColumn, choice: RowsWanted) -> SortLink | None:
    """Return the link of a column's head, or None if it cannot be sorted by."""
    if not _has_order(column):
        return None
    order = ""
    if choice.order_by == column.name:
        order = "descending" if choice.is_descending else "ascending"
    following = {"": column.name, "ascending": f"-{column.name}", "descending": ""}[order]
    query = request.GET.copy()
    query["order_by"] = following
    query.pop("cursor", None)
    if not following:
        query.pop("order_by")
    return SortLink(order, f"?{query.urlencode()}")


def _row_context(request: HttpRequest, table: Table, access: RowAccess) -> dict[str, Any]:
    return {
        **_frame(request, table, access, "row", reverse("data-row-versions", args=[table.slug])),
        "key": request.GET.get("key", "").strip()[:KEY_CHARS_MAX],
        "partition": request.GET.get("partition", "").strip()[:KEY_CHARS_MAX],
    }


def _history(request: HttpRequest, table: Table, context: dict[str, Any]) -> dict[str, Any]:
    partition = context["partition"] or None
    try:
        answer: RowVersions = do_read_history(
            table, context["key"], by=person(request), partition=partition
        )
    except (ControlPlaneError, PermissionDenied) as error:
        return _problem(error, "key")
    return {
        "answer": answer,
        "curl": format_call(
            request, "row_history", table.slug, key=context["key"], partition=partition
        ),
        "versions": [
            (version, changed_cells(version, answer.columns)) for version in answer.versions
        ],
    }


def _changes_context(
    request: HttpRequest, table: Table, access: RowAccess, instant: str
) -> dict[str, Any]:
    source = reverse("data-changes-rows", args=[table.slug, instant])
    return {
        **_frame(request, table, access, "changes", source),
        "instant": instant,
        "file_id": request.GET.get("file_id", "").strip()[:300],
        "partition": request.GET.get("partition", "").strip()[:KEY_CHARS_MAX],
        "commit": commit_moment(table, instant),
    }


def _compare_context(request: HttpRequest, table: Table, access: RowAccess) -> dict[str, Any]:
    moments = moments_of(table)
    times = [commit.completed_at for commit in moments.commits]
    earlier = request.GET.get("earlier", "").strip()[:40] or (times[-2] if times[1:] else "")
    later = request.GET.get("later", "").strip()[:40] or (times[-1] if times[1:] else "")
    return {
        **_frame(
            request, table, access, "compare", reverse("data-compare-rows", args=[table.slug])
        ),
        "moments": moments,
        "sides": [
            ("earlier", "Earlier", earlier, earlier in times),
            ("later", "Later", later, later in times),
        ],
        "earlier": earlier,
        "later": later,
    }


def _changed(call: str, read: Callable[[], ChangedRows]) -> dict[str, Any]:
    """`call`: the same as a command."""
    try:
        answer = read()
    except (ControlPlaneError, PermissionDenied) as error:
        return _problem(error, "")
    counts = {
        op: sum(row.op == op for row in answer.rows) for op in ("inserted", "updated", "deleted")
    }
    return {
        "answer": answer,
        "heads": [(column, is_number(column)) for column in answer.columns],
        "lines": [(changed, changed_cells(changed, answer.columns)) for changed in answer.rows],
        "counts": counts,
        "curl": call,
    }


def _problem(error: ControlPlaneError | PermissionDenied, field: str) -> dict[str, Any]:
    """What went wrong, in words, and at which field of the form."""
    if isinstance(error, PermissionDenied):
        return {"problem": {"field": field, "title": "", "text": sentence_of(error)}}
    if isinstance(error, RowsRefused):
        return {"problem": {"field": error.field, "title": "", "text": _fitting(error)}}
    title = "The table does not go back that far" if isinstance(error, RowsGone) else ""
    gone = "as_of" if isinstance(error, RowsGone) else ""
    text = explained(error)
    return {"problem": {"field": gone, "title": title or refusal_of(error).title, "text": text}}


def _fitting(error: RowsRefused) -> str:
    """The sentence, with where in the question it is and what there is instead."""
    values = {name: str(given) for name, given in error.values.items()}
    if error.message in _NO_COLUMN:
        known = values["known"].strip("[]").replace("'", "")
        return f"Column {values['column'][:80]} not found. Columns are {known}."
    near = values.get("column") or values.get("given") or ""
    text = refusal_of(error).text.removesuffix(".")
    if near:
        text += f": {near[:80]}"
    if stopped := values.get("found", ""):
        text += f", at “{stopped[:40]}”"
    return f"{text}."
