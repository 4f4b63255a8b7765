"""One run: a seed decides what fails when; then nothing fails any more, and all must end well."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from heapq import heappop, heappush
from typing import Any

from tests.sink_simulator.rules import Rules
from tests.sink_simulator.worker import Killed, Run, Worker
from tests.sink_simulator.world import Ledger, Partition, Violation
from workers.sink.control_codec import CHUNK_BYTES_MAX, ControlCodec
from workers.sink.coordinator_state import CoordinatorSettings
from workers.sink.messages import Message, Ready, Report

FAULTY_MS = 24_000
CALM_MS = 20_000
LIVE_MS = 120_000
"""When the last fault is over, everything is in the table before this."""
SETTINGS = CoordinatorSettings(
    interval_ms=2_500,
    write_timeout_ms=7_000,
    restart_delay_max_ms=4_000,
    silence_ms=10_000,
    farewell_ms=3_000,
)
_LATE_MS = 12_000


class Simulation:
    def __init__(
        self,
        seed: int,
        rules: Rules | None = None,
        *,
        is_calm: bool = False,
        crash_points: Collection[int] = (),
    ) -> None:
        """Calm: nothing fails but for those who are killed at these points, counted from 1."""
        self.crash_points, self.points = crash_points, 0
        self.random = rng = random.Random(seed)
        self.rules = rules or Rules()
        self.settings = SETTINGS
        self.now_ms, self.has_faults, self.is_out = 0, not is_calm, False
        self.is_healed = False
        self.loss = rng.choice((0.0, 0.02, 0.2))
        self.repetition = rng.choice((0.0, 0.05, 0.2))
        self.lateness = rng.choice((0.0, 0.05, 0.2))
        self.gaps = rng.choice((0.0, 0.3))
        self.uses_codec = rng.random() < 0.2
        """For speed, most runs hand the messages over as they are."""
        self.chunk_bytes_max = rng.choice((150, CHUNK_BYTES_MAX))
        self.topic = {one: Partition() for one in range(rng.randint(1, 3))}
        self.ledger = Ledger(self.topic, self.rules.check, rng)
        self.workers: list[Worker] = []
        self.story: list[str] | None = None
        self._events: list[tuple[int, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._numbers = 0
        self._run = self._launched()

    def run(self) -> None:
        """Raises Violation."""
        for _ in range(self.random.randint(1, 6) if self.has_faults else 0):
            self.at(self.random.randint(0, FAULTY_MS), self._fault)
        self.at(500, self._produce)
        self._until(FAULTY_MS if self.has_faults else CALM_MS)
        self._heal()
        is_done = self._until(FAULTY_MS + LIVE_MS, self._is_done)
        self.ledger.judge()
        if not is_done:
            raise Violation(f"KS11: {self._lag()} stay behind at {self.now_ms} ms")

    # Time -------------------------------------------------------------------------------------

    def at(self, delay_ms: int, action: Callable[..., Any], *values: Any) -> None:
        self._numbers += 1
        heappush(self._events, (self.now_ms + delay_ms, self._numbers, action, values))

    def point(self, worker: Worker) -> None:
        """Before and after each message and each call; here somebody may be killed."""
        self.points += 1
        if self.points in self.crash_points and worker.is_alive:
            self.trace("killed at point", self.points, worker.name)
            self._crash(worker)
            raise Killed

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _until(self, end_ms: int, is_done: Callable[[], bool] | None = None) -> bool:
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, number, action, values = heappop(self._events)
            action(*values)
            if is_done and number % 16 == 0 and is_done():
                return True
        self.now_ms = end_ms
        return False

    # The control topic ------------------------------------------------------------------------

    def publish(self, codec: ControlCodec, sender: str, message: Message) -> None:
        """Lost, repeated, late and in any order. What is for the coordinator goes to all workers
        that have one or may have; the others would not listen.
        """
        self.trace("publish", sender, message)
        to_coordinator = isinstance(message, Report | Ready)
        hearers = [
            one for one in self.workers if one.is_alive and (0 in one.members or not to_coordinator)
        ]
        if not self.uses_codec:
            self._deliver(hearers, "listen", message)
            return
        for record in codec.encode(message):
            self._deliver(hearers, "receive", record)

    def _deliver(self, hearers: list[Worker], way: str, content: Message | bytes) -> None:
        rng = self.random
        for worker in hearers:
            copies = 1
            if self.has_faults:
                if self.is_out or rng.random() < self.loss:
                    continue
                copies += rng.random() < self.repetition
            for _ in range(copies):
                is_late = self.has_faults and rng.random() < self.lateness
                delay_ms = rng.randint(100, _LATE_MS) if is_late else rng.randint(1, 30)
                worker.later(delay_ms, getattr(worker, way), content)

    # Faults -----------------------------------------------------------------------------------

    def _fault(self) -> None:
        rng = self.random
        alive = [one for one in self.workers if one.is_alive]
        kinds: list[Callable[[Worker], None]] = [
            self._crash,
            self._crash,
            self._freeze,
            self._freeze,
            self.replace,
            self.replace,
            self._cancel,
            self._outage,
            self._stop,
            self._relaunch,
            self._add_partition,
            self._expire,
            self._restore,
        ]
        if alive:
            kind = rng.choice(kinds)
            self.trace("fault", kind.__name__)
            kind(rng.choice(alive))

    def _crash(self, worker: Worker) -> None:
        worker.crash()
        self.at(self.random.randint(100, 5_000), self._restart, worker)

    def _cancel(self, worker: Worker) -> None:
        """Its tasks are told to end, and have time to say so."""
        for member in worker.members.values():
            member.leave()
        self._crash(worker)

    def _freeze(self, worker: Worker) -> None:
        worker.frozen_until_ms = self.now_ms + self.random.randint(500, 15_000)

    def replace(self, worker: Worker) -> None:
        """The launcher believes that it is dead. It is not, for a while."""
        if self.random.random() < 0.5:
            self._freeze(worker)
        self._restart(worker)
        if self.random.random() < 0.5:
            self.at(self.random.randint(1_000, 20_000), worker.crash)

    def _restart(self, worker: Worker) -> None:
        run = worker.run
        mine = [
            one
            for one in worker.members
            if run.owners.get(one) is worker and one not in run.finished
        ]
        if mine:
            self._started(run, mine)

    def _outage(self, _: Worker) -> None:
        self.is_out = True
        self.at(self.random.randint(1_000, 9_000), self._end_outage)

    def _end_outage(self) -> None:
        self.is_out = False

    def _stop(self, _: Worker) -> None:
        run = self._run
        run.stop = self.random.random() < 0.6 and run.stop is not False
        owner = run.owners[0]
        if owner.is_alive and owner.coordinator:
            owner.later(0, owner.coordinator.stop)
        self.at(self.random.choice((100, 800, 2_000, 9_000)), self._relaunch, owner)

    def _relaunch(self, _: Worker) -> None:
        """What is left of the run before is killed, or lives on for a while."""
        for worker in set(self._run.owners.values()):
            if self.random.random() < 0.6:
                worker.crash()
        self._run = self._launched()

    def _add_partition(self, _: Worker) -> None:
        if len(self.topic) < 4:
            added = len(self.topic)
            self.topic[added] = Partition()
            self.at(self.random.randint(0, 5_000), self._adopt, added)

    def _adopt(self, partition: int) -> None:
        owners = [one for one in self._run.owners.values() if one.is_alive]
        if owners and partition not in self._run.owners:
            self.random.choice(owners).adopt(partition)

    def _expire(self, _: Worker) -> None:
        for partition in self.topic.values():
            partition.low = max(partition.low, partition.high - self.random.randint(0, 30))

    def _restore(self, _: Worker) -> None:
        if self.ledger.commits:
            self.ledger.restore()

    def _produce(self) -> None:
        for partition in self.topic.values():
            partition.produce(self.random, self.random.randint(0, 12), self.gaps)
        if not self.is_healed:
            self.at(2_000, self._produce)

    # Runs -------------------------------------------------------------------------------------

    def _launched(self) -> Run:
        run = Run(self.ledger.launch())
        partitions = list(self.topic)
        self.random.shuffle(partitions)
        count = self.random.randint(1, len(partitions))
        for first in range(count):
            self._started(run, partitions[first::count])
        return run

    def _started(self, run: Run, partitions: list[int]) -> None:
        worker = Worker(self, run, partitions)
        run.owners |= dict.fromkeys(partitions, worker)
        self.workers = [one for one in self.workers if one.is_alive] + [worker]

    def _heal(self) -> None:
        """From here on the launcher does its duty, and nothing fails; zombies may live on."""
        self.is_healed, self.has_faults, self.is_out = True, False, False
        self.trace("heal")
        if self._run.stop is not None or self._run.finished:
            self._relaunch(self._run.owners[0])
        for partition in self.topic:
            if partition not in self._run.owners:
                self._adopt(partition)
        for worker in set(self._run.owners.values()):
            if not worker.is_alive:
                self._restart(worker)
            elif worker.frozen_until_ms > self.now_ms and self.random.random() < 0.5:
                worker.crash()
                self._restart(worker)
        for partition in self.topic:
            if partition not in self._run.owners:
                self._adopt(partition)

    def _is_done(self) -> bool:
        """What the topic has lost nobody can read: without anything behind it, nothing is begun."""
        commits = self.ledger.commits
        stands = commits[-1].offsets if commits else {}
        return all(
            max(stands.get(number, 0), one.low) == one.high for number, one in self.topic.items()
        )

    def _lag(self) -> dict[int, str]:
        stands = self.ledger.last_commit().offsets
        return {
            number: f"{stands.get(number, 0)}/{one.high}"
            for number, one in self.topic.items()
            if max(stands.get(number, 0), one.low) != one.high
        }

    def trace(self, *words: object) -> None:
        if self.story is not None:
            self.story.append(f"{self.now_ms:>7} " + " ".join(map(str, words)))
