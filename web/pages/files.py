"""File groups of a table: partitions, their file groups with sizes and slices, one of them in
detail. Everything comes from the mirror.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from controlplane.mirror.queries.file_stats import size_bins, write_heat
from controlplane.mirror.queries.files import (
    SMALL_FILE_BYTES,
    FileGroupRow,
    PartitionRow,
    all_partitions,
    count_left_out,
    file_groups_page,
)
from controlplane.mirror.queries.files import (
    file_group as file_group_detail,
)
from controlplane.mirror.queries.table_details import pending_markers
from controlplane.mirror.queries.write_costs import write_costs
from controlplane.tables.access import Permission, access_table
from web import figures
from web.file_figures import (
    SKEW,
    PartitionLine,
    amplification,
    partition_lines,
    partition_treemap,
)
from web.list_parts import cut_list
from web.refusals import page, person
from web.templatetags.lake import size

if TYPE_CHECKING:
    from controlplane.tables.models import Table

ROWS_SHOWN = 50
PARTITIONS_SHOWN = 200
SEARCH_CHARS_MAX = 200
_ORDERS = {"partition": "by partition", "-bytes": "largest first", "-log_files": "most logs first"}


@dataclass(frozen=True, slots=True)
class GroupLine:
    row: FileGroupRow
    is_small: bool
    is_skewed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesQuery:
    """What the address asks for."""

    partition: str | None
    search: str
    order: str
    cursor: str

    @property
    def is_filtered(self) -> bool:
        return self.partition is not None or bool(self.search)


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def files(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    partition_rows = all_partitions(table)
    context = {
        "page": "files",
        "table": table,
        "partitions": cut_list(request.GET, "partitions", partition_rows, PARTITIONS_SHOWN),
        "sums": _sums(partition_rows),
        "left_out": count_left_out(table),
        "orders": _ORDERS,
        "claims": pending_markers(table),
        **_charts(request.GET, table, partition_rows),
        **_rows(table, request.GET, partition_rows),
    }
    return render(request, "pages/files.html", context)


@require_safe
@page
def files_rows(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"table": table, **_rows(table, request.GET, all_partitions(table))}
    return render(request, "fragments/file_groups.html", context)


@require_safe
@page
def file_group(request: HttpRequest, slug: str) -> HttpResponse:
    """Partition and file id are a table's own words, so they come as a query, never as a path."""
    table = access_table(person(request), slug, Permission.VIEW)
    partition, file_id = request.GET.get("partition", ""), request.GET.get("id", "")
    group = file_group_detail(table, partition=partition, file_id=file_id)
    if group is None:
        raise Http404(f"file group {file_id[:80]} not found")
    claims = [one for one in pending_markers(table) if _claims(one.sample, partition, file_id)]
    context = {"page": "files", "table": table, "group": group, "claims": claims}
    return render(request, "pages/file_group.html", context)


def _rows(
    table: Table, query_texts: Mapping[str, str], known: list[PartitionRow]
) -> dict[str, Any]:
    query = _parsed(query_texts)
    groups = file_groups_page(
        table,
        partition=query.partition,
        search=query.search,
        order=query.order,  # type: ignore[arg-type]  # one of the keys of _ORDERS
        cursor=query.cursor or None,
        limit=ROWS_SHOWN,
    )
    averages = {one.partition: one.bytes / one.file_groups for one in known if one.file_groups}
    return {
        "asked": query,
        "groups": [_line(row, averages) for row in groups.rows],
        "next_cursor": groups.next_cursor,
    }


def _parsed(query_texts: Mapping[str, str]) -> FilesQuery:
    order = query_texts.get("order", "")
    return FilesQuery(
        partition=query_texts.get("partition"),
        search=query_texts.get("q", "").strip()[:SEARCH_CHARS_MAX],
        order=order if order in _ORDERS else "partition",
        cursor=query_texts.get("after", "")[:2000],
    )


def _line(row: FileGroupRow, averages: Mapping[str, float]) -> GroupLine:
    average = averages.get(row.partition, 0.0)
    return GroupLine(
        row=row,
        is_small=0 < row.base_bytes < SMALL_FILE_BYTES and not row.is_replaced,
        is_skewed=average > 0 and row.bytes > SKEW * average,
    )


def _sums(partition_rows: list[PartitionRow]) -> dict[str, int]:
    return {
        name: sum(getattr(one, name) for one in partition_rows)
        for name in ("file_groups", "bytes", "log_files", "log_bytes", "old_files", "small_files")
    }


def _charts(query: QueryDict, table: Table, partition_rows: list[PartitionRow]) -> dict[str, Any]:
    if not any(one.bytes for one in partition_rows):
        return {}
    here = reverse("files", args=[table.slug])
    bins, heat = size_bins(table), write_heat(table)
    lines, costs = partition_lines(partition_rows), write_costs(table)
    return {
        "treemap": partition_treemap(lines, here),
        "partition_lines": cut_list(query, "partitions", lines, PARTITIONS_SHOWN),
        "skew": _skew(lines),
        "costs": costs,
        "newest_costs": list(reversed(costs.writes)),
        "amplification": amplification(costs.writes),
        "bins": bins,
        "histogram": figures.histogram(
            [figures.Bar(one.name, one.file_groups) for one in bins], unit="file groups"
        ),
        "heat": heat,
        "heat_lines": list(zip(heat.partitions, heat.bytes, strict=True)),
        "heatmap": figures.heat(
            heat.partitions,
            heat.instants,
            heat.bytes,
            words=[[f"{size(one)} written" for one in line] for line in heat.bytes],
        )
        if heat.partitions
        else None,
    }


def _skew(lines: list[PartitionLine]) -> float | None:
    """The largest partition as a multiple of the median one; None where there is one at most."""
    sizes = [line.row.bytes for line in lines if line.row.bytes]
    return max(sizes) / median(sizes) if len(sizes) > 1 else None


def _claims(sample: list[str], partition: str, file_id: str) -> bool:
    """Markers name `partition/file`; only a few of each writer are mirrored."""
    prefix = f"{partition}/" if partition else ""
    return any(name.startswith(prefix) and file_id in name.removeprefix(prefix) for name in sample)
