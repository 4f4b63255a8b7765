"""Runtime of the coordinator: one thread that performs the effects of its state machine.

Calls of table and broker run in this thread, and messages wait for them. Nothing else depends on
their duration. A failure is an event for the state machine, which retries or stops.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import assert_never

from workers.clock import InstantTime
from workers.errors import (
    InvalidInput,
    KafkaFailed,
    LakehouseError,
    NotFound,
    OffsetExpired,
    OffsetsMissing,
    SinkFenced,
    TableChanged,
    TopicReplaced,
    UnsupportedTable,
)
from workers.schema.table_schema import TableSchema
from workers.sink.coordinator import step
from workers.sink.coordinator_events import (
    Abort,
    AbortEnded,
    Begin,
    BeginFailed,
    Begun,
    Commit,
    CommitEnded,
    Committed,
    CoordinatorEffect,
    CoordinatorEvent,
    EvolveSchema,
    Fenced,
    NothingToRead,
    SchemaEvolved,
    SchemaRefused,
    Settle,
    Settled,
    Started,
    Stopped,
    StopRequested,
)
from workers.sink.coordinator_state import (
    CoordinatorName,
    CoordinatorSettings,
    CoordinatorState,
    Work,
)
from workers.sink.epoch import acquire_epoch, read_epoch
from workers.sink.kafka.topics import TopicFacts, Topics
from workers.sink.ledger import SinkLedger, SinkTransaction
from workers.sink.messages import Ignored, MessageReceived, Send, Tick
from workers.sink.offsets import Stale, StaleCause
from workers.sink.runtime.launch import Launch, WorkerEnded
from workers.sink.runtime.mailbox import Inbox, Outbox
from workers.sink.runtime.service_plans import build_write_options, plan_services
from workers.sink.runtime.state_publisher import StatePublisher
from workers.sink.stop_request import StopKind, read_stop
from workers.table.table import Table

_TURN_S = 0.1
_LOOK_MS = 1_000
_ENDS_MS = 5_000
_FINAL = (
    InvalidInput,
    NotFound,
    OffsetExpired,
    OffsetsMissing,
    TableChanged,
    TopicReplaced,
    UnsupportedTable,
)
"""Errors that a retry does not fix."""
_log = logging.getLogger(__name__)


class CoordinatorLoop:
    """One coordinator. A thread calls `run` once. Other threads put messages into `inbox`, call
    `leave`, and read `ended`: the reason why `run` returned, or None if it raised.
    """

    def __init__(
        self, table: Table, launch: Launch, worker: str, topics: Topics, outbox: Outbox
    ) -> None:
        self.inbox = Inbox()
        self.ended: WorkerEnded | None = None
        self.ignored_records: Mapping[Ignored, int] = {}
        """Counts of control records that are not messages of this sink, from the agent."""
        self._table, self._launch = table, launch
        self._topics, self._outbox = topics, outbox
        self._clock = table.ports.clock
        self._owner = launch.owner(worker)
        config = launch.config
        self._publisher = StatePublisher(
            table.storage, config.sink_id, config.topic, self._owner, self._clock
        )
        self._leaving = threading.Event()
        self._looks_ms = self._ends_ms = 0
        self._has_committed = False

    def leave(self, reason: str) -> None:
        """Request the end at once, from another thread: this worker no longer has partition 0."""
        del reason
        self._leaving.set()

    def run(self) -> None:
        """Run until the coordinator stops, is fenced or leaves. Raises errors of the storage."""
        launch = self._launch
        former = read_epoch(self._table.storage, launch.config.sink_id)
        if former is not None and launch.is_after(former):
            reason = f"another launch took the sink over: {former.owner}"
            self.ended = WorkerEnded(reason, is_fenced=True)
            return
        epoch = acquire_epoch(
            self._table.storage, launch.config.sink_id, self._table.ports, owner=self._owner
        )
        location = self._table.storage.location
        options = build_write_options(launch.config, location, launch.options)
        self._ledger = SinkLedger(self._table, launch.config, epoch, options)
        self._begun: SinkTransaction | None = None
        self._state = CoordinatorState(
            coordinator_id=self._owner,
            epoch=epoch.number,
            run_id=launch.run_id,
            settings=_build_settings(launch),
        )
        self._publisher.set_table_offsets(self._ledger.load_last_commit().offsets)
        self._apply(Started(self._now_ms()))
        while self.ended is None:
            self._run_once()

    def _run_once(self) -> None:
        for message in self.inbox.take(_TURN_S):
            if message.sender != self._owner:
                self._publisher.add_message(message, self._now_ms())
            self._apply(MessageReceived(message, self._now_ms()))
        now_ms = self._now_ms()
        if self._leaving.is_set():
            self._apply(Fenced("its task ends", now_ms))
            self.ended = self.ended or WorkerEnded("its task ends", is_fenced=True)
            return
        if now_ms - self._looks_ms >= _LOOK_MS:
            self._looks_ms = now_ms
            self._publisher.set_ignored_records(self.ignored_records)
            self._check_files(now_ms)
        if now_ms - self._ends_ms >= _ENDS_MS:
            self._publish_ends()
        if self._has_committed and self._state.work is Work.NOTHING:
            self._has_committed = False
            plan_services(self._table, self._launch.config, self._launch.options)
        self._apply(Tick(self._now_ms()))

    def _check_files(self, now_ms: int) -> None:
        """Check the files next to the table for a higher epoch and a request to stop."""
        storage, sink_id = self._table.storage, self._launch.config.sink_id
        try:
            epoch, stop = read_epoch(storage, sink_id), read_stop(storage, sink_id)
        except LakehouseError as error:
            _log.warning("the sink's files are not read: %s", error)
            return
        if epoch is not None and epoch.number > self._state.epoch:
            self._apply(Fenced(f"epoch {epoch.number} is held by {epoch.owner}", now_ms))
        elif stop is not None:
            is_graceful = stop.kind is StopKind.GRACEFUL
            self._apply(StopRequested(is_graceful, f"stop asked for by {stop.by}", now_ms))

    def _publish_ends(self) -> None:
        try:
            self._read_facts()
        except (KafkaFailed, NotFound) as error:
            _log.warning("the topic's ends are not shown: %s", error)

    def _read_facts(self) -> TopicFacts:
        """Read the topic's facts from the broker, and publish them for pages too. Raises NotFound,
        KafkaFailed.
        """
        self._ends_ms = self._now_ms()
        facts = self._topics.facts(self._launch.config.topic)
        self._publisher.set_topic_ends(facts.watermarks)
        return facts

    # Effects ----------------------------------------------------------------------------------

    def _apply(self, event: CoordinatorEvent) -> None:
        """Step with the event and perform the effects. Their results are further events."""
        waiting: deque[CoordinatorEvent] = deque([event])
        while waiting:
            self._state, effects = step(self._state, waiting.popleft())
            self._publisher.update_state(self._state, self._now_ms())
            for effect in effects:
                waiting.extend(self._perform_repeating_state(effect))
            self._publisher.update_state(self._state, self._now_ms())

    def _perform_repeating_state(self, effect: CoordinatorEffect) -> Sequence[CoordinatorEvent]:
        """Perform the effect. If it may take long, repeat the published state during it."""
        if isinstance(effect, Send | Stopped):
            return self._perform(effect)
        with self._publisher.repeat_state():
            return self._perform(effect)

    def _perform(self, effect: CoordinatorEffect) -> Sequence[CoordinatorEvent]:
        """Perform the effect, and return its results in the order for the state machine."""
        match effect:
            case Send(message):
                self._publisher.add_message(message, self._now_ms())
                self._outbox.put(message)
                return ()
            case Begin():
                return self._begin()
            case Commit():
                return [self._commit(effect)]
            case Settle(instant):
                return [self._settle(instant)]
            case Abort():
                self._ledger.abort(self._get_transaction(effect.instant), effect.reason)
                self._publisher.record_abort(effect, self._now_ms())
                return [AbortEnded(self._now_ms())]
            case EvolveSchema(new_fields):
                return [self._evolve(new_fields)]
            case Stopped(reason, is_error):
                is_fenced = self._state.name is CoordinatorName.FENCED
                self.ended = WorkerEnded(reason, is_error, is_fenced)
                return ()
            case _:
                assert_never(effect)

    def _begin(self) -> Sequence[CoordinatorEvent]:
        try:
            begun = self._ledger.begin(self._read_facts())
        except SinkFenced as error:
            # In this order, since what is fenced has not failed.
            now_ms = self._now_ms()
            return [Fenced(str(error), now_ms), BeginFailed(str(error), now_ms)]
        except LakehouseError as error:
            is_final = isinstance(error, _FINAL)
            failure = f"{error.code}: {error}"
            return [BeginFailed(failure, self._now_ms(), is_final=is_final)]
        self._begun = begun
        if begun is None:
            return [NothingToRead(self._now_ms())]
        return [
            Begun(
                begun.instant,
                begun.offsets,
                begun.schema,
                begun.read_at,
                self._now_ms(),
                begun.topic_id,
                begun.cluster_id,
            )
        ]

    def _commit(self, commit: Commit) -> CoordinatorEvent:
        begun = self._get_transaction(commit.instant)
        result = self._find_topic_replacement(begun) or self._ledger.commit(begun, commit.reports)
        now_ms = self._now_ms()
        if isinstance(result, Committed):
            self._publisher.record_commit(commit.instant, commit.reports, now_ms)
            self._note_commit(result.offsets)
        else:
            self._publisher.record_failed_commit(commit.instant, result, now_ms)
        return CommitEnded(result, now_ms)

    def _find_topic_replacement(self, begun: SinkTransaction) -> Stale | None:
        """Return Stale if the topic was created again during the transaction. It would be read as
        if it were the old one, once it has more records (K16). An unreachable broker does not
        block the commit of records that were read before.
        """
        try:
            topic_id = self._topics.topic_id(self._launch.config.topic)
        except NotFound:
            return Stale(StaleCause.TOPIC, "the topic was deleted while it was read")
        except KafkaFailed as error:
            _log.warning("the topic is not checked before the commit: %s", error)
            return None
        if topic_id == begun.topic_id:
            return None
        return Stale(StaleCause.TOPIC, "the topic was deleted and created again while it was read")

    def _settle(self, instant: InstantTime) -> CoordinatorEvent:
        result = self._ledger.settle(self._get_transaction(instant))
        if isinstance(result, Committed):
            transaction = self._state.transaction
            reports = transaction.ordered_reports if transaction else ()
            self._publisher.record_commit(instant, reports, self._now_ms())
            self._note_commit(result.offsets)
        return Settled(result, self._now_ms())

    def _get_transaction(self, instant: InstantTime) -> SinkTransaction:
        assert self._begun is not None, instant
        assert self._begun.instant == instant, (self._begun.instant, instant)
        return self._begun

    def _note_commit(self, offsets: Mapping[int, int]) -> None:
        """Publish the offsets. A failure here does not affect the commit (K5)."""
        self._publisher.set_table_offsets(offsets)
        self._has_committed = True

    def _evolve(self, new_fields: str) -> CoordinatorEvent:
        try:
            self._ledger.evolve(new_fields)
        except InvalidInput as error:
            names = TableSchema.from_avro_json(new_fields).field_names
            return SchemaRefused(tuple(names), str(error), self._now_ms())
        except LakehouseError as error:
            return SchemaRefused((), f"{error.code}: {error}", self._now_ms())
        return SchemaEvolved(self._now_ms())

    def _now_ms(self) -> int:
        return self._clock.now_ms()


def _build_settings(launch: Launch) -> CoordinatorSettings:
    config = launch.config
    return CoordinatorSettings(
        interval_ms=config.interval_s * 1000,
        write_timeout_ms=config.write_timeout_s * 1000,
        init_delay_ms=int(config.init_delay_s * 1000),
        restart_delay_ms=int(config.restart_delay_s * 1000),
        commits_empty=config.commits_empty,
    )
