"""The guided demo: six steps, each ticked by what storage and mirror show since it began.

Nothing is remembered but when it began, which is an audit row. Reads the database, and which
processes run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.audit.models import AuditEvent
from controlplane.demo import prices, sink, streams
from controlplane.demo.actions import KILLED_WRITER, find_obstacles
from controlplane.demo.source_kinds import BACKFILL, EVOLVE, LATE
from controlplane.mirror.models import JoinPoint, UndoneRecord
from controlplane.mirror.sink_models import SinkRecord
from controlplane.operations.models import Operation
from controlplane.operations.sink_stops import open_operation
from controlplane.operations.states import OPEN, OperationState
from controlplane.tables.access import visible_tables
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from workers.clock import InstantTime

BEGAN: Final = "demo.story"
KILLED: Final = "demo.kill_participant"
SLUGS: Final = (streams.SLUG, sink.SLUG, prices.SLUG)
LATE_GROUP: Final = "click"
KILL_SHOWN_FOR: Final = timedelta(minutes=5)
"""A killed writer is rolled back within it, or had decided to commit before it died."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one step is, and what there is to look at."""

    name: str
    is_done: bool = False
    is_going_on: bool = False
    subject: str = ""
    """An instant or an operation that shows it; empty before there is one."""
    obstacle: str = ""
    """Why its button cannot be pressed now; empty when it can."""


@dataclass(frozen=True, slots=True)
class Story:
    """As one person sees it."""

    tables: frozenset[str]
    """Slugs of the demo's tables that this person sees."""
    steps: tuple[Progress, ...]

    @property
    def done(self) -> int:
        return sum(step.is_done for step in self.steps)


def story(user: User) -> Story | None:
    """None for whoever sees no table of streams of the demo, and before there is one."""
    tables = {table.slug: table for table in visible_tables(user).filter(slug__in=SLUGS)}
    if streams.SLUG not in tables:
        return None
    look = _Look(tables)
    return Story(frozenset(tables), tuple(read(look) for read in _STEPS))


def do_begin_story(by: User) -> None:
    """Take all ticks away: only what happens from now on counts."""
    do_record(who=by.get_username(), what=BEGAN, subject=streams.SLUG, result="succeeded")


@dataclass
class _Look:
    tables: dict[str, Table]

    @cached_property
    def marks(self) -> dict[str, AuditEvent]:
        """The audit rows of the story's last start and of its last kills."""
        events = AuditEvent.objects.filter(
            what__in=(BEGAN, KILLED, KILLED_WRITER), object__in=(streams.SLUG, sink.SLUG)
        )
        newest: dict[str, AuditEvent] = {}
        for event in events.order_by("-at").only("what", "at", "details")[:200]:
            newest.setdefault(event.what, event)
        return newest

    @property
    def ads(self) -> Table:
        return self.tables[streams.SLUG]

    @cached_property
    def since(self) -> datetime:
        began = self.marks.get(BEGAN)
        return began.at if began else self.ads.registered_at

    def find_kill(self, what: str) -> AuditEvent | None:
        """The last kill of this kind since the story began."""
        event = self.marks.get(what)
        return event if event is not None and event.at >= self.since else None

    @cached_property
    def operations(self) -> list[Operation]:
        """What the story asked for, newest first."""
        kinds = Q(parameters__job__source__kind__in=(BACKFILL, EVOLVE, LATE))
        undoes = Q(kind="rollback", table__slug=prices.SLUG)
        operations = Operation.objects.filter(kinds | undoes, table__in=self.tables.values())
        return list(operations.filter(requested_at__gte=self.since).order_by("-requested_at")[:50])

    def of_source(self, kind: str) -> list[Operation]:
        return [
            operation
            for operation in self.operations
            if operation.parameters["job"].get("source", {}).get("kind") == kind
        ]

    @cached_property
    def obstacles(self) -> dict[str, str]:
        return find_obstacles(self.ads)

    def obstacle_of(self, kind: str) -> str:
        return self.obstacles.get(kind, "")

    @cached_property
    def conflicts(self) -> list[Conflict]:
        lost = Conflict.objects.filter(table=self.ads, decided_at__gte=self.since)
        return list(lost.order_by("-decided_at")[:50])


