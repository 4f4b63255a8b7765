"""Roll several instants back by one plan: pending ones first, then completed ones, newest first.

Each step is a rollback of its own. It checks under the table lock that it is still the one of the
plan, and that everything newer is rolled back. A reader in between sees some earlier state of the
table. Unlike a restore it lets others write; a commit that comes between two steps stops it there.

The plan is durable before the first step, so a rerun after a crash continues with the rest. The
reason of each finished step contains the hash of its plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workers.clock import InstantTime
from workers.errors import LakehouseError, MalformedTable, NotFound, ServiceRefused
from workers.json_text import read_json
from workers.options.write_options import WriteOptions
from workers.recovery.rollback import RollbackOutcome, RollbackRequest, rollback
from workers.storage.base import Storage
from workers.table.table import Table
from workers.table_layout import ROLLBACK_PLANS
from workers.table_services.rollback_order import RollbackOrder, RollbackStep, plan_rollback_order
from workers.table_services.service import (
    PlanItem,
    Progress,
    ServiceOutcome,
    ServicePlan,
    ServiceRequest,
)
from workers.timeline import decisions

_Step = tuple[InstantTime, str]
"""(instant, hash of its own plan)."""


class RollbackInstants:
    """The service `rollback_several`."""

    name = "rollback_several"

    def plan(self, table: Table, parameters: Mapping[str, str]) -> ServicePlan:
        """Parameters: `instants`, with commas between them, or `after`, a completed commit that is
        to be the newest. What merged or restated their rows since goes with them.
        """
        return _describe_plan(plan_rollback_order(table, parameters))

    def run(
        self,
        table: Table,
        request: ServiceRequest,
        options: WriteOptions,
        on_progress: Progress | None = None,
    ) -> ServiceOutcome:
        """Run the steps, stop at the first one that is rejected, and report the finished ones. See
        Service.

        Raises PlanChanged before the first step, ServiceRefused at any.
        """
        confirmed = request.expected_plan_hash
        steps = _load_steps(table.storage, confirmed) if confirmed else None
        if steps is None:
            order = plan_rollback_order(table, request.parameters)
            plan = _describe_plan(order)
            plan.check(request)
            confirmed = plan.plan_hash
            steps = [(step.instant.requested_at, step.plan.plan_hash) for step in order.steps]
            if not steps:
                return ServiceOutcome(self.name, None, plan.summary, {"instants": 0})
            _store_steps(table.storage, confirmed, steps)
        assert confirmed is not None, request
        run = _Run(table, request, options, f"plan {confirmed}", steps)
        try:
            run.carry_out(on_progress)
        finally:
            if run.is_over:
                table.storage.delete_tree(ROLLBACK_PLANS.path)
        return ServiceOutcome(
            self.name, None, run.words(), {"instants": len(run.done)}, tuple(run.warnings)
        )


@dataclass(slots=True)
class _Run:
    table: Table
    request: ServiceRequest
    options: WriteOptions
    plan_name: str
    steps: Sequence[_Step]
    done: list[InstantTime] = field(default_factory=list)
    """By this plan, also in an earlier run."""
    by_others: list[InstantTime] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    is_over: bool = False
    """Done, or permanently rejected."""

    def carry_out(self, on_progress: Progress | None) -> None:
        total = len(self.steps)
        for place, (instant, step_hash) in enumerate(self.steps):
            if on_progress is not None:
                on_progress(place, total)
            self._step(instant, step_hash)
        self.is_over = True
        if on_progress is not None:
            on_progress(total, total)

    def _step(self, instant: InstantTime, step_hash: str) -> None:
        step_request = RollbackRequest(
            instant,
            by=self.request.by,
            reason="; ".join(filter(None, [self.request.reason, self.plan_name])),
            expected_plan_hash=step_hash,
            is_forced=True,  # A person has read the plan's warnings and confirmed.
            is_in_turn=True,
        )
        try:
            ended = rollback(self.table, step_request, self.options)
        except LakehouseError as error:
            self.is_over = True
            raise ServiceRefused(self._format_stop(instant, error.message)) from error
        if ended.is_committed:
            self.is_over = True
            raise ServiceRefused(self._format_stop(instant, "it was committed meanwhile"))
        mine = not ended.was_already_rolled_back or self._is_of_this_plan(ended)
        (self.done if mine else self.by_others).append(instant)
        self.warnings += ended.warnings

    def _is_of_this_plan(self, ended: RollbackOutcome) -> bool:
        reason = decisions.find_rollback_reason(self.table.storage, ended.target)
        return reason is not None and reason.endswith(self.plan_name)

    def _format_stop(self, instant: InstantTime, why: str) -> str:
        ended = {*self.done, *self.by_others}
        left = [step_instant for step_instant, _ in self.steps if step_instant not in ended]
        return f"stopped at {instant}: {why}; {self.words()}; not rolled back: {', '.join(left)}"

    def words(self) -> str:
        sentences = [f"rolled back: {', '.join(self.done) or 'nothing'}"]
        if self.by_others:
            sentences.append(f"rolled back by another first: {', '.join(self.by_others)}")
        return "; ".join(sentences)


def _describe_plan(order: RollbackOrder) -> ServicePlan:
    steps = order.steps
    files = [(step, file) for step in steps for file in step.plan.files]
    items = tuple(
        PlanItem(
            rollback.instant.requested_at,
            "undo",
            detail=_detail(rollback),
            digest=rollback.plan.plan_hash,
        )
        for rollback in steps
    )
    items += tuple(
        PlanItem(file.path, "delete", file.bytes, f"of {step.instant.requested_at}")
        for step, file in files
    )
    summary = f"roll {len(steps)} instants back, newest first, deleting {len(files)} files"
    return ServicePlan(
        service=RollbackInstants.name,
        summary=summary if steps else "nothing is left to roll back",
        items=items,
        blockers=order.blockers,
        warnings=order.warnings,
        figures={
            "instants": len(steps),
            "files": len(files),
            "bytes": sum(file.bytes for _, file in files),
            "rows_written": sum(rollback.rows or 0 for rollback in steps),
        },
    )


def _detail(step: RollbackStep) -> str:
    facts = [f"{step.instant.action} ({step.instant.state})"]
    facts.append(f"files: {len(step.plan.files):,} of {step.plan.bytes_total:,} bytes")
    facts += [] if step.rows is None else [f"rows: {step.rows:,}"]
    facts += [step.why] if step.why else []
    return ", ".join(facts)


def _get_path(plan_hash: str) -> str:
    return ROLLBACK_PLANS.file(f"{plan_hash}.json")


def _store_steps(storage: Storage, plan_hash: str, steps: Sequence[_Step]) -> None:
    storage.put_if_absent(_get_path(plan_hash), json.dumps(steps).encode())


def _load_steps(storage: Storage, plan_hash: str) -> list[_Step] | None:
    """The steps of the plan of this hash, if a run of it has begun. Raises MalformedTable."""
    if not plan_hash.isalnum():
        return None
    path = _get_path(plan_hash)
    try:
        return [(str(instant), str(own)) for instant, own in read_json(storage.read(path))]
    except NotFound:
        return None
    except (ValueError, TypeError) as error:
        raise MalformedTable("the plan of a rollback is damaged", path=path) from error
