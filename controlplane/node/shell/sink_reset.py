"""`manage.py sink reset`: where a sink goes on, as a plan and then as a commit."""

from __future__ import annotations

import os
from collections.abc import Mapping

from controlplane.audit.shell import shell_user
from controlplane.node.shell.own_process import Say
from controlplane.node.shell.sinks import Place, own_options
from controlplane.operations.sink_resets import asked_of_the_broker, carry_out
from workers.options.sink_keys import SinkMode
from workers.sink.config import sink_config
from workers.sink.reset import ResetPlan


def reset(
    place: Place, options: Mapping[str, str], to: str, *, is_confirmed: bool, say: Say
) -> None:
    """Raises LakehouseError."""
    config, table = sink_config(own_options(options)), place.table
    plan = asked_of_the_broker(table, config, os.environ, to)
    _show(plan, config.topic, is_append=config.mode is SinkMode.APPEND, say=say)
    if not is_confirmed:
        say("nothing was changed; --yes sets the sink there")
        return
    instant = carry_out(table, config, plan, row=place.row, by=shell_user())
    say(f"{config.sink_id} goes on there: commit {instant}")


def _show(plan: ResetPlan, topic: str, *, is_append: bool, say: Say) -> None:
    if plan.is_same_topic:
        say(f"{topic} is the topic that the table's offsets are of")
    else:
        say(
            f"{topic} is another topic (id {plan.topic_id}) than the one that the table's offsets "
            f"are of (id {plan.last_commit.topic_id}); rows of that one stay"
        )
    say(f"{'partition':>9} {'table':>15} {'next':>15} {'topic begins':>15} {'topic ends':>15}")
    for partition in plan.partitions:
        stands = "-" if partition.stands is None else partition.stands
        say(
            f"{partition.partition:>9} {stands:>15}"
            f" {partition.next:>15} {partition.first:>15} {partition.end:>15}"
        )
    if plan.gone:
        say(f"partitions that the topic has not, and are forgotten: {list(plan.gone)}")
    if plan.read_again:
        what = (
            "under the keys they have, so they are there once"
            if is_append
            else "as versions that come later: without an ordering they win against newer rows"
        )
        say(f"{plan.read_again} records are read again, {what}")
    if plan.passed_over:
        say(f"{plan.passed_over} records are passed over: no row will ever be made of them")
