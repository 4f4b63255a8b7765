"""The power goes at every step that an operation asks of the disk, and what nobody synced is lost
or not. Every call of the storage keeps its promise, and the table is old or new, as was decided.

In half of the trials the operation's process was killed at a step of chance before, and the power
goes while the next one recovers: what the dead one had not synced is still not on the disk then.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.crash.harness import (
    COW,
    DEAD_AFTER_MS,
    MOR,
    NBCC,
    Kind,
    Rows,
    State,
    Trial,
    died_everywhere,
    made,
    recover,
    rows_of,
)
from tests.crash.operations import OPERATIONS, UPSERT, Operation
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import Crash, MemoryStorage
from tests.support.power_loss import Chance, Disk, Draws, KeepsNames, LosesAll, LostFiles
from tests.support.promised_storage import Promised, PromisedStorage, broken_promises
from tests.support.recorded_disk import RecordedDisk
from workers.lakehouse import LakehouseTable, open_table

SEED = int(os.environ["SLUICE_TEST_SEED"])
DRAWS = 2
"""Losses by chance at each step, beside the two that lose most."""
READ = 6
"""Disks of a trial of which the table is opened, recovered and read."""
TRIALS = [
    (kind, operation)
    for operation in OPERATIONS
    for kind in (COW, MOR, NBCC)
    if operation.runs_on(kind.name)
]
SAMPLED = Random(SEED).sample(TRIALS, 12)


@dataclass
class Run:
    """One process after the other on a table in a directory, whose disk is recorded."""

    kind: Kind
    root: Path
    start: State
    promised: list[Promised] = field(default_factory=list)

    def __post_init__(self) -> None:
        MemoryStorage(StillClock(), self.start.files).dump(self.root)
        self.disk = RecordedDisk(self.root)
        self.began_at = self.disk.began_at
        # Files tell real times here, so the clock must be no earlier.
        self.clock = StillClock(max(self.start.now_ms, _newest_ms(self.root) + 60_000))

    def process(self, name: str, action: Callable[[LakehouseTable], object]) -> None:
        """What it promised before counts as before; `began_at` is where this one began."""
        self.began_at = len(self.disk.steps)
        storage = PromisedStorage(self.disk, self.promised)
        table = open_table(
            str(self.root), ports=still_ports(self.clock, prefix=name), storage=storage
        )
        with self.disk.recorded():
            action(table)

    def killed(self, name: str, action: Callable[[LakehouseTable], object], dies_at: int) -> None:
        self.disk.dies_at = dies_at
        with suppress(Crash):
            self.process(name, action)
        self.disk.dies_at = None
        self.clock.sleep(DEAD_AFTER_MS / 1000)

    def steps(self) -> range:
        """At which the power may go."""
        return range(self.began_at, len(self.disk.steps) + 1)

    def left(self, at_step: int, chance: Chance) -> LostFiles:
        disk = Disk()
        disk.take(self.disk.steps[:at_step])
        return disk.after_power_loss(chance)

    def state(self, left: LostFiles) -> State:
        """As the table's storage lists it: temporary files and versions of others are unseen."""
        now_ms = self.clock.now_ms()
        seen = {path: (content, now_ms) for path, content in left.items() if ".sluice-" not in path}
        return State(seen, now_ms)

    def live(self) -> State:
        files = {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file()
        }
        return self.state(files)


@dataclass(frozen=True)
class Due:
    """Which rows the table must come to, once it was recovered."""

    acknowledged: Rows
    """When the process had done its work."""
    before: Callable[[State], tuple[Rows, ...]] = lambda _: ()
    """When it had not: any of these, by what is decided on the disk that is left."""


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    ("kind", "operation"), SAMPLED, ids=[f"{drawn.name}-{kind.name}" for kind, drawn in SAMPLED]
)
def test_what_was_acknowledged_is_there_whenever_the_power_goes(
    kind: Kind, operation: Operation, tmp_path: Path
) -> None:
    _lose_power(kind, operation, tmp_path, Random(f"{SEED} {kind.name} {operation.name}"))


@pytest.mark.soak
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("draw", range(25))
@pytest.mark.parametrize(
    ("kind", "operation"), TRIALS, ids=[f"{drawn.name}-{kind.name}" for kind, drawn in TRIALS]
)
def test_what_was_acknowledged_is_there_in_every_draw(
    kind: Kind, operation: Operation, draw: int, tmp_path: Path
) -> None:
    random = Random(f"{SEED} {kind.name} {operation.name} {draw}")
    _lose_power(kind, operation, tmp_path, random, disks_read=10**9)


def _lose_power(
    kind: Kind, operation: Operation, place: Path, random: Random, disks_read: int = READ
) -> None:
    start = made(kind, operation.needs)
    trial = Trial(kind, operation, start)

    run = Run(kind, place / "whole", start)
    run.process("x", lambda table: operation.run(table, kind.options))
    trial.knows_rows(run.live())
    _assert_promises_hold(run, random)
    _assert_table_is_whole(run, trial, random, disks_read, Due(trial.new, trial.expected))

    killed = Run(kind, place / "killed", start)
    dies_at = random.choice(run.steps())
    killed.killed("x", lambda table: operation.run(table, kind.options), dies_at)
    killed.process("y", lambda table: _recover_and_write(table, kind))
    _assert_promises_hold(killed, random)
    _assert_table_is_whole(killed, trial, random, 0, Due(rows_of(killed.live())))


def _recover_and_write(table: LakehouseTable, kind: Kind) -> None:
    """Into directories that the dead one may have made, and files that he may have begun."""
    recover(table, kind)
    UPSERT.run(table, kind.options)


def _assert_promises_hold(run: Run, random: Random) -> None:
    for at_step in run.steps():
        for chance in _chances(random):
            broken = broken_promises(run.promised, at_step, run.left(at_step, chance))
            assert broken == [], (broken, at_step, type(chance).__name__, SEED)


def _chances(random: Random) -> list[Chance]:
    return [LosesAll(), KeepsNames(), *(Draws(random) for _ in range(DRAWS))]


def _assert_table_is_whole(
    run: Run, trial: Trial, random: Random, disks_read: int, due: Due
) -> None:
    last = run.steps()[-1]
    chosen = random.sample(run.steps(), min(disks_read, len(run.steps())))
    for at_step in [last, *chosen]:
        for chance in (LosesAll(), Draws(random)):
            state = run.state(run.left(at_step, chance))
            if at_step != last and not trial.operation.takes_back:
                assert rows_of(state) in (trial.old, trial.new), (at_step, SEED)
            later = State(state.files, state.now_ms + DEAD_AFTER_MS)
            end = died_everywhere(later, lambda table: recover(table, run.kind))[-1]
            rows = (due.acknowledged,) if at_step == last else due.before(state)
            assert rows_of(end) in rows, (at_step, type(chance).__name__, SEED)


def _newest_ms(root: Path) -> int:
    return max(path.stat().st_mtime_ns for path in root.rglob("*")) // 1_000_000
