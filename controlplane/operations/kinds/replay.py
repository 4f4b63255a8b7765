"""Dead letters back to their topic: the request for it, and how it ends.

Which letters were sent already stands beside the table, so that a second request for the same ones
sends nothing, whoever made the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import NotAllowedNow
from controlplane.mirror.storage import storage_of
from controlplane.operations.ask import Ask, Request, Requester, Wanted
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.effect_proofs import REPLAY_TITLES, replay_checks
from controlplane.operations.kinds.kind import Kind
from controlplane.operations.letters_left import letters_left
from controlplane.operations.models import Operation
from controlplane.operations.outcomes import Outcome, without_effect
from controlplane.operations.replay_plans import OwnSink, ReplayPlan, launched_sink, plan_replay
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.states import OperationState
from controlplane.tables.access import Permission
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.jobs import ReplayJob
from workers.sink.dead_letter_selection import LETTERS_MAX
from workers.sink.replays import find_claims, read_replays


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAsk(Ask[ReplayPlan]):
    """Send dead letters of one sink to their topic again."""

    sink_id: str
    instant: InstantTime = ""
    letters: Sequence[str] = ()
    cause: str = ""
    given: OwnSink | None = None
    """The shell's; else the sink is the one that was launched here."""
    confirmation = Confirmation.REASON
    request_name = "ReplayAsk"
    busy = "a replay of this sink is under way"

    @property
    def kind(self) -> Kind:
        return KIND

    @property
    def body(self) -> dict[str, Any]:
        return {
            "sink": self.sink_id,
            "instant": self.instant,
            "letters": sorted(self.letters),
            "cause": self.cause,
        }

    def plan(self) -> ReplayPlan:
        plan = plan_replay(
            self.table,
            self.sink_id,
            instant=self.instant,
            letters=self.letters,
            cause=self.cause,
            given=self.given,
        )
        if not plan.to_send and plan.already:
            raise NotAllowedNow(
                "these dead letters were already replayed",
                letters=plan.already,
                by=plan.last_sent_by,
                at=plan.last_sent_at.isoformat() if plan.last_sent_at else "",
            )
        if not plan.to_send:
            raise NotAllowedNow(
                "dead letter not found", instant=self.instant, cause=self.cause[:80]
            )
        return plan

    def wanted(self, request: Request, plan: ReplayPlan) -> Wanted:
        sink = self.given or launched_sink(self.table, self.sink_id)
        job = ReplayJob(
            operation_id=str(request.operation_id),
            table=self.table.location,
            sink_options=dict(sink.options),
            directory=plan.directory,
            instant=plan.instant,
            letters=plan.letters,
            cause=plan.cause,
            by=request.by.name,
            run_dir=run_dir(request.operation_id),
            report_url=settings.SLUICE_REPORT_URL,
        )
        return Wanted(
            job=job,
            what="sink.replay",
            columns={
                "sink_id": self.sink_id,
                "progress_total": min(plan.to_send, LETTERS_MAX),
                "progress_unit": "letters",
            },
            parameters={"writer": self.sink_id},
            details={
                "sink": self.sink_id,
                "topic": plan.topic,
                "instant": plan.instant,
                "letters": plan.to_send,
                "cause": plan.cause[:200],
            },
        )


def do_request_replay(
    table: Table,
    sink_id: str,
    *,
    by: User,
    instant: InstantTime = "",
    letters: Sequence[str] = (),
    cause: str = "",
    reason: str = "",
    idempotency_key: str | None = None,
) -> Operation:
    """Queue what `plan_replay` shows; letters that are in the topic again already are never sent
    twice.

    Raises what `plan_replay` and `do_request` raise, and NotAllowedNow where nothing is left to
    send.
    """
    ask = ReplayAsk(table=table, sink_id=sink_id, instant=instant, letters=letters, cause=cause)
    given = Given(reason=reason, idempotency_key=idempotency_key)
    return do_request(ask, Requester.person(by), given)


def _confirm(operation: Operation, claimed: OperationState) -> Outcome | None:
    """Letters are claimed before they are sent, and a claim without an end is not known to be."""
    replays = read_replays(storage_of(operation.table), operation.sink_id)
    own = find_claims(replays, str(operation.pk))
    if own and all(replay.is_sent for replay in own):
        return Outcome(OperationState.SUCCEEDED)
    if claimed is not OperationState.SUCCEEDED or own:
        return without_effect(operation, claimed)
    if letters_left(operation):
        return Outcome(OperationState.FAILED, "no letter of it is marked as sent")
    return Outcome(claimed)  # Another replay had sent them.


KIND = Kind(
    name="replay",
    job=ReplayJob,
    permission=lambda _: Permission.ADMINISTER,
    confirm=_confirm,
    titles=REPLAY_TITLES,
    checks=replay_checks,
    has_trace=False,
    page="sinks",
    heading=lambda operation: f"Replay dead letters of {operation.sink_id}",
)
