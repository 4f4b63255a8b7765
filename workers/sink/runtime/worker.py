"""Worker process of a sink, with every n-th partition of the topic.

The partition number alone determines the worker, so new partitions of the topic need no
coordination. The worker with partition 0 also runs the coordinator (S1-07).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable

from workers.errors import KafkaFailed, LakehouseError, NotFound, SinkFenced
from workers.options.sink_keys import SinkMode
from workers.ports import Ports
from workers.sink.context import SinkContexts
from workers.sink.control_codec import ControlCodec
from workers.sink.coordinator_state import CoordinatorName
from workers.sink.epoch import read_epoch
from workers.sink.kafka.client_config import connection_settings, consumer_settings
from workers.sink.kafka.consumer import PartitionConsumer
from workers.sink.kafka.control_bus import ControlBus
from workers.sink.kafka.topics import Topics
from workers.sink.messages import AckCommit, EndCommit, StartCommit
from workers.sink.participant import ParticipantState
from workers.sink.runtime.coordinator_loop import CoordinatorLoop
from workers.sink.runtime.launch import Launch, WorkerEnded
from workers.sink.runtime.mailbox import Outbox
from workers.sink.runtime.participant_loop import ParticipantLoop, WorkerContext
from workers.sink.runtime.service_plans import build_write_options
from workers.sink.state_file import read_state
from workers.table.table import Table

COORDINATOR_PARTITION = 0
_POLL_S = 0.05
_LOOK_S = 2.0
_NEW_PARTITIONS_S = 10.0
_END_S = 30.0
_log = logging.getLogger(__name__)


class SinkWorker:
    """One worker of a launch. One thread creates it and runs it once."""

    def __init__(
        self,
        table: Table,
        launch: Launch,
        number: int,
        attempt: str,
    ) -> None:
        """Connect worker `number` of `launch.workers`. `attempt` distinguishes the process from
        earlier ones.

        Raises KafkaFailed, NotFound if the broker or the topic is missing.
        """
        config = launch.config
        self._table, self._launch, self._number = table, launch, number
        environment = self._environment = launch.environment
        self._ports: Ports = table.ports
        self._name = f"{socket.gethostname()}:{os.getpid()}:{attempt}"
        self._codec = ControlCodec(config.sink_id, table.storage.location, launch.secret)
        self._bus = ControlBus(config, environment, self._ports.clock, worker=self._name)
        self._topics = Topics(connection_settings(config, environment), clock=self._ports.clock)
        self._outbox = Outbox()
        options = build_write_options(config, table.storage.location, launch.options)
        self._context = WorkerContext(
            config=config,
            storage=table.storage,
            contexts=SinkContexts(table, config, options),
            outbox=self._outbox,
            clock=self._ports.clock,
            consume=self._create_consumer,
        )
        self._participants: dict[int, ParticipantLoop] = {}
        self._coordinator: CoordinatorLoop | None = None
        self._threads: list[_LoopThread] = []
        self._lost = 0

    def run(self, is_cancelled: Callable[[], bool] = lambda: False) -> WorkerEnded:
        """Run until the coordinator stops the sink. Raises the error of a loop of this worker."""
        try:
            self._take_partitions()
            if COORDINATOR_PARTITION in self._participants:
                self._start_coordinator()
            return self._serve(is_cancelled)
        finally:
            self._end_loops("the worker ends")
            self._bus.close()

    def _serve(self, is_cancelled: Callable[[], bool]) -> WorkerEnded:
        """Run the agent of the control topic: dispatch received messages, and publish others."""
        clock = self._ports.clock
        looks_at = clock.monotonic_s() + _LOOK_S
        counts_at = clock.monotonic_s() + _NEW_PARTITIONS_S
        while True:
            self._dispatch()
            self._publish()
            self._raise_loop_errors()
            if (ended := self._find_end()) is not None:
                self._publish()
                return ended
            if is_cancelled():
                return WorkerEnded("the task was cancelled")
            now = clock.monotonic_s()
            if now >= looks_at:
                looks_at = now + _LOOK_S
                if (over := self._find_end_elsewhere()) is not None:
                    return over
            if now >= counts_at:
                counts_at = now + _NEW_PARTITIONS_S
                self._check_new_partitions()

    def _dispatch(self) -> None:
        for record in self._bus.poll(_POLL_S):
            message = self._codec.decode(record)
            if message is None:
                if self._coordinator is not None:
                    self._coordinator.ignored_records = self._codec.ignored
                continue
            if self._coordinator is not None:
                self._coordinator.inbox.put(message)
            if isinstance(message, StartCommit | EndCommit | AckCommit):
                for participant in self._participants.values():
                    participant.inbox.put(message)

    def _publish(self) -> None:
        """Publish the outbox. Messages that cannot be sent are lost; the protocol repeats them."""
        records = [part for message in self._outbox.drain() for part in self._codec.encode(message)]
        if not records:
            return
        try:
            self._bus.publish(records)
        except KafkaFailed as error:
            self._lost += len(records)
            _log.warning("control messages lost: messages=%s error=%s", len(records), error)

    def _raise_loop_errors(self) -> None:
        for thread in self._threads:
            if thread.error is not None:
                raise thread.error

    def _find_end(self) -> WorkerEnded | None:
        finished = all(loop.finished for loop in self._participants.values())
        coordinator = self._coordinator
        if coordinator is None:
            has_all = bool(self._participants) and finished
            return WorkerEnded("the coordinator has stopped") if has_all else None
        if coordinator.ended is None:
            return None
        if coordinator.ended.is_fenced:
            return self._end_fenced(coordinator.ended)
        # The participants of this worker receive the last ACK like all others.
        return coordinator.ended if finished else None

    def _end_fenced(self, ended: WorkerEnded) -> WorkerEnded:
        """Return the end of a fenced worker. Raises SinkFenced if another process of this launch
        fenced it: that process may no longer be a task of Spark, so this task must be restarted.
        """
        if (over := self._find_end_elsewhere()) is not None:
            return over
        raise SinkFenced("another coordinator of this launch has a higher epoch", why=ended.reason)

    def _find_end_elsewhere(self) -> WorkerEnded | None:
        """Return the end if no transaction will include this worker, even without an ACK: another
        launch took the sink over, or the coordinator stopped and its last ACK was lost.
        """
        storage, sink_id = self._table.storage, self._launch.config.sink_id
        try:
            epoch, state = read_epoch(storage, sink_id), read_state(storage, sink_id)
        except LakehouseError as error:
            _log.warning("the sink's files are not read: %s", error)
            return None
        if epoch is not None and self._launch.is_after(epoch):
            return WorkerEnded(f"another launch took the sink over: {epoch.owner}", is_fenced=True)
        if self._coordinator is not None or state is None:
            return None
        if state.state == CoordinatorName.STOPPED and self._launch.is_owner(state.owner):
            return WorkerEnded("the coordinator has stopped")
        return None

    # Partitions and threads -------------------------------------------------------------------

    def _take_partitions(self) -> None:
        """Start a participant for each partition of this worker that has none."""
        launch = self._launch
        facts = self._topics.facts(launch.config.topic)
        for partition in sorted(facts.watermarks):
            if partition % launch.workers == self._number and partition not in self._participants:
                self._participants[partition] = self._start_participant(partition)

    def _check_new_partitions(self) -> None:
        try:
            self._take_partitions()
        except (KafkaFailed, NotFound) as error:
            _log.warning("new partitions not looked for: %s", error)

    def _start_participant(self, partition: int) -> ParticipantLoop:
        state = ParticipantState(
            partition=partition,
            participant_id=f"{partition}@{self._name}:{self._ports.ids.token()[:8]}",
            since_ms=self._ports.clock.now_ms(),
            run_id=self._launch.run_id,
        )
        loop = ParticipantLoop(self._context, state)
        self._threads.append(_LoopThread(loop, f"sink-participant-{partition}"))
        return loop

    def _start_coordinator(self) -> None:
        self._coordinator = CoordinatorLoop(
            self._table, self._launch, self._name, self._create_coordinator_topics(), self._outbox
        )
        self._threads.append(_LoopThread(self._coordinator, "sink-coordinator"))

    def _create_coordinator_topics(self) -> Topics:
        """Create a separate client, because the coordinator runs in another thread."""
        settings = connection_settings(self._launch.config, self._environment)
        return Topics(settings, clock=self._ports.clock)

    def _create_consumer(self, partition: int) -> PartitionConsumer:
        config = self._launch.config
        settings = consumer_settings(config, self._environment)
        wants_keys = config.mode is SinkMode.UPSERT
        return PartitionConsumer(settings, config.topic, partition, wants_keys=wants_keys)

    def _end_loops(self, reason: str) -> None:
        """End all loops, and publish their last messages if the broker is reachable."""
        for participant in self._participants.values():
            participant.leave(reason)
        if self._coordinator is not None:
            self._coordinator.leave(reason)
        for thread in self._threads:
            thread.join(_END_S)
        self._publish()


class _LoopThread:
    def __init__(self, loop: ParticipantLoop | CoordinatorLoop, name: str) -> None:
        self.error: BaseException | None = None
        self._loop = loop
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop.run()
        except BaseException as error:  # noqa: BLE001 # The agent raises it in the task's thread.
            _log.exception("a loop of the sink ended")
            self.error = error

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
