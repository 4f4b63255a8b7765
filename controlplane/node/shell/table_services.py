"""Table services from the shell: the plan on the screen, then the run in this process.

What takes committed data away is only shown unless `--yes` or the hash of a plan that was shown
before says otherwise. Whoever has this shell has the database and the files, so no role is asked
for; the audit says who it was by their name on this machine.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.audit.actions import record
from controlplane.errors import NotAllowedNow, PlanVoid
from controlplane.mirror.storage import engine_table
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import ServicePlanView, plan_service
from controlplane.tables.models import Table
from workers.options.write_options import write_options
from workers.table_services import registry
from workers.table_services.service import ServiceOutcome, ServiceRequest

ITEMS_SHOWN = 20
_SHOWN_WHOLE = frozenset({"repair"})
"""Each file of these has evidence of its own, which a person is to look at."""
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCommand:
    service: str
    parameters: Mapping[str, str]
    reason: str
    is_confirmed: bool
    """`--yes`, or nothing that takes data away was asked for."""
    plan_hash: str
    is_dry: bool


def plan_and_run(table: Table, command: ServiceCommand, say: Say) -> None:
    """Raises what `plan_service` raises, PlanVoid, NotAllowedNow, LakehouseError."""
    view = plan_service(table, command.service, command.parameters, None, is_shell=True)
    show_plan(view, say)
    if command.plan_hash and command.plan_hash != view.plan_hash:
        raise PlanVoid("the table changed since that plan was shown", now=view.plan_hash)
    if view.blockers:
        raise NotAllowedNow("this service is blocked", blockers="; ".join(view.blockers))
    if view.is_empty:
        say("nothing to do")
        return
    if command.is_dry or not (command.is_confirmed or command.plan_hash):
        say(f"nothing was changed; --yes or --plan-hash {view.plan_hash} carries it out")
        return
    outcome = _run(table, command, view, say)
    for line in (outcome.summary, *outcome.warnings):
        say(line)
    sync_table(table)


def show_plan(view: ServicePlanView, say: Say) -> None:
    say(f"{view.service}: {view.summary} (plan {view.plan_hash})")
    shown = view.items if view.service in _SHOWN_WHOLE else view.items[:ITEMS_SHOWN]
    for item in shown:
        say(f"  {item.effect:<8} {item.bytes:>14,} B  {item.what}  {item.detail}".rstrip())
    if len(view.items) > len(shown):
        say(f"  ... and {len(view.items) - len(shown)} more")
    for warning in view.warnings:
        say(f"  warning: {warning}")
    for blocker in view.blockers:
        say(f"  blocked: {blocker}")


def _run(table: Table, command: ServiceCommand, view: ServicePlanView, say: Say) -> ServiceOutcome:
    who = f"{getpass.getuser()} (shell)"
    audited = {
        "who": who,
        "what": f"service.{command.service}",
        "subject": table.slug,
        "reason": command.reason,
        "plan_hash": view.plan_hash,
    }
    record(**audited, result="requested", details={"parameters": dict(command.parameters)})
    request = ServiceRequest(
        by=who,
        reason=command.reason,
        parameters=command.parameters,
        expected_plan_hash=view.plan_hash,
    )
    options = write_options({"sluice.writer.name": f"{command.service} by {who}"})
    try:
        service = registry.service(command.service)
        outcome = service.run(engine_table(table), request, options, _progress(say))
    except Exception as error:
        record(**audited, result="failed", details={"error": f"{type(error).__name__}: {error}"})
        raise
    record(**audited, result="succeeded", details=_done(view, outcome))
    return outcome


def _done(view: ServicePlanView, outcome: ServiceOutcome) -> dict[str, Any]:
    """What leaves no instant leaves no other trace of what it touched."""
    if outcome.instant is not None:
        return {"instant": outcome.instant}
    return {"items": [item["what"] for item in view.plan["items"]]}


def _progress(say: Say) -> Callable[[int, int], None]:
    """A line per tenth."""
    shown = 0

    def on_progress(done: int, total: int) -> None:
        nonlocal shown
        tenth = 10 * done // total if total else 10
        if tenth > shown:
            shown = tenth
            say(f"  {done} of {total}")

    return on_progress
