"""`manage.py table repair`: what is left behind, with the evidence; then, if so told, gone."""

from __future__ import annotations

import getpass

from controlplane.audit.services import record
from controlplane.errors import PlanVoid
from controlplane.mirror.storage import engine_table
from controlplane.node.shell.services import Say
from controlplane.tables.models import Table
from workers.services.repair import NAME, plan_repair, repair
from workers.services.service import ServiceRequest


def plan_and_repair(
    table: Table, say: Say, *, is_confirmed: bool, plan_hash: str, reason: str
) -> None:
    """Raises PlanVoid, LakehouseError."""
    opened = engine_table(table)
    plan = plan_repair(opened)
    say(f"{NAME}: {plan.summary} (plan {plan.plan_hash})")
    for item in plan.items:
        say(f"  {item.effect:<8} {item.bytes:>14,} B  {item.what}  {item.detail}")
    for warning in plan.warnings:
        say(f"  warning: {warning}")
    if plan_hash and plan_hash != plan.plan_hash:
        raise PlanVoid("the table changed since that plan was shown", now=plan.plan_hash)
    if plan.is_empty:
        say("nothing to do")
        return
    if not (is_confirmed or plan_hash):
        say(f"nothing was changed; --yes or --plan-hash {plan.plan_hash} carries it out")
        return
    who = f"{getpass.getuser()} (shell)"
    outcome = repair(opened, ServiceRequest(who, reason, expected_plan_hash=plan.plan_hash))
    record(
        who=who,
        what=f"service.{NAME}",
        subject=table.slug,
        reason=reason,
        plan_hash=plan.plan_hash,
        result="succeeded",
        details={"files": [item.what for item in plan.items]},
    )
    say(outcome.summary)
