"""Rolling an instant back from the shell: shown unless confirmed, as every deletion."""

from __future__ import annotations

from typing import Any

from controlplane.node.shell.own_process import Say, request_and_carry_out
from controlplane.node.shell.table_services import ITEMS_SHOWN
from controlplane.operations.actions import PlanView
from controlplane.operations.kinds.rollback import RollbackAsk
from controlplane.operations.requesting import check_plan
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.jobs import RollbackJob
from workers.reporting import Reporter
from workers.table import table as engine
from workers.tasks.rollback import carry_out_rollback


def plan_and_roll_back(
    table: Table,
    instant: InstantTime,
    *,
    is_confirmed: bool,
    plan_hash: str,
    reason: str,
    say: Say,
) -> None:
    """Show the plan, and carry it out where that is wanted. Raises what `plan_rollback` and
    `request_and_carry_out` raise.
    """
    ask = RollbackAsk(table, instant)
    view = ask.plan()
    _show(view, say)
    check_plan(ask, view, plan_hash or view.plan_hash)
    if not (is_confirmed or plan_hash):
        say(f"nothing was changed; --yes or --plan-hash {view.plan_hash} runs the plan")
        return
    report = request_and_carry_out(
        ask, reason=reason, plan_hash=view.plan_hash, carry_out=_carry_out, say=say
    )
    ended = report.outcome or {}
    say(f"rolled back by {ended['rollback_instant']}: {ended['files_deleted']} files deleted")


def _carry_out(message: dict[str, Any], table: engine.Table, reporter: Reporter) -> None:
    carry_out_rollback(RollbackJob.from_message(message), table, reporter)


def _show(view: PlanView, say: Say) -> None:
    say(
        f"roll back {view.instant} ({view.action}, {view.state}): {len(view.files)} files, "
        f"{view.bytes_total:,} B (plan {view.plan_hash})"
    )
    for file in view.files[:ITEMS_SHOWN]:
        say(f"  delete   {file.bytes:>14,} B  {file.path}")
    if len(view.files) > ITEMS_SHOWN:
        say(f"  ... and {len(view.files) - ITEMS_SHOWN} more")
    for warning in view.warnings:
        say(f"  warning: {warning}")
    for blocker in view.blockers:
        say(f"  blocked: {blocker}")
