"""Dead letters of a sink on its page, and the way of some of them back to their topic."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane.errors import ControlPlaneError
from controlplane.mirror.queries.sinks import letter_commits
from controlplane.mirror.sink_letters import LetterPage, sink_letters
from controlplane.operations.actions import do_request_replay, plan_replay
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.sink_board import SinkSummary, letters_directory, sink_summary
from controlplane.tables.access import Permission, access_table
from controlplane.tables.row_access import row_access
from web.refusals import explained, page, person, sentence_of

if TYPE_CHECKING:
    from controlplane.tables.models import Table

CAUSE_CHARS_MAX = 2_000


def letters_context(request: HttpRequest, table: Table, sink: SinkSummary) -> dict[str, Any]:
    """Which commits left records out; their records only where a person asked for one commit."""
    context: dict[str, Any] = {"letter_commits": letter_commits(table, sink.sink_id)}
    instant = request.GET.get("dead_letters", "")[:17]
    if not instant:
        return context
    try:
        directory = letters_directory(sink)
        access = row_access(person(request), table)
        letters = sink_letters(table, access, sink.sink_id, instant, directory=directory)
    except PermissionDenied as error:
        context["dead_letters_problem"] = sentence_of(error)
    except ControlPlaneError as error:
        context["dead_letters_problem"] = explained(error)
    else:
        context |= {"dead_letters": letters, "letter_causes": _causes(letters)}
    return context | {"rejecting_instant": instant}


@require_http_methods(["GET", "HEAD", "POST"])
@page
def replay(request: HttpRequest, slug: str, sink_id: str) -> HttpResponse:
    """What would be sent, and the question why."""
    table = access_table(person(request), slug, Permission.ADMINISTER)
    is_posted = request.method == "POST"
    wanted = _letters_wanted(request.POST if is_posted else request.GET)
    reason = request.POST.get("reason", "")[:REASON_CHARS_MAX]
    context: dict[str, Any] = {
        "page": "sinks",
        "table": table,
        "sink": sink_summary(table, sink_id),
        "asked": wanted,
        "chosen": wanted["letters"],
        "back_url": _letters_url(table, sink_id, wanted["instant"]),
        "reason": reason,
        "key": request.POST.get("idempotency_key", "")[:100] or uuid.uuid4(),
    }
    try:
        if is_posted:
            operation = do_request_replay(
                table,
                sink_id,
                by=person(request),
                reason=reason,
                idempotency_key=str(context["key"]),
                **wanted,
            )
            return redirect("operation", table.slug, operation.pk)
        context["plan"] = plan_replay(table, sink_id, **wanted)
    except ControlPlaneError as error:
        context["problem"] = explained(error)
    return render(request, "pages/sink_replay.html", context, status=_status(context))


def _letters_url(table: Table, sink_id: str, instant: str) -> str:
    """Back to where the letters were chosen, opened at their commit."""
    chosen = {"sink": sink_id, "dead_letters": instant} if instant else {"sink": sink_id}
    where = "#dead-letter-rows" if instant else ""
    return f"{reverse('sinks', args=[table.slug])}?{urlencode(chosen)}{where}"


def _status(context: dict[str, Any]) -> int:
    return 409 if context.get("problem") else 200


def _letters_wanted(given: QueryDict) -> dict[str, Any]:
    return {
        "instant": given.get("instant", "")[:17],
        "letters": given.getlist("dead_letter"),
        "cause": given.get("cause", "")[:CAUSE_CHARS_MAX],
    }


def _causes(letters: LetterPage | None) -> list[str]:
    """Of the letters that are shown and not sent again yet, as they come."""
    waiting = [one.cause for one in letters.rows if one.sent_at is None] if letters else []
    return list(dict.fromkeys(waiting))
