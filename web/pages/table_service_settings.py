"""When a service runs by itself: one small form per service, for operators."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from controlplane.errors import ControlPlaneError
from controlplane.operations.actions import do_update_service_setting
from controlplane.operations.descriptions.services import get_service, read_parameters
from controlplane.operations.schedules import service_settings
from controlplane.tables.access import Permission, access_table, may
from web.forms import ServiceSettingForm
from web.refusals import page, person, refusal_of


@require_http_methods(["GET", "HEAD", "POST"])
@page
def setting(request: HttpRequest, slug: str, service: str) -> HttpResponse:
    permission = Permission.ADMINISTER if request.method == "POST" else Permission.VIEW
    table = access_table(person(request), slug, permission)
    known = next((one for one in service_settings(table) if one.service == service), None)
    if known is None:
        raise Http404(f"service {service} has no schedule")
    form = ServiceSettingForm(
        request.POST if request.method == "POST" else None,
        initial={
            "enabled": known.enabled,
            "every_minutes": max(1, known.every_s // 60),
            "trigger_commits": known.trigger_commits,
        },
    )
    status, problem = 200, ""
    if request.method == "POST" and form.is_valid():
        try:
            do_update_service_setting(
                table=table,
                service=service,
                enabled=form.cleaned_data["enabled"],
                every_s=form.cleaned_data["every_minutes"] * 60,
                trigger_commits=form.cleaned_data["trigger_commits"],
                parameters=read_parameters(service, request.POST),
                by=person(request),
            )
        except ControlPlaneError as error:
            status, title, text = refusal_of(error)
            problem = f"{title}. {text}"
        else:
            title = get_service(service).title.lower()
            messages.success(request, f"Schedule of {title} saved.")
            return redirect("services", table.slug)
    elif request.method == "POST":
        status = 422
    parameters = (
        read_parameters(service, request.POST) if request.method == "POST" else known.parameters
    )
    context = {
        "page": "services",
        "table": table,
        "service": service,
        "words": get_service(service),
        "setting": known,
        "choices": [(one, parameters.get(one.name, "")) for one in get_service(service).fields],
        "form": form,
        "problem": problem,
        "may_change": may(person(request), Permission.ADMINISTER, table),
    }
    return render(request, "pages/service_setting.html", context, status=status)
