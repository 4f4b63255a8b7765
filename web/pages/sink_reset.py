"""Where a sink goes on: to where is asked first, then its plan is shown and confirmed."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from controlplane.errors import ControlPlaneError
from controlplane.operations.actions import do_reset_sink, plan_sink_reset
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.sink_board import sink_summary
from controlplane.tables.access import Permission, access_table
from web.refusals import explained, page, person, refusal_of

OFFSETS_CHARS_MAX = 60_000


@require_http_methods(["GET", "HEAD", "POST"])
@page
def reset(request: HttpRequest, slug: str, sink_id: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.ADMINISTER)
    is_posted = request.method == "POST"
    given = request.POST if is_posted else request.GET
    to = given.get("to", "")
    if to == "offsets":
        to = given.get("offsets", "")
    to = to.strip()[:OFFSETS_CHARS_MAX]
    context: dict[str, Any] = {
        "page": "sinks",
        "table": table,
        "sink": sink_summary(table, sink_id),
        "to": to,
        "reason": request.POST.get("reason", "")[:REASON_CHARS_MAX],
        "typed_name": request.POST.get("typed_name", "")[:200],
        "key": request.POST.get("idempotency_key", "")[:100] or uuid.uuid4(),
    }
    status = 200
    try:
        if is_posted:
            done = do_reset_sink(
                table,
                sink_id,
                to=to,
                plan_hash=request.POST.get("plan_hash", "")[:64],
                typed_name=context["typed_name"],
                reason=context["reason"],
                by=person(request).get_username(),
                idempotency_key=str(context["key"]),
            )
            messages.success(request, f"Offsets of {sink_id} reset in commit {done.instant}.")
            return redirect(f"{reverse('sinks', args=[table.slug])}?sink={sink_id}")
    except ControlPlaneError as error:
        status, context["problem"] = refusal_of(error).status, explained(error)
    if to:
        try:
            plan = plan_sink_reset(table, sink_id, to=to)
            context["plan"] = plan
            context["partitions"] = [(row, row.stands) for row in plan.partitions]
        except ControlPlaneError as error:
            status = refusal_of(error).status
            context.setdefault("problem", explained(error))
    return render(request, "pages/sink_reset.html", context, status=status)
