"""Whoever changes a table, as actors that can be stopped in the middle: writers of every mode and
operation, table services, rollbacks.

An actor acts once. `meanwhile` is called while its instant is inflight and its files are written,
as another process would come by then. What it did to the rows is told to the `Ledger`, from which
the rows that must stand are replayed in order of completion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, assert_never

from tests.scenarios.services import run
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables
from tests.support.watched_storage import At, Died, WatchedStorage, fails
from workers.clock import InstantTime
from workers.concurrency.outcome import Committed, Conflicted, RolledBack, Unknown
from workers.concurrency.read_set import ReadSet
from workers.errors import (
    InstantRolledBack,
    PlanOvertaken,
    RollbackRefused,
    ServiceBusy,
    ServiceRefused,
)
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.failed_writes import roll_back_dead_writers
from workers.recovery.rollback import RollbackRequest, rollback
from workers.storage.base import Storage
from workers.table.table import Table
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.write.client import WriteClient, WriteRequest
from workers.write.context import Operation
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.read_set import build_read_set
from workers.write.status import TaskIds

Verdict = Literal["ok", "lost", "refused", "idle"]
"""`ok`: completed. `lost`: began and was taken back. `refused`: nothing was changed. `idle`: found
nothing to do.
"""
Meanwhile = Callable[[], None]
Effect = Callable[[dict[str, Row]], None]
PLACES = ("oslo", "bergen")
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "value"}
RETAIN_ONE = {"hoodie.clean.commits.retained": "1"}


def row(key: str, ts: int, place: str = "oslo") -> Row:
    return {"id": key, "place": place, "ts": ts, "value": 100 - ts, "note": f"{key}{ts}"}


@dataclass
class Ledger:
    """What was told to be done, by completion time."""

    effects: dict[InstantTime, tuple[InstantTime, Effect]] = field(default_factory=dict)

    def add(self, instant: InstantTime, completed_at: InstantTime, effect: Effect) -> None:
        self.effects[instant] = (completed_at, effect)

    def undo(self, instant: InstantTime) -> None:
        self.effects.pop(instant, None)

    def restore(self, target: InstantTime, done_at: InstantTime) -> None:
        goal, _ = self.effects[target]
        kept = {one: timed for one, timed in self.effects.items() if not goal < timed[0] < done_at}
        self.effects = kept

    def rows(self) -> list[Row]:
        rows_by_key: dict[str, Row] = {}
        for _, effect in sorted(self.effects.values(), key=lambda timed: timed[0]):
            effect(rows_by_key)
        return [rows_by_key[key] for key in sorted(rows_by_key)]


def puts(*rows: Row) -> Effect:
    def put(rows_by_key: dict[str, Row]) -> None:
        for new_row in rows:
            older = rows_by_key.get(new_row["id"])
            if older is None or new_row["ts"] >= older["ts"]:
                rows_by_key[new_row["id"]] = new_row

    return put


def replaces(rows: tuple[Row, ...], places: tuple[str, ...]) -> Effect:
    def replace(rows_by_key: dict[str, Row]) -> None:
        for key in [key for key, one in rows_by_key.items() if one["place"] in places]:
            del rows_by_key[key]
        puts(*rows)(rows_by_key)

    return replace


@dataclass
class Lake:
    """A table with a history that every actor finds something to do in."""

    table: ScenarioTable
    ledger: Ledger
    goal: InstantTime
    """Of a restore."""
    newest: InstantTime
    """The last completed write: what a rollback takes back."""

    @classmethod
    def make(cls, tables: ScenarioTables, table_type: str) -> Lake:
        table = tables(
            table_type=table_type,
            schema=READINGS,
            ordering=["ts"],
            partition_by=["place"],
            options={"hoodie.bucket.index.num.buckets": "1"},
        )
        lake = cls(table, Ledger(), "", "")
        lake._commit(row("a", 1), row("b", 1), row("c", 1, "bergen"))
        lake._commit(row("a", 2))
        if table.table.config.is_merge_on_read:
            run(table, "compaction", {"hoodie.compact.inline.max.delta.commits": "1"})
        lake.goal = lake._commit(row("b", 3))
        lake.newest = lake._commit(row("a", 4), row("c", 4, "bergen"))
        return lake

    def copied(self, tables: ScenarioTables) -> Lake:
        ledger = Ledger(dict(self.ledger.effects))
        return Lake(tables.copy_of(self.table), ledger, self.goal, self.newest)

    def _commit(self, *rows: Row) -> InstantTime:
        outcome = self.table.writer("history").upsert_and_commit(*rows)
        self.ledger.add(outcome.instant, outcome.completed_at, puts(*rows))
        return outcome.instant

    def opened(self, storage: Storage | None = None) -> Table:
        return open_table(self.table.location, ports=self.table.ports(), storage=storage).table


@dataclass
class Actor:
    """One of them on one lake. `turn` tells the two of a pair apart."""

    lake: Lake
    name: str
    turn: int

    def plays(self, meanwhile: Meanwhile = lambda: None, storage: Storage | None = None) -> Verdict:
        table = self.lake.opened(storage)
        try:
            match self.name:
                case "single" | "optimistic" | "non-blocking":
                    return self._writes(table, meanwhile, "upsert", self.name)
                case "insert_overwrite" | "insert_overwrite_table" | "delete_partition":
                    return self._writes(table, meanwhile, self.name, "optimistic")
                case "rollback" | "failed write":
                    return self._rolls_back(table, meanwhile)
                case _:
                    return self._serves(table, meanwhile)
        except (ServiceBusy, ServiceRefused, RollbackRefused):
            return "refused"
        except (PlanOvertaken, InstantRolledBack):
            return "lost"

    def is_requested(self) -> None:
        """Dies with its plan durable and its instant requested, before it is inflight."""
        stop = At("put_if_absent", ".inflight", fails(Died()))
        storage = WatchedStorage(self.lake.table.location, before=stop)
        try:
            self.plays(storage=storage)
        except Died:
            return
        raise AssertionError(f"{self.name} was never requested")

    def _writes(
        self, table: Table, meanwhile: Meanwhile, operation: Operation, mode: str
    ) -> Verdict:
        writer = self.lake.table.writer(f"{self.name}{self.turn}", mode=mode)
        is_upsert, is_partition = operation == "upsert", operation == "delete_partition"
        rows = (row("a" if is_upsert else f"n{self.turn}", 10 * self.turn),)
        batch = self.lake.table.batch(rows)
        request = WriteRequest(operation, partitions=("oslo",) if is_partition else ())
        client = WriteClient(table, writer.options)
        transaction = client.begin(None if is_partition else batch.schema, request)
        statuses = []
        transaction.declare_reads(ReadSet())
        if not is_partition:
            prepared = prepare(transaction.context, batch)
            reads = build_read_set(transaction.context, prepared, (), table.storage)
            transaction.declare_reads(reads)
            statuses = write_file_groups(transaction.context, prepared, TaskIds(), table.storage)
        meanwhile()
        match transaction.commit(statuses):
            case Committed(instant=instant, completed_at=completed_at):
                self.lake.ledger.add(instant, completed_at, _effect(operation, rows))
                return "ok"
            case Conflicted() | RolledBack():
                return "lost"
            case Unknown() as unknown:
                raise AssertionError(unknown)
            case other:
                assert_never(other)

    def _rolls_back(self, table: Table, meanwhile: Meanwhile) -> Verdict:
        target = self.lake.newest
        if self.name == "failed write":
            dead = self.lake.table.writer("dead").upsert(row("a", 9))
            dead.dies()
            target = dead.last_instant
        met = _Once(meanwhile)
        request = RollbackRequest(
            target, by=self.name, reason="test", is_only_pending=self.name == "failed write"
        )
        outcome = rollback(table, request, _OPTIONS, on_progress=lambda *_: met())
        assert not outcome.is_committed
        self.lake.ledger.undo(target)
        return "ok"

    def _serves(self, table: Table, meanwhile: Meanwhile) -> Verdict:
        met = _Once(meanwhile)
        request = ServiceRequest("test", parameters=self._parameters())

        def progress(done: int, total: int) -> None:
            # Rewrites tell that nothing is done yet, too: the others only what is done.
            if done == total or self.name not in ("clustering", "compaction"):
                met()

        outcome = get_service(self.name).run(table, request, _OPTIONS, progress)
        if outcome.instant is None:
            return "idle"
        if self.name == "restore":
            done = self.lake.table.table.timeline().find(outcome.instant)
            assert done is not None
            assert done.completed_at is not None
            self.lake.ledger.restore(self.lake.goal, done.completed_at)
        return "ok"

    def _parameters(self) -> Mapping[str, str]:
        match self.name:
            case "clustering":
                return SORTED
            case "compaction":
                return {"hoodie.compact.inline.max.delta.commits": "1"}
            case "clean":
                return RETAIN_ONE
            case "restore":
                return {"instant": self.lake.goal}
            case _:
                return {"instant": self.lake.newest}


_OPTIONS = write_options({"hoodie.write.markers.type": "direct", "sluice.writer.name": "service"})


@dataclass
class _Once:
    action: Meanwhile
    is_done: bool = False

    def __call__(self) -> None:
        if not self.is_done:
            self.is_done = True
            self.action()


def _effect(operation: Operation, rows: tuple[Row, ...]) -> Effect:
    match operation:
        case "insert_overwrite":
            return replaces(rows, ("oslo",))
        case "insert_overwrite_table":
            return replaces(rows, PLACES)
        case "delete_partition":
            return replaces((), ("oslo",))
        case _:
            return puts(*rows)


def settle(lake: Lake) -> None:
    """Whoever comes much later: what is pending and dead goes, what is planned stays planned."""
    roll_back_dead_writers(lake.opened(), _OPTIONS)
