"""The demo's buttons: each starts something real, and says what you will see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from controlplane.errors import ControlPlaneError
from controlplane.operations.services import (
    kill_demo_writer,
    start_demo_conflict,
    start_demo_schema_conflict,
)
from controlplane.tables.access import Permission, access_table
from web.doors import page, person, told


@dataclass(frozen=True, slots=True)
class DemoButton:
    name: str
    text: str
    icon: str
    hint: str
    started: str
    start: Callable[..., Any]


BUTTONS = (
    DemoButton(
        name="conflict",
        text="Start two optimistic writers",
        icon="conflict",
        hint="Two writers in optimistic mode on the same file groups: one loses, and its conflict shows below.",
        started="Two optimistic writers start on the same file groups. One of them will lose; watch Conflicts.",
        start=start_demo_conflict,
    ),
    DemoButton(
        name="schema",
        text="Change the schema under a writer",
        icon="timeline",
        hint="A writer changes the schema while another, which began before it, adds something else.",
        started="Two writers change the schema in different ways. The second to finish will be refused.",
        start=start_demo_schema_conflict,
    ),
    DemoButton(
        name="kill",
        text="Kill a writer",
        icon="failed",
        hint="SIGKILL to one running demo writer: its heartbeat stops, then its instant is rolled back.",
        started="A writer was killed. Its heartbeat grows old, expires, and its instant is rolled back.",
        start=kill_demo_writer,
    ),
)


@require_POST
@page
def demo(request: HttpRequest, slug: str, button: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.OPERATE)
    chosen = next((one for one in BUTTONS if one.name == button), None)
    if chosen is None:
        raise Http404(f"there is no button {button}")
    try:
        chosen.start(table, person(request))
    except ControlPlaneError as error:
        messages.error(request, told(error)[2])
    else:
        messages.success(request, chosen.started)
    return redirect("live", slug)
