"""Conflicts: all that were lost on a table, and of one of them why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import row_access
from controlplane.writers.conflicts import (
    ConflictDetail,
    conflict_detail,
    conflicts_page,
    rivalries,
)
from web.advice import explain
from web.conflicts.steps import Step
from web.conflicts.story import story
from web.heat_table import heat_table
from web.list_parts import ALL
from web.refusals import as_operation_id, page, person

if TYPE_CHECKING:
    from controlplane.tables.models import Table

ROWS_SHOWN = 50
WRITER_CHARS_MAX = 200
KINDS = ("write", "schema")
DETECTED = {"early": "while writing", "commit": "at commit"}


@require_safe
@page
def conflicts(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {
        "page": "conflicts",
        "table": table,
        **_rows(request, table),
        **_rivals(request, table),
    }
    return render(request, "pages/conflicts.html", context)


@require_safe
@page
def conflicts_rivals(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    return render(
        request, "fragments/conflict_rivals.html", {"table": table, **_rivals(request, table)}
    )


@require_safe
@page
def conflicts_rows(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"table": table, **_rows(request, table)}
    return render(request, "fragments/conflict_rows.html", context)


@require_safe
@page
def conflict(request: HttpRequest, slug: str, instant: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"page": "conflicts", "table": table, **_story(request, table, instant)}
    return render(request, "pages/conflict.html", context)


@require_safe
@page
def conflict_part(request: HttpRequest, slug: str, instant: str) -> HttpResponse:
    """The same, fresh: the winner may still run, and the loser still be swept."""
    table = access_table(person(request), slug, Permission.VIEW)
    return render(
        request, "fragments/conflict.html", {"table": table, **_story(request, table, instant)}
    )


def _rows(request: HttpRequest, table: Table) -> dict[str, Any]:
    query = request.GET
    kind, detected = query.get("kind", ""), query.get("detected", "")
    writer = query.get("writer", "").strip()[:WRITER_CHARS_MAX]
    conflicts = conflicts_page(
        table,
        row_access(person(request), table),
        kind=kind if kind in KINDS else None,
        detected=detected if detected in DETECTED else None,
        writer=writer or None,
        cursor=query.get("before", "")[:80] or None,
        limit=ROWS_SHOWN,
    )
    return {
        "stories": [explain(row) for row in conflicts.rows],
        "next_cursor": conflicts.next_cursor,
        "asked": {
            "kind": kind,
            "detected": detected,
            "writer": writer,
            "cursor": query.get("before", ""),
        },
        "is_filtered": bool(kind or detected or writer),
        "kinds": KINDS,
        "detected": DETECTED,
    }


def _rivals(request: HttpRequest, table: Table) -> dict[str, Any]:
    is_whole = request.GET.get(ALL) == "rivals"
    return {"rivals": heat_table(rivalries(table), is_whole=is_whole)}


def _story(request: HttpRequest, table: Table, instant: str) -> dict[str, Any]:
    access = row_access(person(request), table)
    conflict = conflict_detail(table, access, instant)
    if conflict is None:
        raise Http404(f"{instant} has no recorded conflict")
    conflict_story = story(conflict)
    return {
        "story": conflict_story,
        "conflict": conflict.row,
        "access": access,
        "sides": {"winner": conflict.winner, "loser": conflict.loser},
        "steps": [(step, _page(table, conflict, step)) for step in conflict_story.steps],
        "loser_operation": _operation(table, conflict.loser.operation_id),
        "winner_operation": _operation(table, conflict.winner.operation_id),
    }


def _operation(table: Table, text: str) -> str:
    operation_id = as_operation_id(text)
    return reverse("operation", args=[table.slug, operation_id]) if operation_id else ""


def _page(table: Table, conflict: ConflictDetail, step: Step) -> tuple[str, str]:
    """(address, its words) of where the step is done; empty for none."""
    match step.page:
        case "":
            return "", ""
        case "operation":
            return _operation(table, conflict.loser.operation_id), "Show failed operation"
        case "schema":
            return reverse("schema", args=[table.slug]), "Show table schema"
        case text if text.startswith("instant "):
            return f"{reverse('timeline', args=[table.slug])}?sel={text[8:]}", "Show next attempt"
        case text if text.startswith("conflict "):
            return reverse(
                "conflict", args=[table.slug, text[9:]]
            ), "Show conflict of the next attempt"
        case service:
            return reverse("service-setting", args=[table.slug, service]), "Show schedule"
