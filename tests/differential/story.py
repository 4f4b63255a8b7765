"""One story: steps done to a table and to its model, and both compared after each."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.differential.comparing import Comparison
from tests.differential.model import Entry, Model, State
from tests.differential.outcomes import Begun, Outcome, assert_allowed, short
from tests.differential.shape import AGE, AGES, COW, NUMBER, VALUES, draw_shape
from tests.differential.stage import PAUSES, PausedWriter, Stage
from tests.differential.writes import Write, Writes
from tests.support.crash_ports import StillClock, still_ports
from workers.concurrency.outcome import Committed, Conflicted
from workers.errors import InvalidInput, RollbackRefused, ServiceRefused, SnapshotChanged
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.schema.alter import AddColumn, DropColumn, SchemaChange, WidenColumn
from workers.table.schema_history import read_instant
from workers.table_services.service import ServiceOutcome

STEPS = (3, 8)
SERVICES = frozenset({"compact", "cluster"})
"""Kinds of entries that change no row."""
WIDER: Mapping[Any, pa.DataType] = {
    pa.int32(): pa.int64(),
    pa.float32(): pa.float64(),
    pa.decimal128(10, 2): pa.decimal128(20, 2),
}
_OPTIONS = {"hoodie.write.markers.type": "direct", "sluice.write.threads": "1"}


@dataclass
class Story:
    """The table of one number, and what has been done to it."""

    number: int
    root: Path
    log: list[str] = field(default_factory=list)
    """One line for each step, for a person who writes a fixed test of it."""
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.draw = random.Random(self.number)
        self.shape = draw_shape(self.draw)
        self.model = Model(self.shape)
        self.writes = Writes(self.draw, self.model)
        self.location = self.root / f"table{self.number}"
        self.clock, self.stage, self.turn = StillClock(), Stage(), 0
        self.entries: list[Entry] = []
        self.events: list[Entry] = []
        """What was completed and what was undone, in order."""
        self.is_altered = self.tells_ages = False
        self.saved: list[Entry] = []
        self.comparison = Comparison(self)
        self._note(str(self.shape))
        for name in ("table_type", "index", "merge", "key", "partitions", "age"):
            self.counts[f"shape {name} {getattr(self.shape, name)}"] += 1

    def check(self) -> None:
        """Run it. Raises AssertionError with all its steps and the command that repeats it."""
        try:
            self._run()
        except Exception as error:
            steps = "\n  ".join(self.log)
            command = f"{sys.executable} -m tests.differential {self.number}"
            what = f"{type(error).__name__}: {error}"
            raise AssertionError(f"{what}\n  {steps}\nrepeat it: {command}") from error

    def _run(self) -> None:
        shutil.rmtree(self.location, ignore_errors=True)
        with self.stage.opened():
            self._create()
            for _ in range(self.draw.randint(*STEPS)):
                self._step()
                self.comparison.now()
            self.comparison.at_the_end()
        shutil.rmtree(self.location)

    @property
    def state(self) -> State:
        return self.entries[-1].state

    def table(self) -> LakehouseTable:
        self.turn += 1
        return open_table(self.location, ports=still_ports(self.clock, prefix=f"t{self.turn}-"))

    def _create(self) -> None:
        schema = self.shape.schema
        create_table(
            self.location,
            name="story",
            schema=schema,
            record_key=self.shape.key_names,
            partition_by=self.shape.partition_names,
            ordering=[AGE] if self.shape.by_event else [],
            table_type=self.shape.table_type,
            options=self.shape.options,
            ports=still_ports(self.clock, prefix="new"),
        )
        first = self.table().timeline()[0]
        state = State({}, tuple((one.name, one.type) for one in schema))
        assert first.completed_at is not None
        self._add("create", first.requested_at, first.completed_at, state)

    def _step(self) -> None:
        roll = self.draw.random()
        if roll < 0.5:
            self._write()
        elif roll < 0.72:
            self._race()
        else:
            steps: list[Callable[[], None]] = [self._cluster, self._clean, self._archive]
            steps += [self._roll_back, self._alter, self._save, self._restore]
            steps += [self._compact] * (0 if self.shape.table_type == COW else 3)
            self.draw.choice(steps)()

    # Writes.

    def _write(self) -> None:
        write = self.writes.any(self.state)
        self._note(f"{write.mode[0]} {write.text}", write.kind)
        begun = Begun(write, len(self.events), "alone")
        self._settle(begun, self._ran(write, self._options(write, "alone")))

    def _race(self) -> None:
        """Up to three writers begin one after the other and end in another order."""
        writers: list[tuple[Begun, PausedWriter]] = []
        for number in range(self.draw.choice((2, 2, 3))):
            write, point = self.writes.any(self.state), self.draw.choice(PAUSES)
            name = f"w{self.turn}-{number}"
            self._note(f"{name} begins, pauses {point}: {write.mode[0]} {write.text}", write.kind)
            options = self._options(write, name)
            begun = Begun(write, len(self.events), point)

            def act(write: Write = write, options: dict[str, str] = options) -> Any:
                return self._ran(write, options)

            writers.append((begun, self.stage.begin(name, point, act)))
        self.counts[f"race of {len(writers)}"] += 1
        self.draw.shuffle(writers)
        for begun, writer in writers:
            if self.draw.random() < 0.25:
                steps = [self._roll_back, self._alter, self._clean, self._archive]
                steps += [self._compact, self._cluster] if self.shape.is_mor else [self._cluster]
                self.draw.choice(steps)()
                self.counts["step beside writers"] += 1
            outcome = writer.finish()
            self._note(f"{writer.name} ends")
            self._settle(begun, outcome)
            self.comparison.now()

    def _ran(self, write: Write, options: dict[str, str]) -> Outcome:
        try:
            return write.run(self.table(), options)
        except (InvalidInput, SnapshotChanged) as error:
            return error

    def _settle(self, begun: Begun, outcome: Outcome) -> None:
        """Compare the outcome with those that the rules allow, and let the model follow it."""
        self.log[-1] += f" -> {short(outcome)}"
        kind = type(outcome).__name__
        rule = f" {outcome.conflict.rule}" if isinstance(outcome, Conflicted) else ""
        self.counts[f"outcome {kind}{rule}"] += 1
        write, number = begun.write, len(self.events)
        base = begun.base(self.entries, self.events)
        after = write.apply(base.state, self.state, number)
        touched = self.model.touched(self.state, after)
        groups = self._file_groups(outcome.instant) if isinstance(outcome, Committed) else None
        assert_allowed(self.shape, begun, base, self.events[begun.at :], outcome, touched, groups)
        if not isinstance(outcome, Committed):
            return
        if write.kind == "delete where" and write.is_non_blocking:
            self.tells_ages = True
        restated_at = outcome.republished_by and self._completed_at(outcome.republished_by)
        self._add(
            write.kind,
            outcome.instant,
            outcome.completed_at,
            after,
            touched=touched,
            file_groups=groups or frozenset(),
            restated_by=outcome.republished_by,
            restated_at=restated_at,
        )

    def _file_groups(self, instant: str) -> frozenset[tuple[str, str]]:
        table = self.table().table
        done = table.timeline().find(instant)
        assert done is not None, f"committed, and not on the timeline: {instant}"
        return read_instant(table, done).file_groups

    # Schema changes.

    def _alter(self) -> None:
        if self.shape.has_groups:
            return  # Its columns have places in groups.
        change = self._change()
        self._note(f"alter {change}", f"alter {type(change).__name__}")
        outcome = self._tried(lambda: self.table().alter(change, options=_OPTIONS), InvalidInput)
        if outcome is None:
            # Logs hold a delete that tells its age under the older type.
            assert change.name == AGE, change
            assert self.tells_ages, change
            return
        assert isinstance(outcome, Committed), outcome
        columns = dict(self.state.columns)
        if isinstance(change, DropColumn):
            del columns[change.name]
        else:
            assert isinstance(change, AddColumn | WidenColumn)
            columns[change.name] = change.type
        self.is_altered = True
        state = State(self.state.rows, tuple(columns.items()), self.state.memory)
        self._add("alter", outcome.instant, outcome.completed_at, state)

    def _change(self) -> SchemaChange:
        kind = self.draw.choice(sorted(VALUES))
        payload = sorted(name for name in self.state.names if name.startswith("c_"))
        changes: list[SchemaChange] = [AddColumn(f"c_{kind}_{self.turn}", VALUES[kind][0])]
        for name, old in self.state.columns:
            can_widen = name in (NUMBER, *payload) or (name == AGE and self._age_can_widen)
            if can_widen and old in WIDER:
                changes.append(WidenColumn(name, WIDER[old]))
        changes += [DropColumn(name) for name in payload[:1]]
        return self.draw.choice(changes)

    @property
    def _age_can_widen(self) -> bool:
        return self.shape.age in AGES

    # Services, rollbacks.

    def _compact(self) -> None:
        self._note("compact", "compact")
        self._served("compact", self.table().compact(options=_OPTIONS))

    def _cluster(self) -> None:
        self._note("cluster", "cluster")
        self._served("cluster", self.table().cluster([NUMBER], options=_OPTIONS))

    def _served(self, kind: str, outcome: ServiceOutcome) -> None:
        self.log[-1] += f" -> {outcome.instant}"
        if outcome.instant is not None:
            completed_at = self._completed_at(outcome.instant)
            groups = self._file_groups(outcome.instant)
            state = self.model.compacted(self.state)
            self._add(kind, outcome.instant, completed_at, state, file_groups=groups)

    def _clean(self) -> None:
        retained = self.draw.randint(1, 4)
        self._note(f"clean, retain {retained}", "clean")
        self.table().clean({"hoodie.clean.commits.retained": str(retained)})
        newest = self.table().table.timeline().list_completed_writes()[-retained:]
        first = newest[0].completed_at if newest else ""
        for entry in self.entries:
            if entry.completed_at < first:
                entry.may_be_expired = True

    def _archive(self) -> None:
        least = self.draw.randint(1, 4)
        self._note(f"archive, keep {least}", "archive")
        keep = {"hoodie.keep.min.commits": str(least), "hoodie.keep.max.commits": str(least + 1)}
        self.table().archive(keep)

    def _roll_back(self) -> None:
        newest = self.entries[-1]
        if newest.kind in ("create", *SERVICES):
            return
        self._note(f"roll back {newest.kind} {newest.instant}", "rollback")
        # What states it again for other readers goes first.
        instants = [one for one in (newest.restated_by, newest.instant) if one]
        if all(self._tried(partial(self._undo, one), RollbackRefused) for one in instants):
            self.events.append(self.entries.pop())
            return
        before = self.entries[-2]
        is_held = newest in self.saved or self._is_archived(newest)
        assert is_held or before.may_be_expired, "a rollback was refused"

    def _undo(self, instant: str) -> Any:
        return self.table().rollback(instant, dry_run=False, reason="test")

    def _is_archived(self, entry: Entry) -> bool:
        return self.table().table.timeline().find(entry.instant) is None

    def _save(self) -> None:
        entry = self.entries[-1]
        if entry in self.saved or self._is_archived(entry):
            return
        self._note(f"savepoint {entry.instant}", "savepoint")
        self.table().savepoint(entry.instant)
        self.saved.append(entry)

    def _restore(self) -> None:
        if not self.saved or self.entries[-1] is self.saved[-1]:
            return
        goal = self.saved[-1]
        self._note(f"restore {goal.instant}", "restore")
        done = self._tried(lambda: self.table().restore(goal.instant), ServiceRefused)
        if done is None:
            assert goal.may_be_expired or self._is_archived(goal), "a restore was refused"
            return
        while self.entries[-1] is not goal:
            self.events.append(self.entries.pop())

    # Helpers.

    def _tried(self, act: Callable[[], Any], refusal: type[Exception]) -> Any:
        """Return what `act` returns, None where the table refuses it."""
        try:
            return act()
        except refusal as error:
            self.log[-1] += f" -> {error}"
            self.counts[f"refused {type(error).__name__}"] += 1
            return None

    def _add(self, kind: str, instant: str, completed_at: str, state: State, **more: Any) -> None:
        entry = Entry(len(self.events), kind, instant, completed_at, state, **more)
        self.entries.append(entry)
        self.events.append(entry)

    def _completed_at(self, instant: str) -> str:
        done = self.table().table.timeline().find(instant)
        assert done is not None, instant
        assert done.completed_at is not None, instant
        return done.completed_at

    def _options(self, write: Write, writer: str) -> dict[str, str]:
        named = {"hoodie.write.concurrency.mode": write.mode, "sluice.writer.name": writer}
        filling = {} if self.shape.fills_small_files else {"hoodie.parquet.small.file.limit": "0"}
        return {**_OPTIONS, **named, **filling}

    def _note(self, text: str, kind: str | None = None) -> None:
        self.log.append(text)
        if kind:
            self.counts[f"step {kind}"] += 1
