"""The rollback wizard: choose, plan, confirm, run, verify. The plan is the only page that looks at
storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from csp.constants import SELF, UNSAFE_INLINE
from csp.decorators import csp_replace
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from controlplane.errors import ControlPlaneError, PlanVoid
from controlplane.mirror.queries.table_details import instant_detail
from controlplane.mirror.timeline_rows import InstantRow, timeline_window
from controlplane.operations.actions import (
    PlanView,
    do_pause_writers,
    do_request_rollback,
    do_resume_writers,
    find_pause,
    find_running_writers,
    plan_rollback,
)
from controlplane.operations.approvals.rules import ROLLBACK
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.queries import OperationRow, recent_operations
from controlplane.tables.access import Permission, access_table, may
from controlplane.tables.queries import DATA_ACTIONS
from controlplane.tables.row_access import row_access
from controlplane.writers.queries import writers_board
from web.forms import RollbackForm
from web.list_parts import ListPart, build_part, cut_list, read_window
from web.plans import files_treemap
from web.refusals import explained, page, person, refusal_of
from web.rollback_flow import approver_wanted

if TYPE_CHECKING:
    from controlplane.tables.models import Table

_PAUSING = {
    "pause": (do_pause_writers, "Writers are pausing. Streams end their current batch first."),
    "resume": (do_resume_writers, "Writers are restarting from their last commit."),
}
CHOICES_SHOWN = 40
PAST_SHOWN = 10
FILES_SHOWN = 500


@dataclass(frozen=True, slots=True)
class _Choice:
    row: InstantRow
    verdict: Literal["ready", "alive", "later"]
    words: str
    with_newer: str = ""
    """It and all that completed later, with commas between them; empty for what needs none."""


@dataclass(frozen=True, slots=True)
class _File:
    partition: str
    name: str
    bytes: int


@require_safe
@page
def rollback(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    newest = recent_operations(table, person(request), 50)
    past = [one for one in newest if _is_rollback(one)][:PAST_SHOWN]
    context = {
        "page": "rollback",
        "table": table,
        "choices": _choices(request, table),
        "past": past,
        "approver": approver_wanted(table, ROLLBACK),
        "pause": find_pause(table),
    }
    return render(request, "pages/rollback.html", context)


@require_safe
@page
def choices(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    return render(
        request, "fragments/choices.html", {"table": table, "choices": _choices(request, table)}
    )


# Plotly puts a style element of its own into the page.
@csp_replace({"style-src": [SELF, UNSAFE_INLINE]})
@require_http_methods(["GET", "HEAD", "POST"])
@page
def rollback_plan(request: HttpRequest, slug: str, instant: str) -> HttpResponse:
    """Show what would be deleted; a POST with the name typed and a reason asks for it."""
    permission = Permission.ADMINISTER if request.method == "POST" else Permission.VIEW
    table = access_table(person(request), slug, permission)
    if request.method == "POST":
        return _confirm(request, table, instant)
    return _show_plan(request, table, instant, form=None, problem=None)


@require_POST
@page
def writers_pause(request: HttpRequest, slug: str, change: str) -> HttpResponse:
    """Pause what writes the table by itself, or resume it; then back to the plan."""
    table = access_table(person(request), slug, Permission.ADMINISTER)
    act, done = _PAUSING[change]
    try:
        act(table, by=person(request), reason=request.POST.get("reason", "")[:REASON_CHARS_MAX])
    except ControlPlaneError as error:
        messages.error(request, explained(error))
    else:
        messages.success(request, done)
    back = request.POST.get("back", "")
    is_ours = url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    return redirect(back if is_ours else reverse("rollback", args=[slug]))


def _confirm(request: HttpRequest, table: Table, instant: str) -> HttpResponse:
    form = RollbackForm(request.POST, expected_names=(table.name, table.slug))
    if not form.is_valid():
        return _show_plan(request, table, instant, form=form, problem=None, status=422)
    try:
        operation = do_request_rollback(
            table,
            instant,
            form.cleaned_data["plan_hash"],
            form.cleaned_data["reason"],
            form.cleaned_data["typed_name"],
            person(request),
            idempotency_key=str(form.cleaned_data["idempotency_key"]),
        )
    except PlanVoid as error:
        # What was typed stays; the hash and the key are those of the new plan.
        return _show_plan(request, table, instant, form=form, problem=error, is_new_plan=True)
    except ControlPlaneError as error:
        return _show_plan(request, table, instant, form=form, problem=error)
    return redirect("operation", table.slug, operation.pk)


def _show_plan(
    request: HttpRequest,
    table: Table,
    instant: str,
    *,
    form: RollbackForm | None,
    problem: ControlPlaneError | None,
    is_new_plan: bool = False,
    status: int = 200,
) -> HttpResponse:
    plan: PlanView | None = None
    try:
        plan = plan_rollback(table, instant)
    except ControlPlaneError as error:
        problem = problem or error
    if plan and (form is None or is_new_plan):
        typed = form.data if form is not None else {}
        form = RollbackForm.of(plan)
        form.initial.update({key: typed[key] for key in ("typed_name", "reason") if key in typed})
    context: dict[str, Any] = {
        "page": "rollback",
        "table": table,
        "instant": instant,
        "plan": plan,
        "form": form,
        "approver": approver_wanted(table, ROLLBACK),
        "pause": find_pause(table),
        "running": find_running_writers(table),
        "may_run": bool(plan and plan.is_executable)
        and may(person(request), Permission.ADMINISTER, table),
    }
    if plan:
        detail = instant_detail(table, row_access(person(request), table), instant)
        files = [_file(one.path, one.bytes) for one in plan.files]
        context |= {
            "row": detail.row if detail and not detail.row.is_undone else None,
            "files": cut_list(request.GET, "files", files, FILES_SHOWN),
            "treemap": files_treemap([(one.path, one.bytes) for one in plan.files]),
        }
    if problem is not None:
        status, title, text = refusal_of(problem)
        context["problem"] = {"title": f"{title}.", "text": text}
    return render(request, "pages/rollback_plan.html", context, status=status)


def _is_rollback(operation: OperationRow) -> bool:
    return operation.kind == "rollback" or operation.service == "rollback_several"


def _choices(request: HttpRequest, table: Table) -> ListPart[_Choice]:
    window = read_window(request.GET, "choices", CHOICES_SHOWN)
    limit = window.stop + 1
    rows = timeline_window(table, actions=DATA_ACTIONS, limit=limit, archived=False).rows
    # A choice names all newer writes, those on earlier pages among them.
    choices = choose(rows, alive=_alive(table, timezone.now()))
    return build_part(window, choices[window.start : limit], total=None)


def _alive(table: Table, now: datetime) -> frozenset[str]:
    board = writers_board(table, now)
    return frozenset(row.instant for row in board if row.state in ("alive", "suspect"))


def choose(rows: Sequence[InstantRow], *, alive: frozenset[str]) -> list[_Choice]:
    """What the mirror says of each instant; the plan has the last word."""
    by_completion = sorted(
        (row for row in rows if row.completed_at),
        key=lambda row: row.completed_at or "",
        reverse=True,
    )
    names = [row.requested_at for row in by_completion]
    newer = {name: names[:at] for at, name in enumerate(names)}
    return [_choice(row, newer.get(row.requested_at), row.requested_at in alive) for row in rows]


def _choice(row: InstantRow, newer: list[str] | None, is_alive: bool) -> _Choice:
    if newer is None:
        if is_alive:
            return _Choice(row, "alive", "writer is active")
        return _Choice(row, "ready", "possible: writer ended")
    if not newer:
        return _Choice(row, "ready", "possible: newest write")
    words = f"after {len(newer)} newer one{'' if len(newer) == 1 else 's'}"
    return _Choice(row, "later", words, ",".join([*newer, row.requested_at]))


def _file(path: str, size: int) -> _File:
    partition, _, name = path.rpartition("/")
    return _File(partition=partition, name=name, bytes=size)
