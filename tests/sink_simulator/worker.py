"""A worker process: participants, and beside partition 0 the coordinator; it may die or freeze."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.sink_simulator.member import Member
from tests.sink_simulator.world import Violation
from workers.sink.control_codec import ControlCodec
from workers.sink.coordinator_events import (
    Abort,
    AbortEnded,
    Begin,
    BeginFailed,
    Commit,
    CommitEnded,
    CommitFailed,
    CommitUnknown,
    CoordinatorEffect,
    CoordinatorEvent,
    EvolveSchema,
    SchemaEvolved,
    SchemaRefused,
    Settle,
    Settled,
    Started,
    Stopped,
    StopRequested,
)
from workers.sink.coordinator_state import CoordinatorName, CoordinatorState
from workers.sink.messages import (
    AckCommit,
    EndCommit,
    Message,
    MessageReceived,
    Send,
    StartCommit,
    Tick,
)

if TYPE_CHECKING:
    from tests.sink_simulator.simulation import Simulation

SECRET = b"known to this simulation"
TICK_MS = 800


class Killed(Exception):
    """The process is gone, in the middle of what it did."""


@dataclass(eq=False, slots=True)
class Run:
    """One launch of the sink."""

    launch: int
    owners: dict[int, Worker] = field(default_factory=dict)
    """The worker that has each partition, by the launcher's book; zombies are in no book."""
    finished: set[int] = field(default_factory=set)
    """Partitions whose task came to its end, so that nobody will start it again."""
    stop: bool | None = None
    """Whether it was asked to stop gracefully; None when it was not asked."""

    @property
    def run_id(self) -> str:
        return f"run{self.launch}"


class Worker:
    def __init__(self, simulation: Simulation, run: Run, partitions: Iterable[int]) -> None:
        self.simulation, self.run = simulation, run
        self.name = f"{run.run_id}w{simulation.number()}"
        self.is_alive, self.frozen_until_ms = True, 0
        self.codec = ControlCodec("s", "t", SECRET, chunk_bytes_max=simulation.chunk_bytes_max)
        self.members = {one: Member(self, one, f"{self.name}p{one}") for one in partitions}
        self.coordinator: Coordinator | None = None
        self.later(simulation.random.randint(0, TICK_MS), self._tick)
        if 0 in self.members:
            self.later(simulation.random.randint(0, 500), self.coordinate)

    @property
    def is_owner(self) -> bool:
        return any(self.run.owners.get(one) is self for one in self.members)

    def later(self, delay_ms: int, action: Callable[..., None], *values: Any) -> None:
        """Unless it is dead by then; when it is frozen, as soon as it is not."""
        self.simulation.at(delay_ms, self._if_alive, action, values)

    def _if_alive(self, action: Callable[..., None], values: tuple[Any, ...]) -> None:
        if not self.is_alive:
            return
        if self.frozen_until_ms > self.simulation.now_ms:
            delay_ms = self.frozen_until_ms - self.simulation.now_ms
            self.simulation.at(delay_ms, self._if_alive, action, values)
            return
        with suppress(Killed):
            action(*values)

    def publish(self, message: Message) -> None:
        self.simulation.point(self)
        self.simulation.publish(self.codec, self.name, message)
        self.simulation.point(self)

    def receive(self, record: bytes) -> None:
        if message := self.codec.decode(record):
            self.listen(message)

    def listen(self, message: Message) -> None:
        if isinstance(message, StartCommit | EndCommit | AckCommit):
            for member in self.members.values():
                member.hear(message)
            self._book()
        if self.coordinator:
            self.coordinator.feed(MessageReceived(message, self.simulation.now_ms))

    def coordinate(self) -> None:
        epoch = self.simulation.ledger.acquire(self.run.launch)
        if epoch is None:
            self._end_run()
            return
        self.coordinator = Coordinator(self, epoch)
        self.coordinator.feed(Started(self.simulation.now_ms))
        if self.run.stop is not None:
            self.coordinator.stop()

    def adopt(self, partition: int) -> None:
        self.members[partition] = Member(self, partition, f"{self.name}p{partition}")
        self.run.owners[partition] = self

    def crash(self) -> None:
        self.is_alive = False

    def fenced(self) -> None:
        """Whoever has partition 0, by the book, comes back with a higher epoch."""
        if self.run.owners.get(0) is self:
            self.later(self.simulation.random.randint(500, 2_000), self.coordinate)

    def _end_run(self) -> None:
        """A later launch has taken over; the launcher of this one tells its tasks to end."""
        for worker in set(self.run.owners.values()):
            for member in worker.members.values():
                worker.later(1_000, member.leave)

    def _tick(self) -> None:
        for member in self.members.values():
            member.tick()
        self._book()
        if self.coordinator:
            self.coordinator.feed(Tick(self.simulation.now_ms))
        self.later(TICK_MS, self._tick)

    def _book(self) -> None:
        for partition, member in self.members.items():
            if member.is_finished and self.run.owners.get(partition) is self:
                self.run.finished.add(partition)


