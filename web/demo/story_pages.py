"""The buttons of the guided demo: do a step, fold or hide the strip, start again."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.demo.restart import do_restart_demo
from controlplane.demo.streams import SLUG
from controlplane.errors import ControlPlaneError
from controlplane.tables.access import Permission, access_table, visible_tables
from web.demo.story import COOKIE, SHAPES, after, shown_story, step_named
from web.refusals import explained, page, person

_YEAR_S = 31_536_000


@require_safe
@page
def strip(request: HttpRequest) -> HttpResponse:
    """The strip alone, fresh."""
    shown = shown_story(person(request), _back(request), request.COOKIES.get(COOKIE))
    if shown is None:
        raise Http404("demo not found")
    return render(request, "demo/story.html", {"strip": shown})


@require_POST
@page
def do_step(request: HttpRequest, name: str) -> HttpResponse:
    step = step_named(name)
    if step is None:
        raise Http404(f"the demo has no step {name}")
    by = person(request)
    access_table(by, SLUG, step.permission)
    table = visible_tables(by).filter(slug=step.slug).first()
    if table is None and step.name != "rollback":
        messages.error(
            request, "The table of this step does not exist: the demo started without it."
        )
        return redirect(_back(request))
    if table is not None:
        access_table(by, step.slug, step.permission)
    try:
        outcome = step.do(table, by)
    except ControlPlaneError as error:
        messages.error(request, explained(error))
        return redirect(_back(request))
    messages.success(request, step.started)
    return redirect(after(step, outcome))


@require_POST
@page
def shape(request: HttpRequest, what: str) -> HttpResponse:
    """Remember how this browser shows the strip."""
    if what not in SHAPES:
        raise Http404(f"the demo's strip has no shape {what}")
    answer = redirect(_back(request))
    answer.set_cookie(COOKIE, what, max_age=_YEAR_S, samesite="Lax", httponly=True)
    return answer


@require_http_methods(["GET", "HEAD", "POST"])
@page
def reset(request: HttpRequest) -> HttpResponse:
    """Says what goes; then does it."""
    by = person(request)
    table = access_table(by, SLUG, Permission.ADMINISTER)
    if request.method != "POST":
        return render(request, "demo/reset.html", {"table": table, "page": "live"})
    deletes = request.POST.get("what") == "reset"
    do_restart_demo(by, deletes=deletes, reason=request.POST.get("reason", "")[:500])
    words = (
        "The demo's tables are being deleted. A new demo starts in a minute or two."
        if deletes
        else "The guided demo is back at step 1. Streams and sink that ended start again."
    )
    messages.success(request, words)
    return redirect("tables" if deletes else _live())


def _live() -> str:
    return f"/t/{SLUG}/live"


def _back(request: HttpRequest) -> str:
    """The page that the button stands on, if it is one of ours."""
    back = request.POST.get("back") or request.GET.get("back") or ""
    is_ours = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()})
    return back if back.startswith("/") and is_ours else _live()
