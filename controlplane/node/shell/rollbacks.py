"""Rolling an instant back from the shell: shown unless confirmed, as every deletion."""

from __future__ import annotations

import getpass

from controlplane.audit.actions import record
from controlplane.errors import NotAllowedNow, PlanVoid
from controlplane.mirror.storage import engine_table
from controlplane.mirror.sync import sync_table
from controlplane.node.shell.table_services import ITEMS_SHOWN, Say
from controlplane.operations.actions import PlanView, plan_rollback
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback


def plan_and_roll_back(
    table: Table,
    instant: InstantTime,
    *,
    is_confirmed: bool,
    plan_hash: str,
    reason: str,
    say: Say,
) -> None:
    """Raises what `plan_rollback` raises, PlanVoid, NotAllowedNow, LakehouseError."""
    view = plan_rollback(table, instant)
    _show(view, say)
    if plan_hash and plan_hash != view.plan_hash:
        raise PlanVoid("the table changed since that plan was shown", now=view.plan_hash)
    if view.blockers:
        raise NotAllowedNow("this rollback is blocked", blockers="; ".join(view.blockers))
    if not (is_confirmed or plan_hash):
        say(f"nothing was changed; --yes or --plan-hash {view.plan_hash} carries it out")
        return
    who = f"{getpass.getuser()} (shell)"
    audited = {
        "who": who,
        "what": "operation.rollback",
        "subject": table.slug,
        "reason": reason,
        "plan_hash": view.plan_hash,
    }
    record(**audited, result="requested", details={"instant": instant})
    request = RollbackRequest(
        instant, by=who, reason=reason, expected_plan_hash=view.plan_hash, is_forced=True
    )
    try:
        ended = rollback(engine_table(table), request, write_options({}))
    except Exception as error:
        record(**audited, result="failed", details={"error": f"{type(error).__name__}: {error}"})
        raise
    result = "failed" if ended.is_committed else "rolled_back"
    record(**audited, result=result, details={"instant": instant})
    if ended.is_committed:
        raise NotAllowedNow("it was committed meanwhile", instant=instant)
    say(f"rolled back by {ended.rollback_instant}: {ended.files_deleted} files deleted")
    sync_table(table)


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
