"""The schemas a table had: versions, any two of them compared, how many columns over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.mirror.queries.schema import SchemaNode, schema_diff
from controlplane.mirror.queries.schema_cases import WRITES_LOOKED_AT, cases_seen
from controlplane.mirror.queries.table_details import SchemaRow, schema_history
from controlplane.tables.access import Permission, access_table
from controlplane.writers.queries import WriterRow, writers_board
from web import figures
from web.badges import Badge, badge
from web.list_parts import cut_list
from web.refusals import page, person
from web.schema_cases import case_lines

if TYPE_CHECKING:
    from controlplane.tables.models import Table

VERSIONS_SHOWN = 200


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def schema(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    versions = schema_history(table)
    cases = cases_seen(table)
    context: dict[str, Any] = {
        "page": "schema",
        "table": table,
        "versions": cut_list(request.GET, "versions", versions, VERSIONS_SHOWN),
        "first_version": versions[-1] if versions else None,
        "behind": _behind(table, versions),
        "older_writers": cases.older,
        "case_lines": case_lines(cases),
        "writes_looked_at": WRITES_LOOKED_AT,
        "figure": figures.column_count(versions) if len(versions) > 1 else None,
        **_comparison(versions, request.GET.get("from", ""), request.GET.get("to", "")),
    }
    return render(request, "pages/schema.html", context)


def _comparison(versions: list[SchemaRow], left: str, right: str) -> dict[str, Any]:
    """The two that were picked, older first; without a choice the newest and the one before it."""
    if not versions:
        return {}
    known = {one.instant: at for at, one in enumerate(versions)}
    newer, older = known.get(right, 0), known.get(left, min(1, len(versions) - 1))
    if newer > older:
        newer, older = older, newer
    diff = schema_diff(versions[older].avro, versions[newer].avro)
    return {
        "older": versions[older],
        "newer": versions[newer],
        "compared": (versions[older].instant, versions[newer].instant),
        "diff": diff,
        "marked_nodes": [(node, _mark(node)) for node in diff.nodes],
    }


def _mark(node: SchemaNode) -> Badge:
    """What became of a field; red where readers or writers of the older schema break."""
    mark = badge("schema_change", node.change)
    return mark._replace(tone="bad") if node.is_breaking else mark


def _behind(table: Table, versions: list[SchemaRow]) -> list[WriterRow]:
    """Writers that began before the newest schema stood, and so write with an older one."""
    if len(versions) < 2:
        return []
    newest = versions[0].completed_at
    board = writers_board(table, timezone.now())
    return [row for row in board if row.state != "gone" and row.instant < newest]
