"""The streams of a joined table: how far each is, which rows have which, why a cell is null; and
declaring a stream, launching and stopping its writers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.errors import ControlPlaneError
from controlplane.mirror.cell_stories import explain
from controlplane.mirror.group_rows import GroupCommitRow
from controlplane.mirror.queries.streams import (
    StreamsBoard,
    board_queries,
    commit_rows,
    streams_board,
)
from controlplane.operations.actions import do_declare_stream, do_launch_stream
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.declaring import TYPES
from controlplane.operations.descriptions.streams import DECLARE_STREAM
from controlplane.operations.stream_rounds import round_queries, stream_rounds
from controlplane.operations.stream_writes import stream_writes, writes_query
from controlplane.read_together import read_together
from controlplane.tables.access import Permission, access_table, may
from controlplane.tables.row_access import row_access
from web import stream_figures as figures
from web import stream_moments as over_time
from web.refusals import page, person, refusal_of, sentence_of
from web.request_forms import RequestForm

if TYPE_CHECKING:
    from controlplane.tables.models import Table

SOURCES = {"parquet": "Parquet file", "csv": "CSV file"}
PARTS = ("board", "presence", "logs", "writers")


class StreamForm(RequestForm):
    """A new stream; the engine checks everything again."""

    description = DECLARE_STREAM
    name = forms.RegexField(
        r"^[A-Za-z][A-Za-z0-9_]{0,63}$",
        label=DECLARE_STREAM["name"].label,
        error_messages={
            "required": DECLARE_STREAM["name"].refusal,
            "invalid": "Use letters, digits and _, and start with a letter.",
        },
    )
    ordering = forms.RegexField(
        r"^[A-Za-z_][A-Za-z0-9_]*$",
        label=DECLARE_STREAM["ordering"].label,
        error_messages={
            "required": DECLARE_STREAM["ordering"].refusal,
            "invalid": "Enter one new column name.",
        },
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        types = ", ".join(TYPES)
        self.fields["columns"].help_text = f"One “name type” per line. Types: {types}."

    def clean_columns(self) -> dict[str, str]:
        """Return the types by name."""
        types: dict[str, str] = {}
        for line in ",".join(self.cleaned_data["columns"]).split(","):
            words = line.replace(":", " ").split()
            if not words:
                continue
            if len(words) != 2 or words[1] not in TYPES:
                known = ", ".join(TYPES)
                raise forms.ValidationError(
                    f"Write each column as: name type. “{line.strip()[:60]}” is not a "
                    f"column; types are {known}."
                )
            types[words[0]] = words[1]
        return types

    @property
    def declaration(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        modes = {name: cleaned[name] for name in ("name", "null_mode", "on_late", "delete")}
        return {**modes, "ordering": [cleaned["ordering"]], "columns": list(cleaned["columns"])}

    @property
    def types(self) -> dict[str, str]:
        cleaned = self.cleaned_data
        return {cleaned["ordering"]: cleaned["ordering_type"], **cleaned["columns"]}


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def streams(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = _context(request, table)
    arrivals = commit_rows(table, context["access"], context["queries"].commits)
    context |= {**_charts(context, arrivals), **_answers(request, table)}
    context |= _as_of(request, context["stream_names"], arrivals)
    context["columns"] = [
        (group["name"], [*group["columns"], *group["ordering"]]) for group in table.groups
    ]
    return render(request, "pages/streams.html", context)


@require_safe
@page
def streams_part(request: HttpRequest, slug: str, part: str) -> HttpResponse:
    """One fragment, fresh."""
    table = access_table(person(request), slug, Permission.VIEW)
    if part not in PARTS:
        raise Http404(f"part {part} not found")
    return render(request, f"fragments/streams_{part}.html", _context(request, table))


@require_safe
@page
def streams_why(request: HttpRequest, slug: str) -> HttpResponse:
    """The answer alone, for the page that is open."""
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"table": table, **_answers(request, table)}
    return render(request, "fragments/streams_why.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def declare(request: HttpRequest, slug: str) -> HttpResponse:
    is_posted = request.method == "POST"
    permission = Permission.ADMINISTER if is_posted else Permission.VIEW
    table = access_table(person(request), slug, permission)
    form = StreamForm(request.POST if is_posted else None)
    status, problem = 200, ""
    if is_posted and form.is_valid():
        try:
            do_declare_stream(
                table,
                form.declaration,
                form.types,
                reason=form.cleaned_data["reason"],
                typed_name=form.cleaned_data["typed_name"],
                by=person(request),
            )
        except ControlPlaneError as error:
            status, title, text = refusal_of(error)
            problem = f"{title}. {text}"
        else:
            name = form.cleaned_data["name"]
            messages.success(
                request, f"The stream {name} is declared. It shows here with the next sync."
            )
            return redirect("streams", table.slug)
    elif is_posted:
        status = 422
    context = {
        "page": "streams",
        "table": table,
        "form": form,
        "problem": problem,
        "may_change": may(person(request), Permission.ADMINISTER, table),
    }
    return render(request, "pages/stream_declare.html", context, status=status)


@require_POST
@page
def launch(request: HttpRequest, slug: str) -> HttpResponse:
    """Queue a writer of one stream; the operation's page shows how it goes, and stops it."""
    table = access_table(person(request), slug, Permission.OPERATE)
    source = {"kind": request.POST.get("kind", ""), "path": request.POST.get("path", "").strip()}
    try:
        operation = do_launch_stream(
            table,
            request.POST.get("stream", ""),
            source,
            reason=request.POST.get("reason", "")[:REASON_CHARS_MAX],
            by=person(request),
        )
    except ControlPlaneError as error:
        messages.error(request, refusal_of(error).text)
        return redirect("streams", table.slug)
    return redirect("operation", table.slug, operation.pk)


