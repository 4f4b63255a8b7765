"""`manage.py sink reset`: where a sink goes on, as a plan and then as a commit."""

from __future__ import annotations

import os
from collections.abc import Mapping

from controlplane.audit.shell import get_shell_user
from controlplane.errors import PlanVoid
from controlplane.node.shell.own_process import NO_REASON, Say
from controlplane.node.shell.sinks import Place, own_options
from controlplane.operations.actions import do_reset_sink, plan_sink_reset
from controlplane.operations.sink_resets import SinkResetPlan, plan_from_broker, reset_shown
from workers.sink.config import SinkConfig, sink_config
from workers.sink.reset import reset_offsets
from workers.table.table import Table


def reset(
    place: Place,
    options: Mapping[str, str],
    to: str,
    *,
    is_confirmed: bool,
    plan_hash: str,
    reason: str,
    say: Say,
) -> None:
    """Show the plan, and carry it out where that was confirmed: of a registered table as the page
    does. Raises LakehouseError and what `do_reset_sink` raises.
    """
    config = sink_config(own_options(options))
    if place.row is None:
        _reset_unregistered(place.table, config, to, plan_hash, is_confirmed=is_confirmed, say=say)
        return
    view = plan_sink_reset(place.row, config.sink_id, to=to, given=config)
    if not _is_to_be_done(view, plan_hash, is_confirmed=is_confirmed, say=say):
        return
    done = do_reset_sink(
        place.row,
        config.sink_id,
        to=view.to,
        plan_hash=plan_hash or view.plan_hash,
        typed_name=place.row.slug,
        reason=reason or NO_REASON,
        by=get_shell_user(),
        given=config,
    )
    say(f"{config.sink_id} continues at these offsets: commit {done.instant}")


def _reset_unregistered(
    table: Table, config: SinkConfig, to: str, plan_hash: str, *, is_confirmed: bool, say: Say
) -> None:
    plan = plan_from_broker(table, config, os.environ, to)
    view = reset_shown(config, plan)
    if not _is_to_be_done(view, plan_hash, is_confirmed=is_confirmed, say=say):
        return
    if plan_hash not in ("", view.plan_hash):
        raise PlanVoid(
            "the offsets of the sink or its topic changed since the plan: check the new plan"
        )
    instant = reset_offsets(table, config, plan, by=get_shell_user())
    say(f"{config.sink_id} continues at these offsets: commit {instant}")


def _is_to_be_done(view: SinkResetPlan, plan_hash: str, *, is_confirmed: bool, say: Say) -> bool:
    _show(view, say)
    if is_confirmed or plan_hash:
        return True
    say(f"nothing was changed; --yes or --plan-hash {view.plan_hash} resets the sink")
    return False


def _show(plan: SinkResetPlan, say: Say) -> None:
    topic = plan.topic
    if plan.is_same_topic:
        say(f"{topic} is the topic of the table's offsets")
    else:
        say(
            f"{topic} (id {plan.topic_id}) is not the topic of the table's offsets (id "
            f"{plan.standing_topic_id}); rows of the former topic are kept"
        )
    say(f"{'partition':>9} {'table':>15} {'next':>15} {'topic begins':>15} {'topic ends':>15}")
    for partition in plan.partitions:
        stands = "-" if partition.stands is None else partition.stands
        say(
            f"{partition.partition:>9} {stands:>15}"
            f" {partition.next:>15} {partition.first:>15} {partition.end:>15}"
        )
    if plan.gone:
        say(f"partitions that the topic does not have; their offsets are dropped: {plan.gone}")
    if plan.read_again:
        what = (
            "with the same keys, so each is stored once"
            if plan.is_append
            else "as later versions: without an ordering they replace newer rows"
        )
        say(f"{plan.read_again} records are read again, {what}")
    if plan.passed_over:
        say(f"{plan.passed_over} records are skipped and never written")
