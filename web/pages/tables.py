"""The list of tables, and the search box that leads to a table, an instant, a file group or a
partition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from controlplane.fields import INSTANT_TIME
from controlplane.mirror.queries.files import file_groups_page
from controlplane.tables.access import Permission, access_table, may_everywhere, may_see_some
from controlplane.tables.listing import Wanted, table_sums, tables_named, tables_page
from controlplane.tables.queries import NamespaceRow, namespaces_of
from web.additions import first_step
from web.refusals import page, person

QUESTION_CHARS_MAX = 200
_FILE_ID = re.compile(r"\.?([0-9a-zA-Z-]{20,})_[^/]*\.(?:parquet|log)")
"""The file id at the head of a data file's name, of a base file or a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceChoice:
    """A link of the filter."""

    name: str
    """Empty for all."""
    tables: int
    query: str
    is_current: bool


@require_safe
@page
def tables(request: HttpRequest) -> HttpResponse:
    return render(request, "pages/tables.html", {"page": "tables", **_rows(request)})


@require_safe
@page
def tables_rows(request: HttpRequest) -> HttpResponse:
    return render(request, "fragments/tables.html", _rows(request))


@require_safe
@page
def go(request: HttpRequest) -> HttpResponse:
    """An instant of the table at hand, a table by its exact name, a file or a partition of the
    table at hand, else the tables that contain the text.
    """
    question = request.GET.get("q", "").strip()[:QUESTION_CHARS_MAX]
    here = request.GET.get("table", "")
    if here and INSTANT_TIME.match(question):
        return redirect(f"{reverse('timeline', args=[here])}?{urlencode({'sel': question})}")
    exact = tables_named(person(request), question) if question else []
    if len(exact) == 1:
        return redirect("live", exact[0])
    if here and question and (there := _inside(request, here, question)):
        return redirect(there)
    return redirect(
        f"{reverse('tables')}?{urlencode({'q': question})}" if question else reverse("tables")
    )


def _inside(request: HttpRequest, slug: str, question: str) -> str:
    """Where the file groups of one table that match the text are listed; empty when none does.

    A data file's name leads to its file group, the instant in it to the timeline.
    """
    if not may_see_some(person(request)):
        return ""
    table = access_table(person(request), slug, Permission.VIEW)
    text = _FILE_ID.search(question)
    sought = text.group(1) if text else question
    if not file_groups_page(table, search=sought, limit=1).rows:
        return ""
    return f"{reverse('files', args=[slug])}?{urlencode({'q': sought})}"


def _rows(request: HttpRequest) -> dict[str, Any]:
    user = person(request)
    if not may_see_some(user):
        raise PermissionDenied("this needs the role viewer")
    wanted = Wanted(
        search=request.GET.get("q", "").strip()[:QUESTION_CHARS_MAX],
        namespace=request.GET.get("namespace", "")[:QUESTION_CHARS_MAX],
    )
    cursor = request.GET.get("after", "")[:QUESTION_CHARS_MAX]
    listed = tables_page(user, wanted, cursor=cursor or None)
    return {
        "rows": listed.rows,
        "next_cursor": listed.next_cursor,
        "cursor": cursor,
        "asked": wanted.search,
        "namespace": wanted.namespace,
        "namespaces": _namespaces(request, namespaces_of(user), wanted.namespace),
        "sums": table_sums(user, wanted),
        "first_step": first_step(),
        "may_register": may_everywhere(user, Permission.ADMINISTER),
    }


def _namespaces(
    request: HttpRequest, rows: Sequence[NamespaceRow], current: str
) -> list[NamespaceChoice]:
    """Every namespace of the list and all of them together; empty where there is nothing to choose.
    Whatever else the address says stays, but for the page.
    """
    counts = {row.name: row.tables for row in rows}
    if len(counts) < 2 and not current:
        return []
    left_out = ("namespace", "after")
    others = [(key, str(text)) for key, text in request.GET.items() if key not in left_out]

    def choice(name: str, tables: int) -> NamespaceChoice:
        pairs = [*others, *([("namespace", name)] if name else [])]
        return NamespaceChoice(
            name=name, tables=tables, query=urlencode(pairs), is_current=name == current
        )

    names = sorted({*counts, current} - {""})
    return [
        choice("", sum(counts.values())),
        *(choice(name, counts.get(name, 0)) for name in names),
    ]
