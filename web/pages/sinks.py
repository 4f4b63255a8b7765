"""The sinks of a table: how each is and what it waits for, the three offsets of its partitions, and
what became of its transactions; starting, stopping and launching it again.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from controlplane.errors import ControlPlaneError
from controlplane.mirror.queries.sinks import (
    ODD,
    PARTICIPANTS_SHOWN,
    ParticipantRow,
    participants,
    sink_record,
    trace,
    transactions,
)
from controlplane.operations.actions import do_relaunch_sink, do_start_sink, do_stop_sink
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.sink_board import (
    SinkSummary,
    sink_summary,
    sinks_board,
)
from controlplane.tables.access import Permission, access_table, may
from controlplane.tables.row_access import row_access
from web import sink_figures as figures
from web.list_parts import cut_list
from web.pages.sink_letters import letters_context
from web.refusals import explained, page, person, refusal_of
from web.sink_forms import SinkForm

if TYPE_CHECKING:
    from controlplane.tables.models import Table

PARTS = ("state", "trace", "participants", "transactions", "dead_letters")
TRACE_ROWS = 100
PARTICIPANTS_READ = 100_000
_POSTED = require_http_methods(["GET", "HEAD", "POST"])


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_safe
@page
def sinks(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    return render(request, "pages/sinks.html", _context(request, table, request.GET.get("sink")))


@require_safe
@page
def sinks_list(request: HttpRequest, slug: str) -> HttpResponse:
    """Which sinks there are, the chosen one marked."""
    table = access_table(person(request), slug, Permission.VIEW)
    board = sinks_board(table, is_whole=_is_whole(request, table))
    context = {"table": table, "board": board, "sink": _chosen(board, request.GET.get("sink"))}
    return render(request, "fragments/sink_list.html", context)


@require_safe
@page
def sinks_part(request: HttpRequest, slug: str, sink_id: str, part: str) -> HttpResponse:
    """One fragment, fresh."""
    table = access_table(person(request), slug, Permission.VIEW)
    if part not in PARTS:
        raise Http404(f"part {part} not found")
    return render(request, f"fragments/sink_{part}.html", _context(request, table, sink_id))


@_POSTED
@page
def start(request: HttpRequest, slug: str) -> HttpResponse:
    is_posted = request.method == "POST"
    permission = Permission.OPERATE if is_posted else Permission.VIEW
    table = access_table(person(request), slug, permission)
    may_operate = may(person(request), Permission.OPERATE, table)
    form = SinkForm(
        request.POST if is_posted else None, namespace=table.namespace if may_operate else ""
    )
    status, problem = 200, ""
    if is_posted and form.is_valid():
        cleaned = form.cleaned_data
        try:
            operation = do_start_sink(
                table,
                form.options,
                by=person(request),
                reason=cleaned["reason"],
                application=cleaned["application"],
                relaunches_max=cleaned["relaunches_max"],
                idempotency_key=_key(request),
            )
        except ControlPlaneError as error:
            status, problem = refusal_of(error).status, explained(error)
        else:
            return _to_sink(table, operation.sink_id)
    elif is_posted:
        status = 422
    context = {
        "page": "sinks",
        "table": table,
        "form": form,
        "problem": problem,
        "key": uuid.uuid4(),
        "may_operate": may_operate,
    }
    return render(request, "pages/sink_start.html", context, status=status)


@_POSTED
@page
def stop(request: HttpRequest, slug: str, sink_id: str) -> HttpResponse:
    """What stopping means, and the question how."""
    table = access_table(person(request), slug, Permission.OPERATE)
    if request.method == "POST":
        try:
            do_stop_sink(
                table,
                sink_id,
                by=person(request).get_username(),
                is_hard=request.POST.get("kind") == "hard",
                reason=request.POST.get("reason", "")[:REASON_CHARS_MAX],
            )
        except ControlPlaneError as error:
            messages.error(request, explained(error))
        return _to_sink(table, sink_id)
    context = {
        "page": "sinks",
        "table": table,
        "sink": sink_summary(table, sink_id, is_whole=_is_whole(request, table)),
    }
    return render(request, "pages/sink_stop.html", context)


@_POSTED
@page
def relaunch(request: HttpRequest, slug: str, sink_id: str) -> HttpResponse:
    """The options that it would have again, and the question why."""
    table = access_table(person(request), slug, Permission.OPERATE)
    if request.method == "POST":
        try:
            do_relaunch_sink(
                table,
                sink_id,
                by=person(request),
                reason=request.POST.get("reason", "")[:REASON_CHARS_MAX],
                idempotency_key=_key(request),
            )
        except ControlPlaneError as error:
            messages.error(request, explained(error))
        return _to_sink(table, sink_id)
    context = {
        "page": "sinks",
        "table": table,
        "sink": sink_summary(table, sink_id, is_whole=_is_whole(request, table)),
        "key": uuid.uuid4(),
    }
    return render(request, "pages/sink_relaunch.html", context)


def _to_sink(table: Table, sink_id: str) -> HttpResponse:
    return redirect(f"{reverse('sinks', args=[table.slug])}?sink={sink_id}")


def _key(request: HttpRequest) -> str | None:
    return request.POST.get("idempotency_key", "")[:100] or None


def _context(request: HttpRequest, table: Table, wanted_id: str | None) -> dict[str, Any]:
    now = timezone.now()
    is_whole = _is_whole(request, table)
    board = sinks_board(table, now, is_whole=is_whole)
    sink = _chosen(board, wanted_id)
    if wanted_id and sink is not None and sink.sink_id != wanted_id:
        raise Http404(f"this table has no sink {wanted_id}")
    context = {
        "page": "sinks",
        "table": table,
        "board": board,
        "sink": sink,
        "may_operate": may(person(request), Permission.OPERATE, table),
        "may_administer": may(person(request), Permission.ADMINISTER, table),
    }
    if sink is not None:
        now_ms = int(now.timestamp() * 1000)
        context |= _detail(request.GET, table, sink, now_ms, is_whole=is_whole) | letters_context(
            request, table, sink
        )
    return context


def _is_whole(request: HttpRequest, table: Table) -> bool:
    return row_access(person(request), table).sees_all


def _chosen(board: list[SinkSummary], wanted_id: str | None) -> SinkSummary | None:
    """The one that was asked for, else the one that needs somebody most."""
    return next((one for one in board if one.sink_id == wanted_id), board[0] if board else None)


def _detail(
    query: QueryDict, table: Table, sink: SinkSummary, now_ms: int, *, is_whole: bool
) -> dict[str, Any]:
    record = sink_record(table, sink.sink_id) if sink.seen else None
    if record is None or sink.seen is None:
        nothing = figures.nothing()
        return {"waits_for": "", "figures": {"sequence": nothing, "outcomes": nothing}}
    seen = sink.seen
    rows = participants(record, limit=PARTICIPANTS_READ)
    done, messages_ = transactions(record, is_whole=is_whole), trace(record, is_whole=is_whole)
    missing = {one.partition for one in seen.waits_for}
    waits_for = "WRITE_STATUS" if seen.state != "STARTED_COMMIT" else "answer to START_COMMIT"
    sequence = figures.sequence(
        messages_,
        [one.partition for one in rows],
        missing=missing,
        waits_for=waits_for,
        now_ms=int(seen.updated_at.timestamp() * 1000) if seen.updated_at else now_ms,
    )
    timeline = reverse("timeline", args=[table.slug])
    return {
        "waits_for": waits_for,
        "participants": cut_list(
            query, "participants", _ordered(rows, missing), PARTICIPANTS_SHOWN
        ),
        "missing": missing,
        "odd": sum(one.agreement in ODD for one in rows),
        "transactions": done,
        "trace": cut_list(query, "trace", list(reversed(messages_)), TRACE_ROWS),
        "counters": sorted(seen.counters.items()),
        "figures": {
            "sequence": sequence or figures.nothing(),
            "outcomes": figures.outcomes(done, address=timeline) or figures.nothing(),
        },
    }


def _ordered(
    rows: list[ParticipantRow], missing: set[int]
) -> list[tuple[ParticipantRow, bool, bool]]:
    """(row, is it waited for, do its offsets disagree), what needs a look first."""
    marked = [(one, one.partition in missing, one.agreement in ODD) for one in rows]
    return sorted(marked, key=lambda mark: (not mark[1], not mark[2], mark[0].partition))
