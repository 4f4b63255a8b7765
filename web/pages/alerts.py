"""Alerts: which health checks of which tables fire now, who knows of them, and by which rules."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.errors import ControlPlaneError
from controlplane.monitoring.actions import do_change_rule, do_end_silence, do_silence
from controlplane.monitoring.alert_rules import FIRES, list_rules
from controlplane.monitoring.queries import FIRING_MAX, AlertRow, get_alert_row, load_alert_board
from controlplane.monitoring.severities import SEVERITIES
from controlplane.tables.access import Permission, access_table, may_everywhere, may_see_some
from web.forms import AlertRuleForm, SilenceForm
from web.list_parts import ALL
from web.refusals import page, person, refusal_of, sentence_of

ALERTS_MAX = 20_000
"""Firing alerts of a page that lists all."""


@require_safe
@page
def alerts(request: HttpRequest) -> HttpResponse:
    context = {
        "page": "alerts",
        "may_change_rules": may_everywhere(person(request), Permission.ADMINISTER),
        **_board(request),
    }
    return render(request, "pages/alerts.html", context)


@require_safe
@page
def alerts_rows(request: HttpRequest) -> HttpResponse:
    return render(request, "fragments/alerts.html", _board(request))


@require_http_methods(["GET", "HEAD", "POST"])
@page
def silence(request: HttpRequest, alert_id: int) -> HttpResponse:
    """What is silenced, for how long and why."""
    alert = _alert_to_change(request, alert_id)
    form = SilenceForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            do_silence(
                table=access_table(person(request), alert.slug, Permission.OPERATE),
                check=alert.check,
                by=person(request),
                **form.words,
            )
        except PermissionDenied as error:
            form.add_error("reach", sentence_of(error))
        else:
            return redirect("alerts")
    context = {"page": "alerts", "alert": alert, "form": form}
    status = 422 if request.method == "POST" else 200
    return render(request, "pages/alert_silence.html", context, status=status)


@require_POST
@page
def unsilence(request: HttpRequest, alert_id: int) -> HttpResponse:
    alert = _alert_to_change(request, alert_id)
    access_table(person(request), alert.slug, Permission.OPERATE)
    try:
        do_end_silence(alert_id=alert.id, by=person(request))
    except PermissionDenied as error:
        messages.error(request, sentence_of(error))
    return redirect("alerts")


@require_safe
@page
def alert_rules(request: HttpRequest) -> HttpResponse:
    _refuse_who_sees_nothing(request)
    rows = list_rules()
    context = {
        "page": "alerts",
        "check_rules": [row for row in rows if not row.is_event],
        "event_rules": [row for row in rows if row.is_event],
        "severities": SEVERITIES,
        "fires": FIRES.items(),
        "may_change_rules": may_everywhere(person(request), Permission.ADMINISTER),
    }
    return render(request, "pages/alert_rules.html", context)


@require_POST
@page
def alert_rule(request: HttpRequest, check: str) -> HttpResponse:
    if not may_everywhere(person(request), Permission.ADMINISTER):
        raise PermissionDenied("this requires the admin role")
    form = AlertRuleForm(request.POST)
    if not form.is_valid():
        messages.error(
            request,
            "The delay must be 0 to 1,440 minutes; events stay open 1 to 10,080 minutes.",
        )
        return redirect("alert-rules")
    wanted = {name: given for name, given in form.cleaned_data.items() if given is not None}
    try:
        do_change_rule(check=check, by=person(request), **wanted)
    except ControlPlaneError as error:
        messages.error(request, refusal_of(error).text)
    return redirect("alert-rules")


def _board(request: HttpRequest) -> dict[str, Any]:
    _refuse_who_sees_nothing(request)
    is_whole = request.GET.get(ALL) == "firing"
    firing_max = ALERTS_MAX if is_whole else FIRING_MAX
    return {"board": load_alert_board(person(request), timezone.now(), firing_max)}


def _refuse_who_sees_nothing(request: HttpRequest) -> None:
    if not may_see_some(person(request)):
        raise PermissionDenied("this requires the viewer role")


def _alert_to_change(request: HttpRequest, alert_id: int) -> AlertRow:
    """Raises PermissionDenied for who sees nothing, or sees its table only; Http404."""
    _refuse_who_sees_nothing(request)
    alert = get_alert_row(person(request), alert_id, timezone.now())
    if not alert.may_silence:
        raise PermissionDenied("this requires the operator role")
    return alert
