"""The demo's buttons: each starts something real, and says what you will see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from controlplane.demo.actions import (
    KILL_TASK,
    do_kill_demo_writer,
    do_start_demo_conflict,
    do_start_demo_schema_conflict,
    find_obstacles,
)
from controlplane.demo.source_kinds import BACKFILL, EVOLVE
from controlplane.demo.streams import SLUG, DemoRun, has_demo_ended, start_streams
from controlplane.errors import ControlPlaneError
from controlplane.tables.access import Permission, access_table
from web.refusals import page, person, refusal_of

if TYPE_CHECKING:
    from controlplane.tables.models import Table


@dataclass(frozen=True, slots=True)
class DemoButton:
    name: str
    text: str
    icon: str
    hint: str
    started: str
    needs: str
    """What `find_obstacles` calls it."""
    start: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ShownButton:
    button: DemoButton
    obstacle: str
    """Why it cannot be pressed now; empty when it can."""


BUTTONS = (
    DemoButton(
        name="conflict",
        text="Start two optimistic writers",
        icon="conflict",
        hint="Two optimistic writers on the same file groups: one loses; Why it lost shows both.",
        started="Two optimistic writers start on the same file groups. One will lose.",
        needs=BACKFILL,
        start=do_start_demo_conflict,
    ),
    DemoButton(
        name="schema",
        text="Change the schema under a writer",
        icon="timeline",
        hint="Two writers begin on one schema and change it in different ways: RFC-82, case 8.",
        started="Two writers change the schema in different ways. The second to finish is refused.",
        needs=EVOLVE,
        start=do_start_demo_schema_conflict,
    ),
    DemoButton(
        name="kill",
        text="Kill a writer",
        icon="failed",
        hint="SIGKILL to a running demo writer: its heartbeat stops, its instant is rolled back.",
        started="A writer was killed. Its heartbeat grows old and expires; then it is rolled back.",
        needs=KILL_TASK,
        start=do_kill_demo_writer,
    ),
)


def is_demo(table: Table) -> bool:
    """Whether the buttons belong on this table's page: they write ad requests, and nothing else
    holds those.
    """
    return (table.record_key, table.partition_by) == ("request_id", "region")


def buttons(table: Table) -> dict[str, Any]:
    """Return the context of the demo's part in the head of the live page."""
    if not is_demo(table):
        return {"buttons": ()}
    obstacles = find_obstacles(table)
    return {
        "buttons": [ShownButton(button, obstacles.get(button.needs, "")) for button in BUTTONS],
        "has_demo_ended": has_demo_ended(table),
        "has_story": table.slug == SLUG,
        "conflict_hint": "The first demo button makes one happen.",
    }


@require_POST
@page
def restart(request: HttpRequest, slug: str) -> HttpResponse:
    """What `manage.py demo --start` does for the streams, by whoever pressed the button."""
    table = access_table(person(request), slug, Permission.OPERATE)
    if not is_demo(table) or table.slug != SLUG:
        raise Http404("this is not the demo's table")
    try:
        started = start_streams(person(request), DemoRun())
    except ControlPlaneError as error:
        messages.error(request, refusal_of(error).text)
    else:
        names = ", ".join(started.streams)
        words = f"The demo starts again: {names}, {started.rounds} rounds."
        messages.success(request, words if names else "The demo runs already.")
    return redirect("live", slug)


@require_POST
@page
def demo(request: HttpRequest, slug: str, button: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.ADMINISTER)
    chosen = next((one for one in BUTTONS if one.name == button), None)
    if chosen is None or not is_demo(table):
        raise Http404(f"button {button} not found")
    try:
        chosen.start(table, person(request))
    except ControlPlaneError as error:
        messages.error(request, refusal_of(error).text)
    else:
        messages.success(request, chosen.started)
    return redirect("live", slug)
