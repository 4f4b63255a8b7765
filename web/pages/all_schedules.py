"""Schedules of all tables, with their runs as a grid over days."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.operations.scheduled.queries import visible_schedules
from controlplane.operations.scheduled.run_days import list_days, schedule_days
from controlplane.tables.access import may_see_some
from web.curl import format_call
from web.refusals import page, person

DAYS = 14


@require_safe
@page
def all_schedules(request: HttpRequest) -> HttpResponse:
    """The list and the grid. Raises PermissionDenied for users who see no table."""
    reader = person(request)
    if not may_see_some(reader):
        raise PermissionDenied("this requires the viewer role")
    days = list_days(DAYS)
    runs = {(row.schedule_id, row.day): row for row in schedule_days(reader, DAYS)}
    schedules = visible_schedules(reader)
    context = {
        "page": "all-schedules",
        "days": days,
        "days_curl": format_call(request, "schedule_days", days=DAYS),
        "lines": [
            (schedule, [(day, runs.get((schedule.id, day.isoformat()))) for day in days])
            for schedule in schedules
        ],
    }
    return render(request, "pages/all_schedules.html", context)
