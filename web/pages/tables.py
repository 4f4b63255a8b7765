"""The list of tables with its filters, columns and kept views, and the search box that leads to a
table, an instant, a file group or a partition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from controlplane.errors import InvalidRequest
from controlplane.fields import INSTANT_TIME
from controlplane.home.search import HITS_MAX, search
from controlplane.home.tables import (
    EXPORT_ROWS_MAX,
    SHOWN,
    Listed,
    TableList,
    TableQuery,
    shown_words,
    table_list,
)
from controlplane.mirror.queries.files import file_groups_page
from controlplane.operations.actions import service_kinds
from controlplane.operations.table_changes.tagging import do_tag_tables
from controlplane.preferences.choices import choices_of, do_choose_columns, do_pin, do_save_view
from controlplane.tables.access import (
    Permission,
    access_table,
    may_everywhere,
    may_see_some,
    may_somewhere,
)
from controlplane.tables.listing import tables_named
from controlplane.tables.names import SLUG
from controlplane.tables.queries import NamespaceRow, namespaces_of
from web.additions import first_step
from web.bars import Bars, bars
from web.conflicts.words import counted
from web.exports import exported
from web.pages.tables_bulk import BULK_SERVICES
from web.refusals import page, person
from web.search import TABLES, build_groups, pages_named
from web.table_columns import BY_KEY, COLUMNS, chosen

QUESTION_CHARS_MAX = 200
SPARK_HEIGHT = 18
_FILTERS = {
    "search": "q",
    "namespace": "namespace",
    "show": "show",
    "owner": "owner",
    "tag": "tag",
    "sort": "sort",
}
"""What the address calls each part of a query."""
_FILE_ID = re.compile(r"\.?([0-9a-zA-Z-]{20,})_[^/]*\.(?:parquet|log)")
"""The file id at the head of a data file's name, of a base file or a log."""


@dataclass(frozen=True, slots=True)
class ListedLine:
    row: Listed
    spark: Bars


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
    """Lead to the one thing that the text names: an instant or a file of the table at hand, a table
    by its exact name. Otherwise list what contains the text: tables, instants, operations, writers,
    people and pages.
    """
    question = request.GET.get("q", "").strip()[:QUESTION_CHARS_MAX]
    here = request.GET.get("table", "")
    if here and not SLUG.match(here):
        raise Http404("table not found")
    if not question:
        return redirect("tables")
    if here and INSTANT_TIME.match(question):
        return redirect(f"{reverse('timeline', args=[here])}?{urlencode({'sel': question})}")
    exact = tables_named(person(request), question)
    if len(exact) == 1:
        return redirect("live", exact[0])
    if here and (there := _inside(request, here, question)):
        return redirect(there)
    groups = build_groups(search(person(request), question), pages_named(request, here, question))
    if not [group for group in groups if group.title != TABLES]:
        return redirect(f"{reverse('tables')}?{urlencode({'q': question})}")
    links = [link for group in groups for link in group.links]
    if len(links) == 1:
        return redirect(links[0].url)
    context = {"page": "search", "question": question, "groups": groups, "hits_max": HITS_MAX}
    return render(request, "pages/search.html", context)


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


@require_safe
@page
def tables_export(request: HttpRequest) -> HttpResponse:
    """All that the filters leave, in the order of the list, as a file."""
    listed = _listed(request, rows=EXPORT_ROWS_MAX, page=1)
    columns = [("slug", _slug), ("name", _name), *((one.key, one.of) for one in COLUMNS)]
    as_format = request.GET.get("as", "csv")
    return exported("tables", as_format, columns, listed.rows, total=listed.total, at=listed.at)


@require_POST
@page
def columns_choose(request: HttpRequest) -> HttpResponse:
    """Which columns stand in the list; none at all gives back those that stand there by
    themselves.
    """
    keys = [key for key in request.POST.getlist("column") if key in BY_KEY]
    do_choose_columns(person(request), None if "reset" in request.POST or not keys else keys)
    return _back(request)


@require_POST
@page
def view_save(request: HttpRequest) -> HttpResponse:
    """Keep the filters and the order at hand under a name."""
    query = QueryDict(request.POST.get("query", ""), mutable=True)
    query.pop("page", None)
    do_save_view(person(request), request.POST.get("name", ""), query.urlencode())
    return redirect(f"{reverse('tables')}?{query.urlencode()}")


