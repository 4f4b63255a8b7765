"""Dead letters back to their topic: what would be sent, and the request for it.

Which letters were sent already stands beside the table, so that a second request for the same ones
sends nothing, whoever made the first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.sink_letters import letter_files
from controlplane.mirror.storage import storage_of
from controlplane.operations.ask import Ask, Request, Requester, Wanted
from controlplane.operations.confirmation import Confirmation
from controlplane.operations.effect_proofs import REPLAY_TITLES, replay_checks
from controlplane.operations.kinds.kind import Kind
from controlplane.operations.letters_left import letters_left
from controlplane.operations.models import Operation
from controlplane.operations.outcomes import Outcome, without_effect
from controlplane.operations.requesting import Given, do_request
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.sink_stops import newest_operation, own_options
from controlplane.operations.states import OperationState
from controlplane.tables.access import Permission
from controlplane.tables.locations import checked_location
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import InvalidInput, LakehouseError, StorageFailed
from workers.jobs import ReplayJob
from workers.sink.letter_choice import LETTERS_MAX, letter_choice
from workers.sink.replays import Replay, read_replays, sent_letters

CAUSES_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """What a replay would send, now."""

    instant: InstantTime
    letters: list[str]
    cause: str
    topic: str
    directory: str
    to_send: int
    already: int
    """Chosen, and in the topic again already."""
    last_sent_by: str
    last_sent_at: datetime | None
    causes: list[str]
    """Of those that would be sent, the first."""
    is_partial: bool
    """Then older commits than were counted here left more of them out, and those go too."""

    plan_hash: ClassVar[str] = ""
    """Letters are claimed one by one before they are sent, so no plan can grow old."""
    blockers: ClassVar[Sequence[str]] = ()

    @property
    def is_empty(self) -> bool:
        return not self.to_send


@dataclass(frozen=True, slots=True)
class _Sink:
    operation: Operation
    options: dict[str, str]

    @property
    def directory(self) -> str:
        configured_path = self.options.get("hoodie.sink.dead.letter.path", "")
        return checked_location(configured_path or f"{self.operation.table.location}-dead-letters")


def plan_replay(
    table: Table,
    sink_id: str,
    *,
    instant: InstantTime = "",
    letters: Sequence[str] = (),
    cause: str = "",
) -> ReplayPlan:
    """Of the letters of one commit, or of all of them, those that are named `partition:offset` and
    that have the cause. What is empty chooses nothing away, but all of it would choose everything.
    Changes nothing.

    Raises InvalidRequest, NotAllowedNow for a sink that was not launched here, StorageUnavailable.
    """
    from workers.sink.letter_choice import chosen_letters  # Late: few requests read Parquet.
    from workers.write.dead_letters import ERROR_COLUMN

    if instant and not INSTANT_TIME.match(instant):
        raise InvalidRequest("this is no instant time", instant=instant[:32])
    if not (instant or letters or cause):
        raise InvalidRequest("say which letters: of a commit, by their places, or of a cause")
    sink = _sink(table, sink_id)
    names, is_partial = letter_files(table, sink_id, instant)
    try:
        choice = letter_choice(places=letters, cause=cause)
        sent = sent_letters(read_replays(storage_of(table), sink_id))
        chosen = chosen_letters(sink.directory, names, choice, sent.keys())
        earlier = _newest(sent.values()) if chosen.already else None
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    except StorageFailed as error:
        raise StorageUnavailable("the dead letters cannot be read") from error
    except LakehouseError as error:
        raise NotAllowedNow(f"the dead letters cannot be read: {error.message}") from error
    causes = chosen.letters.column(ERROR_COLUMN).unique().to_pylist()
    return ReplayPlan(
        instant=instant,
        letters=sorted(letters),
        cause=cause,
        topic=sink.options["hoodie.kafka.topic"],
        directory=sink.directory,
        to_send=chosen.letters.num_rows,
        already=chosen.already,
        last_sent_by=earlier.by if earlier else "",
        last_sent_at=datetime.fromtimestamp(earlier.at_ms / 1000, UTC) if earlier else None,
        causes=[str(one) for one in causes[:CAUSES_SHOWN]],
        is_partial=is_partial,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAsk(Ask[ReplayPlan]):
    """Send dead letters of one sink to their topic again."""

    sink_id: str
    instant: InstantTime
    letters: Sequence[str]
    cause: str
    confirmation = Confirmation.REASON
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
        )
        if not plan.to_send and plan.already:
            raise NotAllowedNow(
                "these letters were sent again already",
                letters=plan.already,
                by=plan.last_sent_by,
                at=plan.last_sent_at.isoformat() if plan.last_sent_at else "",
            )
        if not plan.to_send:
            raise NotAllowedNow(
                "there is no such dead letter", instant=self.instant, cause=self.cause[:80]
            )
        return plan

    def wanted(self, request: Request, plan: ReplayPlan) -> Wanted:
        job = ReplayJob(
            operation_id=str(request.operation_id),
            table=self.table.location,
            sink_options=own_options(_sink(self.table, self.sink_id).options),
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


def _sink(table: Table, sink_id: str) -> _Sink:
    operation = newest_operation(table, sink_id)
    if operation is None:
        raise NotAllowedNow(
            "this sink was not launched from here, so its broker is not known; "
            "`manage.py sink replay` takes the options",
            sink=sink_id,
        )
    return _Sink(operation, dict(operation.parameters["job"]["sink_options"]))


def _newest(replays: Collection[Replay]) -> Replay | None:
    return max(replays, key=lambda replay: replay.number, default=None)


def _confirm(operation: Operation, claimed: OperationState) -> Outcome | None:
    """Letters are claimed before they are sent, and a claim without an end is not known to be."""
    replays = read_replays(storage_of(operation.table), operation.sink_id)
    own = [replay for replay in replays if replay.token == str(operation.pk)]
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
    heading=lambda operation: f"Dead letters of {operation.sink_id} again",
)