def _context(request: HttpRequest, table: Table) -> dict[str, Any]:
    access = row_access(person(request), table)
    queries, signs, writes = board_queries(table), round_queries(table), writes_query(table)
    read_together(*queries.all(), *signs, writes)
    board = streams_board(table, access, queries=queries)
    rounds = {of_stream.stream: of_stream for of_stream in stream_rounds(table, queries=signs)}
    return {
        "page": "streams",
        "table": table,
        "board": board,
        "access": access,
        "queries": queries,
        "lined": [
            # A group's rows may come with a stream of another name.
            (row, rounds.get(row.name) or rounds.get(row.last_writer))
            for row in board.streams
        ],
        "matrix": _matrix(board),
        "waiting": _waiting(board),
        "writes": stream_writes(person(request), writes),
        "sources": SOURCES,
        "may_operate": may(person(request), Permission.OPERATE, table),
    }


def _matrix(board: StreamsBoard) -> list[dict[str, Any]]:
    """Each subset of the streams with a mark per stream."""
    names = [one.name for one in board.streams]
    return [
        {"row": row, "has": [(name, name in row.groups) for name in names]}
        for row in board.presence
    ]


def _waiting(board: StreamsBoard) -> list[tuple[str, int]]:
    """Keys that lack each stream, the most first."""
    counts = {one.name: 0 for one in board.streams}
    for row in board.presence:
        for name in row.lacks:
            counts[name] += row.keys
    return sorted(((name, n) for name, n in counts.items() if n), key=lambda pair: -pair[1])


def _charts(known: dict[str, Any], arrivals: list[GroupCommitRow]) -> dict[str, Any]:
    board: StreamsBoard = known["board"]
    names = [one.name for one in board.streams]
    counts = figures.delays(arrivals, names)
    counted = over_time.rates(arrivals, names)
    charts = {
        "coverage": figures.coverage(board.coverage) if board.coverage else None,
        "completeness": figures.completeness(board.points, names),
        "watermark": figures.watermark(arrivals, names),
        "lag": figures.lag(arrivals, names),
        "lateness": figures.lateness(counts),
        "rate": over_time.rate_figure(counted, names),
        "silence": over_time.silence_figure(arrivals, names, _now_ms()),
    }
    delay_rows = [
        (name, [(stream, own[at]) for stream, own in counts.items()])
        for at, name in enumerate(figures.DELAY_NAMES)
    ]
    return {
        "figures": charts,
        "has_figures": any(charts.values()),
        "arrivals": list(reversed(arrivals))[:100],
        "delay_rows": delay_rows,
        "rates": counted,
        "rate_rows": list(reversed(counted.bins)) if counted else [],
        "silences": list(reversed(over_time.silences(arrivals)))[:100],
        "stream_names": names,
        "newest_points": list(reversed(board.points))[:100],
    }


def _as_of(
    request: HttpRequest, names: list[str], arrivals: list[GroupCommitRow]
) -> dict[str, Any]:
    """How fresh each stream was at `at` of the address; without one, now."""
    text = request.GET.get("at", "").strip()[:32]
    chosen_ms = over_time.parsed_moment(text) if text else None
    at_ms = _now_ms() if chosen_ms is None else chosen_ms
    return {
        "at_ms": at_ms,
        "at_text": figures.utc_text(at_ms).replace(" ", "T"),
        "is_chosen": chosen_ms is not None,
        "at_problem": bool(text) and chosen_ms is None,
        "moments": over_time.moments(arrivals, names, at_ms) if arrivals else [],
        "first_arrival_ms": arrivals[0].arrived_ms if arrivals else None,
    }


def _now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)


def _answers(request: HttpRequest, table: Table) -> dict[str, Any]:
    key, column = request.GET.get("key", "").strip()[:1000], request.GET.get("column", "")
    cell = {"key": key, "column": column}
    if not key or not table.groups:
        return {"asked": cell}
    try:
        partition = request.GET.get("partition")
        access = row_access(person(request), table)
        answers = explain(table, access, key=key, column=column, partition=partition)
    except PermissionDenied as error:
        return {"asked": cell, "why_problem": sentence_of(error)}
    except ControlPlaneError as error:
        values = json.dumps({k: str(v) for k, v in error.values.items()}) if error.values else ""
        return {"asked": cell, "why_problem": f"{refusal_of(error).text} {values}".strip()}
    return {"asked": cell, "answers": answers}