@require_POST
@page
def table_pin(request: HttpRequest, slug: str) -> HttpResponse:
    """A pinned table comes first; pinned once more, it does not."""
    table = access_table(person(request), slug, Permission.VIEW)
    do_pin(person(request), table.pk, is_pinned=request.POST.get("pinned") == "1")
    return _back(request)


@require_POST
@page
def tables_tag(request: HttpRequest) -> HttpResponse:
    """Add tags to the selected tables or remove them; on all of the tables or on none."""
    if not may_somewhere(person(request), Permission.ADMINISTER):
        raise PermissionDenied("this requires the admin role")
    deed, tags = request.POST.get("deed", ""), request.POST.get("tags", "")
    if deed not in ("add", "remove"):
        raise InvalidRequest("expected tags to add or to remove", deed=deed[:40])
    tagged = do_tag_tables(
        request.POST.getlist("table"),
        reason=request.POST.get("reason", "").strip(),
        by=person(request),
        **{deed: tags},
    )
    words = "Tags added to" if deed == "add" else "Tags removed from"
    messages.success(request, f"{words} {counted(len(tagged.changed), 'table')}.")
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    query = QueryDict(request.POST.get("query", ""))
    return redirect(f"{reverse('tables')}?{query.urlencode()}" if query else reverse("tables"))


def _slug(row: Listed) -> str:
    return row.line.slug


def _name(row: Listed) -> str:
    return row.line.name


def _listed(request: HttpRequest, *, rows: int, page: int) -> TableList:
    user = person(request)
    if not may_see_some(user):
        raise PermissionDenied("this requires the viewer role")
    return table_list(user, _wanted(request, page), choices_of(user).pins, timezone.now(), rows)


def _wanted(request: HttpRequest, page: int) -> TableQuery:
    # PostgreSQL takes no NUL, and no row has one.
    texts = {
        key: request.GET.get(name, "").replace("\0", "").strip()[:QUESTION_CHARS_MAX]
        for key, name in _FILTERS.items()
    }
    return TableQuery(**texts, page=page)


def _rows(request: HttpRequest) -> dict[str, Any]:
    user = person(request)
    if not may_see_some(user):
        raise PermissionDenied("this requires the viewer role")
    number = request.GET.get("page", "1")[:9]
    wanted = _wanted(request, int(number) if number.isdecimal() else 1)
    choices = choices_of(user)
    listed = table_list(user, wanted, choices.pins, timezone.now())
    columns = chosen(choices.columns)
    return {
        "listed": listed,
        "rows": [ListedLine(row, sparkline(row.commits)) for row in listed.rows],
        "last": listed.first + len(listed.rows) - 1,
        "columns": columns,
        "column_keys": {column.key for column in columns},
        "all_columns": COLUMNS,
        "choices": choices,
        "query": request.GET.urlencode(),
        "wanted": wanted,
        "asked": wanted.search,
        "namespace": wanted.namespace,
        "is_filtered": wanted != TableQuery(sort=wanted.sort, page=wanted.page),
        "show_words": shown_words(wanted.show),
        "shown": [(key, words) for key, (words, _) in SHOWN.items()],
        "namespaces": _namespaces(request, namespaces_of(user), wanted.namespace),
        "sums": listed.sums,
        "services": [kind for kind in service_kinds() if kind.name in BULK_SERVICES],
        "may_operate": bool(listed.rows) and may_somewhere(user, Permission.OPERATE),
        "may_tag": bool(listed.rows) and may_somewhere(user, Permission.ADMINISTER),
        "bulk_key": uuid4(),
        "first_step": first_step(),
        "may_register": may_everywhere(user, Permission.ADMINISTER),
    }


def sparkline(counts: Sequence[int]) -> Bars:
    """The commits of a table, hour by hour."""
    return bars(counts, height=SPARK_HEIGHT)


def _namespaces(
    request: HttpRequest, rows: Sequence[NamespaceRow], current: str
) -> list[NamespaceChoice]:
    """Every namespace of the list and all of them together; empty where there is nothing to choose.
    Whatever else the address says stays, but for the page.
    """
    counts = {row.name: row.tables for row in rows}
    if len(counts) < 2 and not current:
        return []
    left_out = ("namespace", "page")
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
