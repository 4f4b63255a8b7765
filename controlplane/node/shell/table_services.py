"""Table services from the shell: the plan on the screen, then the run in this process.

What takes committed data away is only shown unless `--yes` or the hash of a plan that was shown
before says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.audit.shell import get_acting_user
from controlplane.node.shell.own_process import Say, request_and_carry_out
from controlplane.operations.actions import ServicePlanView
from controlplane.operations.kinds.table_service import ServiceAsk
from controlplane.operations.permissions import check_row_choice
from controlplane.operations.request_places import check_named_places
from controlplane.operations.requesting import check_plan
from controlplane.tables.models import Table
from workers.jobs import ServiceJob
from workers.reporting import Reporter
from workers.table import table as engine
from workers.tasks.table_service import carry_out_service

ITEMS_SHOWN = 20
_SHOWN_WHOLE = frozenset({"repair"})
"""Each file of these has evidence of its own, which a person is to look at."""


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
    """Show the plan, and carry it out where that is wanted. Raises what `plan_service` and
    `request_and_carry_out` raise.
    """
    if (user := get_acting_user()) is not None:
        check_row_choice(user, table, command.service, command.parameters)
        check_named_places(user, command.parameters)
    ask = ServiceAsk(table, command.service, command.parameters, is_shell=True)
    view = ask.plan()
    show_plan(view, say)
    plan_hash = command.plan_hash or view.plan_hash
    if view.is_empty and not view.blockers and plan_hash == view.plan_hash:
        say("nothing to do")
        return
    check_plan(ask, view, plan_hash)
    if command.is_dry or not (command.is_confirmed or command.plan_hash):
        say(f"nothing was changed; --yes or --plan-hash {view.plan_hash} runs the plan")
        return
    report = request_and_carry_out(
        ask, reason=command.reason, plan_hash=plan_hash, carry_out=_carry_out, say=say
    )
    say(report.message)


def _carry_out(message: dict[str, Any], table: engine.Table, reporter: Reporter) -> None:
    carry_out_service(ServiceJob.from_message(message), table, reporter)


def show_plan(view: ServicePlanView, say: Say) -> None:
    say(f"{view.service}: {view.summary} (plan {view.plan_hash})")
    shown = view.items if view.service in _SHOWN_WHOLE else view.items[:ITEMS_SHOWN]
    for item in shown:
        say(f"  {item.effect:<8} {item.bytes:>14,} B  {item.what}  {item.detail}".rstrip())
    if len(view.items) > len(shown):
        say(f"  ... and {len(view.items) - len(shown)} more")
    for row in view.sample:
        say(f"  sample row: {', '.join(f'{name}={value}' for name, value in row.items())}")
    for warning in view.warnings:
        say(f"  warning: {warning}")
    for blocker in view.blockers:
        say(f"  blocked: {blocker}")