def _is_open(operations: list[Operation]) -> bool:
    return any(OperationState(operation.state) in OPEN for operation in operations)


def _meet(look: _Look) -> Progress:
    """One of the two lost, whether early detection stopped it or its commit was rejected."""
    lost = [conflict for conflict in look.conflicts if conflict.kind == Conflict.Kind.WRITE]
    subject = lost[0].loser_instant if lost else ""
    is_open = _is_open(look.of_source(BACKFILL))
    return Progress("meet", bool(lost), is_open, subject, look.obstacle_of(BACKFILL))


def _schema(look: _Look) -> Progress:
    schema = [lost for lost in look.conflicts if lost.kind == Conflict.Kind.SCHEMA]
    subject = schema[0].loser_instant if schema else ""
    is_open = _is_open(look.of_source(EVOLVE))
    return Progress("schema", bool(schema), is_open, subject, look.obstacle_of(EVOLVE))


def _kill(look: _Look) -> Progress:
    """The instant of the killed writer was rolled back."""
    killed = look.find_kill(KILLED_WRITER)
    if killed is None:
        return Progress("kill")
    instant: InstantTime = str(killed.details.get("instant", ""))
    undone = UndoneRecord.objects.filter(table=look.ads, requested_at=instant, undone_by__gt="")
    is_done = bool(instant) and undone.exists()
    is_going_on = not is_done and timezone.now() - killed.at < KILL_SHOWN_FOR
    return Progress("kill", is_done, is_going_on, instant if is_done else "")


def _participant(look: _Look) -> Progress:
    """A transaction that began after the kill has committed.

    Of the one that was open then nothing has to be told: where the killed process was the
    coordinator's too, nobody is left to say that it was given up.
    """
    obstacle = _sink_obstacle(look.tables.get(sink.SLUG))
    killed = look.find_kill(KILLED)
    if killed is None or sink.SLUG not in look.tables:
        return Progress("participant", obstacle=obstacle)
    killed_ms = int(killed.at.timestamp() * 1000)
    record = SinkRecord.objects.filter(table=look.tables[sink.SLUG], sink_id=sink.SINK_ID).first()
    is_done = any(
        one["outcome"] == "committed" and one["started_ms"] >= killed_ms
        for one in (record.transactions if record else [])
    )
    return Progress("participant", is_done, is_going_on=not is_done, obstacle=obstacle)


def _sink_obstacle(orders: Table | None) -> str:
    if orders is None:
        return "the demo runs without its Kafka sink; Restart or reset tries to start it"
    if open_operation(orders, sink.SINK_ID) is None:
        return "the demo's sink does not run; relaunch it on the page Sinks"
    return ""


def _late(look: _Look) -> Progress:
    """Both writes are in, and looks at the table saw the share fall and rise again."""
    writes = look.of_source(LATE)[:2]
    is_in = len(writes) == 2 and all(one.state == OperationState.SUCCEEDED for one in writes)
    if not is_in:
        return Progress("late", is_going_on=_is_open(writes), obstacle=look.obstacle_of(LATE))
    began_at = min(write.requested_at for write in writes)
    points = JoinPoint.objects.filter(table=look.ads, at__gte=began_at).order_by("at")
    shares = [point.by_group.get(LATE_GROUP, 0.0) for point in points[:200]]
    before = JoinPoint.objects.filter(table=look.ads, at__lt=began_at).order_by("-at").first()
    first = before.by_group.get(LATE_GROUP, 0.0) if before else max(shares, default=0.0)
    lowest = min(shares, default=first)
    is_done = bool(shares) and lowest < first and shares[-1] > lowest
    return Progress("late", is_done, not is_done, obstacle=look.obstacle_of(LATE))


def _rollback(look: _Look) -> Progress:
    undoes = [operation for operation in look.operations if operation.kind == "rollback"]
    proved = [one for one in undoes if one.state == OperationState.SUCCEEDED]
    subject = str((proved or undoes)[0].pk) if undoes else ""
    return Progress("rollback", bool(proved), _is_open(undoes), subject)


_STEPS: tuple[Callable[[_Look], Progress], ...] = (
    _meet,
    _schema,
    _kill,
    _participant,
    _late,
    _rollback,
)
