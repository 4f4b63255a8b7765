"""What a person chooses for himself: the time zone that pages write times in, and views of the list
of tables that he kept.
"""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from controlplane.preferences.choices import (
    BROWSER,
    choices_of,
    do_choose_time_zone,
    do_delete_view,
    zone_names,
)
from web.confirmation import Question, ask_first, is_confirmed
from web.refusals import page, person
from web.time_zones import COOKIE, remember_choice

NAMED = "named"


@require_http_methods(["GET", "HEAD", "POST"])
@page
def preferences(request: HttpRequest) -> HttpResponse:
    """A POST chooses the time zone."""
    if request.method == "POST":
        way = request.POST.get("zone", "")
        choice = request.POST.get("name", "").strip() if way == NAMED else way
        do_choose_time_zone(person(request), choice)
        remember_choice(request, choice)
        messages.success(request, "Time zone saved.")
        return redirect("preferences")
    choices = choices_of(person(request))
    context = {
        "page": "preferences",
        "choices": choices,
        "is_named": choices.time_zone not in ("", BROWSER),
        "browser_zone": request.COOKIES.get(COOKIE, "")[:64],
        "zones": zone_names(),
    }
    return render(request, "pages/preferences.html", context)


@require_POST
@page
def view_delete(request: HttpRequest) -> HttpResponse:
    """Delete the view of the list of tables that the form names, after a question."""
    name, back = request.POST.get("name", ""), reverse("preferences") + "#views"
    if not is_confirmed(request):
        question = Question(
            page="preferences",
            title=f"Delete the view {name[:80]}?",
            facts=[("Deleted", "its filters, columns and order; no tables")],
            button="Delete view",
            back=back,
            takes_reason=False,
        )
        return ask_first(request, question)
    do_delete_view(person(request), name)
    return redirect(back)
