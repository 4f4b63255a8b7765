"""Schedules of a table: which there are, when each is due, what came of its turns; the form."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.errors import ControlPlaneError
from controlplane.operations.ask import Requester
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.scheduled.actions import (
    do_change_schedule,
    do_delete_schedule,
    do_make_schedule,
    do_pause_schedule,
)
from controlplane.operations.scheduled.queries import (
    ScheduleRow,
    ScheduleRunRow,
    access_schedule,
    runs_of,
    schedule_row,
    schedules_of,
    visible_schedules,
)
from controlplane.operations.schedules import service_settings
from controlplane.tables.access import Permission, access_table, may
from web.confirmation import Question, ask_first, is_confirmed
from web.list_parts import ListPart, build_part, read_window
from web.refusals import explained, page, person, refusal_of
from web.schedule_forms import ScheduleForm
from web.time_zones import shown_zone

if TYPE_CHECKING:
    from controlplane.operations.models import Schedule
    from controlplane.tables.models import Table

RUNS_SHOWN = 30


@require_safe
@page
def schedules(request: HttpRequest, slug: str) -> HttpResponse:
    return render(request, "pages/schedules.html", _board(request, slug))


@require_safe
@page
def schedules_rows(request: HttpRequest, slug: str) -> HttpResponse:
    """The list and the turns, fresh."""
    return render(request, "fragments/schedules.html", _board(request, slug))


@require_http_methods(["GET", "HEAD", "POST"])
@page
def schedule_new(request: HttpRequest, slug: str) -> HttpResponse:
    """A POST makes one, in the name of whoever sends it."""
    return _form(request, slug, None)


@require_http_methods(["GET", "HEAD", "POST"])
@page
def schedule(request: HttpRequest, slug: str, schedule_id: UUID) -> HttpResponse:
    """One schedule with its turns; a POST changes it, and from then on it is the sender's."""
    return _form(request, slug, schedule_id)


@require_POST
@page
def schedule_pause(request: HttpRequest, slug: str, schedule_id: UUID) -> HttpResponse:
    """Pause it, or have it go on."""
    known = access_schedule(person(request), slug, schedule_id, Permission.OPERATE)
    is_paused = request.POST.get("is_paused") == "1"
    reason = request.POST.get("reason", "")[:REASON_CHARS_MAX]
    by = Requester.person(person(request))
    do_pause_schedule(known, is_paused=is_paused, by=by, reason=reason)
    words = "paused" if is_paused else "resumed"
    messages.success(request, f"Schedule {known.name} {words}.")
    return redirect("schedules", slug)


@require_POST
@page
def schedule_delete(request: HttpRequest, slug: str, schedule_id: UUID) -> HttpResponse:
    """After a question. What it has asked for stays."""
    known = access_schedule(person(request), slug, schedule_id, Permission.OPERATE)
    if not is_confirmed(request):
        return ask_first(request, _question(schedule_row(known, person(request))))
    reason = request.POST.get("reason", "")[:REASON_CHARS_MAX]
    try:
        do_delete_schedule(known, by=Requester.person(person(request)), reason=reason)
    except ControlPlaneError as error:
        messages.error(request, explained(error))
        return redirect("schedule", slug, schedule_id)
    messages.success(request, f"Schedule {known.name} deleted. Its operations are kept.")
    return redirect("schedules", slug)


def _question(row: ScheduleRow) -> Question:
    due = [f"{at.astimezone(shown_zone()):%Y-%m-%d %H:%M %Z}" for at in row.next_due]
    follows = "after each success of its predecessor"
    paused = "none (paused)" if row.is_paused else follows
    return Question(
        page="schedules",
        title=f"Delete the schedule {row.name}?",
        facts=[
            (
                "Runs",
                f"{row.service or row.kind} of {row.table_name}, as {row.owner or 'deleted user'}",
            ),
            ("Next runs", ", ".join(due) or paused),
            ("Running now", "its last run, which continues" if row.waits_for else "nothing"),
            ("Kept", "its operations and the audit log"),
        ],
        button="Delete schedule",
        back=reverse("schedule", args=[row.table_slug, row.id]),
    )


def _board(request: HttpRequest, slug: str) -> dict[str, object]:
    table = access_table(person(request), slug, Permission.VIEW)
    return {
        "page": "schedules",
        "table": table,
        "schedules": schedules_of(table, person(request)),
        "services": [setting for setting in service_settings(table) if setting.enabled],
        "runs": _runs(request, table),
        "may_operate": may(person(request), Permission.OPERATE, table),
    }


def _runs(request: HttpRequest, of: Table | Schedule) -> ListPart[ScheduleRunRow]:
    """Return the newest runs of a table's schedules, or of one schedule."""
    window = read_window(request.GET, "runs", RUNS_SHOWN)
    runs = runs_of(of, person(request), window.stop + 1)
    return build_part(window, runs[window.start :], total=None)


def _form(request: HttpRequest, slug: str, schedule_id: UUID | None) -> HttpResponse:
    is_sent = request.method == "POST"
    user = person(request)
    permission = Permission.OPERATE if is_sent else Permission.VIEW
    table = access_table(user, slug, permission)
    known = None if schedule_id is None else access_schedule(user, slug, schedule_id, permission)
    row = None if known is None else schedule_row(known, user)
    others = [other for other in visible_schedules(user) if row is None or other.id != row.id]
    if is_sent:
        form = ScheduleForm(request.POST, others=others)
    else:
        form = ScheduleForm.of(row, others, request.GET.get("parameters", ""))
    status, problem = (422, "") if is_sent else (200, "")
    if is_sent and form.is_valid():
        wish, by, reason = form.wish(), Requester.person(user), form.cleaned_data["reason"]
        try:
            if known is None:
                stored = do_make_schedule(table, wish, owner=user, by=by, reason=reason)
            else:
                stored = do_change_schedule(known, wish, owner=user, by=by, reason=reason)
        except PermissionDenied as error:
            status, problem = 403, str(error)
        except ControlPlaneError as error:
            status, problem = refusal_of(error).status, explained(error)
        else:
            messages.success(request, f"Schedule {stored.name} saved. It runs as you.")
            return redirect("schedule", table.slug, stored.pk)
    context = {
        "page": "schedules",
        "table": table,
        "schedule": row,
        "runs": [] if known is None else _runs(request, known),
        "form": form,
        "problem": problem,
        "may_operate": may(user, Permission.OPERATE, table),
    }
    return render(request, "pages/schedule.html", context, status=status)