class Coordinator:
    def __init__(self, worker: Worker, epoch: int) -> None:
        self.worker, self.simulation = worker, worker.simulation
        self.state = CoordinatorState(
            f"{worker.name}e{epoch}", epoch, worker.run.run_id, self.simulation.settings
        )
        self.is_over = False
        self.open_instant = ""
        """Begun, and not known to be committed or rolled back."""

    def stop(self) -> None:
        is_graceful = bool(self.worker.run.stop)
        self.feed(StopRequested(is_graceful, "asked", self.simulation.now_ms))

    def feed(self, event: CoordinatorEvent) -> None:
        self.state, effects = self.simulation.rules.coordinator(self.state, event)
        for effect in effects:
            if self.is_over:
                raise Violation(f"K3: {self.state.coordinator_id} is over and asks {effect}")
            self._perform(effect)

    def _perform(self, effect: CoordinatorEffect) -> None:
        match effect:
            case Send(message):
                self.worker.publish(message)
            case Stopped():
                self.is_over = True
                if self.state.name is CoordinatorName.FENCED:
                    self.worker.fenced()
            case _:
                self._ask(effect)

    def _ask(self, effect: CoordinatorEffect) -> None:
        """A request that is out is carried out even if whoever sent it dies or freezes."""
        simulation, rng = self.simulation, self.simulation.random
        delay_ms = rng.choice((0, 10, 300))
        if simulation.has_faults and rng.random() < 0.04:
            delay_ms = rng.randint(1_000, 12_000)
            if rng.random() < 0.5:
                simulation.replace(self.worker)
        simulation.at(delay_ms, self._carry_out, effect)

    def _carry_out(self, effect: CoordinatorEffect) -> None:
        simulation = self.simulation
        if not self.worker.is_alive and simulation.random.random() < 0.5:
            return
        with suppress(Killed):
            simulation.point(self.worker)
            answer = self._answer(effect)
            simulation.trace("ledger", self.state.coordinator_id, effect, answer)
            simulation.point(self.worker)
            self.worker.later(simulation.random.choice((0, 10, 300)), self.feed, answer)

    def _answer(self, effect: CoordinatorEffect) -> CoordinatorEvent:
        simulation = self.simulation
        ledger, now_ms = simulation.ledger, simulation.now_ms
        has_failed = simulation.has_faults and simulation.random.random() < 0.1
        match effect:
            case Begin():
                if self.open_instant:
                    raise Violation(f"KS7: {self.open_instant} is not settled, and others begin")
                if has_failed:
                    return BeginFailed("storage", now_ms)
                begun = ledger.begin(self.state.epoch, now_ms)
                self.open_instant = getattr(begun, "instant", "")
                return begun
            case Commit(instant, reports):
                return CommitEnded(self._committed(instant, reports, has_failed), now_ms)
            case Settle(instant):
                if has_failed:
                    return Settled(CommitUnknown("storage"), now_ms)
                self.open_instant = ""
                return Settled(ledger.settle(instant), now_ms)
            case Abort(instant):
                self.open_instant = ""
                if not has_failed:
                    ledger.abort(instant)
                return AbortEnded(now_ms)
            case EvolveSchema():
                if has_failed:
                    return SchemaRefused((), "lock", now_ms)
                if simulation.random.random() < 0.2:
                    return SchemaRefused(("x",), "never", now_ms)
                ledger.columns += 1
                return SchemaEvolved(now_ms)
            case _:
                raise AssertionError(effect)

    def _committed(self, instant: str, reports: Any, has_failed: bool) -> Any:
        """Storage that does not answer may have done it, not have done it, or do it later."""
        ledger, rng = self.simulation.ledger, self.simulation.random
        if not has_failed:
            result = ledger.commit(instant, reports)
            if not isinstance(result, CommitFailed):
                self.open_instant = ""
            return result
        kind = rng.randrange(5)
        if kind == 0:
            return CommitFailed("storage", can_retry=True)
        if kind == 1:
            return CommitFailed("conflict")
        if kind == 2:
            ledger.commit(instant, reports)
        if kind == 3:
            self.simulation.at(rng.randint(1, 3_000), ledger.commit, instant, reports)
        return CommitUnknown("no answer")
