"""Random operations, services and crashes: after each step the table holds what the model holds,
now and at every time that it still remembers.

The machine dies at a chosen storage call of a step, and recovery decides which of the two tables
stands: the model follows, and never sees a third.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.crash.harness import (
    COW,
    COW_GLOBAL,
    COW_SIMPLE,
    DEAD_AFTER_MS,
    MOR,
    MOR_BLOOM,
    MOR_GLOBAL,
    NBCC,
    Kind,
    State,
    assert_nothing_is_left,
    recover,
)
from tests.crash.operations import ALONE
from tests.state_machine.model import Key, Model, Row, Rows
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MOMENTS, Crash, FaultyStorage, Moment
from tests.support.sampling import examples, story_seed
from workers.errors import PlanOvertaken, RollbackRefused, ServiceRefused, SnapshotExpired
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.write_options import write_options
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.timeline.instant import Action

PARTS = ("p", "q", "r/s")
COLUMNS = ("part", "id", "ts", "city")
_TYPES: dict[str, pa.DataType] = {
    "part": pa.string(),
    "id": pa.string(),
    "ts": pa.int64(),
    "city": pa.string(),
}
SCHEMA = pa.schema(_TYPES)
NEVER = 1_000_000
_REMEMBERED = 6

keys = st.builds(Key, st.sampled_from(PARTS), st.sampled_from("abcdefgh"))
rows = st.builds(
    lambda key, ts, city: Row(key.part, key.id, ts, city),
    keys,
    st.integers(0, 9),
    st.none() | st.sampled_from(("Oslo", "Rome", "Köln")),
)
batches = st.lists(rows, min_size=1, max_size=8)
deaths = st.none() | st.tuples(st.integers(1, 40), st.sampled_from(MOMENTS))
Death = tuple[int, Moment] | None


class TableMachine(RuleBasedStateMachine):
    @initialize(
        kind=st.sampled_from((COW, MOR, NBCC, COW_SIMPLE, MOR_BLOOM, COW_GLOBAL, MOR_GLOBAL))
    )
    def create(self, kind: Kind) -> None:
        self.kind = kind
        self.model = Model(is_global=kind.is_global)
        self.turn = 0
        clock = StillClock()
        storage = FaultyStorage(clock, {}, die_at=NEVER, moment="before")
        create_table(
            storage.location,
            name="machine",
            schema=SCHEMA,
            record_key=["id"],
            partition_by=["part"],
            ordering=["ts"],
            table_type=kind.table_type,
            options={
                **kind.table_options,
                "hoodie.datasource.write.partitionpath.urlencode": "true",
            },
            ports=still_ports(clock, prefix="new"),
            storage=storage,
        )
        self.state = State(storage.files, clock.now_ms() + 1000)
        self._remember()

    # Writes.

    @rule(batch=batches, death=deaths)
    def upsert(self, batch: list[Row], death: Death) -> None:
        self._write(batch, "upsert", self.model.upserted(batch), death)

    @rule(doomed=st.lists(keys, min_size=1, max_size=4), death=deaths)
    def delete(self, doomed: list[Key], death: Death) -> None:
        given = pa.Table.from_pylist([key._asdict() for key in doomed])

        def run(table: LakehouseTable) -> None:
            table.delete(given, options=self.kind.options)

        self._step(run, self.model.deleted(doomed), death)

    @precondition(lambda self: self.kind is not NBCC and not self.kind.is_global)
    @rule(batch=batches, death=deaths)
    def insert_overwrite(self, batch: list[Row], death: Death) -> None:
        self._write(batch, "insert_overwrite", self.model.overwritten(batch), death)

    @precondition(lambda self: self.kind is not NBCC)
    @rule(batch=batches, death=deaths)
    def insert_overwrite_table(self, batch: list[Row], death: Death) -> None:
        fresh = Model(is_global=self.kind.is_global)
        self._write(batch, "insert_overwrite_table", fresh.upserted(batch), death)

    @precondition(lambda self: self.kind is not NBCC and self.model.rows)
    @rule(data=st.data(), death=deaths)
    def delete_partition(self, data: st.DataObject, death: Death) -> None:
        present = sorted({key.part for key in self.model.rows})
        part = data.draw(st.sampled_from(present))

        def run(table: LakehouseTable) -> None:
            table.delete_partition([{"part": part}], options=self.kind.options)

        self._step(run, self.model.without_partition(part), death)

    @precondition(lambda self: len(self.model.commits) > 1)
    @rule(death=deaths)
    def roll_back_newest(self, death: Death) -> None:
        writes = self._table().table.timeline().list_completed_writes()
        if not writes:
            return  # The rest is archived.
        newest = writes[-1]
        earlier = [then for at, then in self.model.commits if at < (newest.completed_at or "")]
        if not earlier:
            return
        before = earlier[-1]

        def run(table: LakehouseTable) -> None:
            table.rollback(newest.requested_at, dry_run=False, reason="test")

        try:
            self._step(run, before, death, takes_back=True)
        except RollbackRefused:
            return
        if self._table().table.timeline().find(newest.requested_at) is None:
            # What this commit was remembered by is gone with it.
            self.model.commits = [
                one for one in self.model.commits if one[0] < (newest.completed_at or "")
            ]

    # Table services.

    @precondition(lambda self: self.kind is not COW)
    @rule(is_plan_only=st.booleans(), death=deaths)
    def compact(self, is_plan_only: bool, death: Death) -> None:
        self._serve("compaction", death, schedule_only=str(is_plan_only).lower())

    @rule(is_plan_only=st.booleans(), order=st.sampled_from(("linear", "z-order")), death=deaths)
    def cluster(self, is_plan_only: bool, order: str, death: Death) -> None:
        parameters = {
            "hoodie.clustering.plan.strategy.sort.columns": "city,ts",
            "hoodie.layout.optimize.strategy": order,
            "schedule_only": str(is_plan_only).lower(),
        }
        self._serve("clustering", death, **parameters)

    @rule(commits=st.integers(1, 3), death=deaths)
    def clean(self, commits: int, death: Death) -> None:
        self._serve("clean", death, **{"hoodie.clean.commits.retained": str(commits)})

    @rule(death=deaths)
    def savepoint(self, death: Death) -> None:
        writes = self._table().table.timeline().list_completed_writes()
        if writes:
            self._serve("savepoint", death, instant=writes[-1].requested_at)

    @precondition(lambda self: self._savepoints())
    @rule(data=st.data(), death=deaths)
    def delete_savepoint(self, data: st.DataObject, death: Death) -> None:
        chosen = data.draw(st.sampled_from(self._savepoints()))
        self._serve("delete_savepoint", death, instant=chosen)

    @rule(least=st.integers(1, 3), death=deaths)
    def archive(self, least: int, death: Death) -> None:
        keep = {"hoodie.keep.min.commits": str(least), "hoodie.keep.max.commits": str(least + 1)}
        self._serve("archive", death, **keep)

    @precondition(lambda self: self._savepoints())
    @rule(data=st.data(), death=deaths)
    def restore(self, data: st.DataObject, death: Death) -> None:
        """To a savepoint: whatever happened since, services included, is undone."""
        chosen = data.draw(st.sampled_from(self._savepoints()))
        at = max(one for one, _ in self.model.commits if one <= self._completed_at(chosen))
        then = dict(self.model.commits)[at]
        before = self._restores()
        request = ServiceRequest(by="machine", reason="test", parameters={"instant": chosen})

        def run(table: LakehouseTable) -> None:
            get_service("restore").run(table.table, request, write_options(self.kind.options))

        try:
            self._step(run, then, death, takes_back=True)
        except ServiceRefused:
            return
        if self._restores() > before:
            self.model.commits = [one for one in self.model.commits if one[0] <= at]

    # What is always true.

    @invariant()
    def table_holds_what_the_model_holds(self) -> None:
        assert self._read() == self.model.rows

    @invariant()
    def the_past_stays_as_it_was(self) -> None:
        for completed_at, then in self.model.commits[-_REMEMBERED:]:
            try:
                rows = self._read(as_of=completed_at)
            except SnapshotExpired:
                continue
            assert rows == then, completed_at

    def teardown(self) -> None:
        if hasattr(self, "state"):
            self._recover()
            assert_nothing_is_left(self.state)
            assert self._read() == self.model.rows

    # How a step runs.

    def _write(self, batch: list[Row], operation: str, after: Rows, death: Death) -> None:
        given = pa.Table.from_pylist([row._asdict() for row in batch], schema=SCHEMA)

        def run(table: LakehouseTable) -> None:
            table.write(given, operation=operation, options=self.kind.options)

        self._step(run, after, death)

    def _serve(self, name: str, death: Death, **parameters: str) -> None:
        request = ServiceRequest(
            by="machine", reason="test", parameters=ALONE.get(name, {}) | parameters
        )

        def run(table: LakehouseTable) -> None:
            get_service(name).run(table.table, request, write_options(self.kind.options))

        try:
            self._step(run, self.model.rows, death)
        except (ServiceRefused, PlanOvertaken):
            return

    def _step(
        self,
        run: Callable[[LakehouseTable], Any],
        after: Rows,
        death: Death,
        *,
        takes_back: bool = False,
    ) -> None:
        """Run it, dying where `death` says; the model then holds what recovery made of it."""
        self.turn += 1
        die_at, moment = death or (NEVER, MOMENTS[0])
        clock = StillClock(self.state.now_ms)
        storage = FaultyStorage(clock, self.state.files, die_at=die_at, moment=moment)
        ports = still_ports(clock, prefix=f"t{self.turn}-")
        try:
            run(open_table(storage.location, ports=ports, storage=storage))
            has_died = False
        except Crash:
            has_died = True
        finally:
            self.state = State(storage.files, clock.now_ms() + 1000)
        if has_died:
            self._recover()
        rows = self._read()
        assert rows in ([self.model.rows, after] if has_died else [after])
        self.model.rows = rows
        if not takes_back:
            self._remember()

    def _recover(self) -> None:
        self.turn += 1
        clock = StillClock(self.state.now_ms + DEAD_AFTER_MS)
        storage = FaultyStorage(clock, self.state.files, die_at=NEVER, moment="before")
        ports = still_ports(clock, prefix=f"t{self.turn}-")
        recover(open_table(storage.location, ports=ports, storage=storage), self.kind)
        self.state = State(storage.files, clock.now_ms() + 1000)

    def _remember(self) -> None:
        times = [
            one.completed_at or "" for one in self._table().table.timeline().iterate_completed()
        ]
        newest = max(times, default="")
        if not self.model.commits or self.model.commits[-1][0] != newest:
            self.model.commits.append((newest, dict(self.model.rows)))

    def _savepoints(self) -> list[str]:
        timeline = self._table().table.timeline()
        return [
            one.requested_at
            for one in timeline.iterate_completed()
            if one.action is Action.SAVEPOINT
        ]

    def _restores(self) -> int:
        timeline = self._table().table.timeline()
        return sum(one.action is Action.RESTORE for one in timeline.iterate_completed())

    def _completed_at(self, requested_at: str) -> str:
        """When a commit became visible; its savepoint bears the same requested time."""
        timeline = self._table().table.timeline()
        writes = (
            one for one in timeline.list_completed_writes() if one.requested_at == requested_at
        )
        return next((one.completed_at or "" for one in writes), requested_at)

    def _table(self) -> LakehouseTable:
        clock = StillClock(self.state.now_ms)
        storage = FaultyStorage(clock, self.state.files, die_at=NEVER, moment="before")
        return open_table(
            storage.location, ports=still_ports(clock, prefix="look"), storage=storage
        )

    def _read(self, as_of: str | None = None) -> Rows:
        table = self._table()
        snapshot = table.read() if as_of is None else table.read(as_of=as_of)
        listed = [Row(*(row[name] for name in COLUMNS)) for row in snapshot.to_pylist()]
        assert len({row.key for row in listed}) == len(listed), "a key has two rows"
        return {row.key: row for row in listed}


EXAMPLES = settings(
    max_examples=examples(150),
    stateful_step_count=12,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.usefixtures("quiet_engine")
def test_table_is_what_the_model_says_after_every_step(number: int) -> None:
    """In four parts of 30 stories each, 150 in `make soak`, drawn by the seed `number`."""
    machine = type(TableMachine.__name__, (TableMachine,), {})
    run_state_machine_as_test(seed(story_seed(number))(machine), settings=EXAMPLES)
