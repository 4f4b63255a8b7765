"""A real table in a directory, and writers with names: what scenario tests tell their stories with.

Every table that is made here is judged when its test ends: hudi-rs reads it back, and the
invariants that always hold are checked. A test that damages a table on purpose says so with
`excuse_referee`.
"""

from __future__ import annotations

import copy
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.clocks import ManualClock, MortalProcess, MortalScheduler
from tests.support.invariants import (
    assert_nothing_reported_is_lost,
    assert_table_is_sound,
    leftovers,
    orphan_files,
)
from tests.support.referee import assert_referee_agrees
from tests.support.watched_storage import ClockedStorage
from workers.clock import Clock, InstantTime, SystemClock
from workers.concurrency.conflicts import Conflict
from workers.concurrency.heartbeat import heartbeat_path
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted, RolledBack
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.write_options import write_options
from workers.ports import Ports, RandomIds
from workers.storage.base import Storage
from workers.table.table import Table
from workers.timeline.instant import Instant
from workers.timeline.metadata import CommitMetadata, read_commit_metadata
from workers.write.client import Transaction, WriteClient, WriteRequest
from workers.write.context import Operation
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.read_set import build_read_set
from workers.write.status import TaskIds, WriteStatus

Row = dict[str, Any]


def schema_of(**types: pa.DataType) -> pa.Schema:
    """Columns by name and type; everything may be null."""
    return pa.schema(types)


CITIES = schema_of(id=pa.int64(), city=pa.string())
READINGS = schema_of(
    id=pa.string(), place=pa.string(), ts=pa.int64(), value=pa.int32(), note=pa.string()
)
MODES = {
    "single": "SINGLE_WRITER",
    "optimistic": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "non-blocking": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
LONG_AGO_S = 24 * 3600


class ScenarioTable:
    def __init__(
        self,
        location: Path,
        *,
        schema: pa.Schema | None = CITIES,
        table_type: str = "COPY_ON_WRITE",
        record_key: str = "id",
        partition_by: Sequence[str] = (),
        ordering: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        write_options: Mapping[str, str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.location = location
        self.clock = clock or SystemClock()
        self._record_key = record_key
        self._schema = schema or pa.schema([])
        self._write_options = {"hoodie.write.markers.type": "direct"} | dict(write_options or {})
        self._excuse: str | None = None
        self.reported: list[InstantTime] = []
        """What its writers were told is committed."""
        self.lakehouse: LakehouseTable = create_table(
            location,
            name="scenario",
            schema=schema,
            record_key=[record_key],
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            options=options,
            ports=self.ports(),
        )

    def copied(self, location: Path) -> ScenarioTable:
        """The same table at another place."""
        shutil.copytree(self.location, location)
        twin = copy.copy(self)
        twin.location, twin.reported = location, list(self.reported)
        twin.lakehouse = open_table(location, ports=twin.ports())
        return twin

    def ports(self, *, clock: Clock | None = None) -> Ports:
        """On a manual clock heartbeats and renewals run when that is moved, else in threads."""
        given = clock or self.clock
        return Ports(
            clock=given,
            ids=RandomIds(),
            scheduler=MortalScheduler(given if isinstance(given, ManualClock) else None),
            processes=MortalProcess(),
        )

    @property
    def table(self) -> Table:
        return self.lakehouse.table

    @property
    def storage(self) -> Storage:
        return self.table.storage

    def writer(
        self,
        name: str,
        *,
        mode: str = "optimistic",
        stream: str | None = None,
        options: Mapping[str, str] | None = None,
        storage: Storage | None = None,
        clock: Clock | None = None,
    ) -> ScenarioWriter:
        """A writer with a storage handle, a clock and threads of its own, as in a process.

        On a manual clock its heartbeat files carry the clock's time, unless `storage` is given.
        """
        given = {
            "hoodie.write.concurrency.mode": MODES[mode],
            "sluice.writer.name": name,
            **self._write_options,
            **(options or {}),
        }
        ports = self.ports(clock=clock)
        if storage is None and isinstance(ports.clock, ManualClock):
            storage = ClockedStorage(self.location, ports.clock)
        own = open_table(self.location, ports=ports, storage=storage)
        return ScenarioWriter(self, own.table, name, stream, given)

    def batch(self, rows: Sequence[Row], schema: pa.Schema | None = None) -> pa.Table:
        """The columns that the rows name, in the table's types; of other columns what Arrow
        thinks.
        """
        types = {field.name: field.type for field in self._schema}
        types |= {field.name: field.type for field in schema or []}
        names = list(dict.fromkeys(name for row in rows for name in row)) or list(types)
        return pa.table(
            {name: pa.array([row.get(name) for row in rows], types.get(name)) for name in names}
        )

    def rows(self, *columns: str) -> list[Row]:
        """What a reader who comes now sees, sorted by key."""
        snapshot: pa.Table = open_table(self.location).read()
        key = self._record_key
        rows = sorted(snapshot.to_pylist(), key=lambda row: (row[key], repr(row)))
        return [{name: row[name] for name in columns or snapshot.column_names} for row in rows]

    def schema_columns(self) -> list[str]:
        schema = open_table(self.location).schema()
        return list(schema.names) if schema is not None else []

    def timeline(self) -> list[tuple[str, str]]:
        """(action, state) of every instant, oldest first."""
        return [(one.action.value, one.state.value) for one in self.instants()]

    def instants(self) -> tuple[Instant, ...]:
        return self.table.timeline().instants

    def metadata(self, instant: InstantTime) -> CommitMetadata:
        completed = self.table.timeline().find(instant)
        assert completed is not None, f"{instant} is not on the timeline"
        assert completed.is_completed, completed
        return read_commit_metadata(self.storage.read(self.table.layout.path(completed)))

    def listing(self) -> dict[str, bytes]:
        """Every file but the lock, which changes with each holder."""
        return {
            file.path: self.storage.read(file.path)
            for file in self.storage.list_tree("")
            if ".locks/" not in file.path
        }

    def data_files(self) -> list[str]:
        return [
            file.path
            for file in self.storage.list_tree("")
            if not file.path.startswith(".hoodie/") and ".hoodie_partition" not in file.path
        ]

    def orphan_files(self) -> list[str]:
        return orphan_files(self.table)

    def leftovers(self) -> list[str]:
        return leftovers(self.table)

    def assert_referee_agrees(self) -> None:
        assert_referee_agrees(self.location)

    def excuse_referee(self, reason: str) -> None:
        """This test leaves the table in a state that another reader may not take; say why."""
        assert reason
        self._excuse = reason

    def judge(self) -> None:
        """Called for every table when its test ends."""
        assert_table_is_sound(self.location)
        assert_nothing_reported_is_lost(self.location, self.reported)
        if self._excuse is None:
            assert_referee_agrees(self.location)


class ScenarioWriter:
    """One writer. Its transaction starts with its first rows and ends with `commit` or `abort`."""

    def __init__(
        self,
        home: ScenarioTable,
        table: Table,
        name: str,
        stream: str | None,
        options: Mapping[str, str],
    ) -> None:
        self.name = name
        self.table = table
        self._home = home
        self._stream = stream
        self.options = write_options(options)
        self._transaction: Transaction | None = None
        self._statuses: list[WriteStatus] = []

    @property
    def transaction(self) -> Transaction:
        assert self._transaction is not None, f"{self.name} has not begun"
        return self._transaction

    @property
    def last_instant(self) -> InstantTime:
        return self.transaction.instant

    def begin(self, schema: pa.Schema, operation: Operation = "upsert") -> ScenarioWriter:
        """Start an instant and write nothing yet."""
        client = WriteClient(self.table, self.options)
        self._transaction = client.begin(schema, WriteRequest(operation, self._stream))
        self._statuses = []
        return self

    def write(
        self, *rows: Row, schema: pa.Schema | None = None, task: int = 0, attempt: int = 0
    ) -> None:
        """Files for these rows, in the transaction that was begun."""
        self.write_batch(self._home.batch(rows, schema), task=task, attempt=attempt)

    def write_batch(self, batch: pa.Table, *, task: int = 0, attempt: int = 0) -> None:
        context = self.transaction.context
        ids = TaskIds(partition=task, attempt=attempt)
        prepared = prepare(context, batch)
        reads = build_read_set(context, prepared, (), self.table.storage)
        self.transaction.declare_reads(reads)
        self._statuses += write_file_groups(context, prepared, ids, self.table.storage)

    @property
    def written(self) -> tuple[WriteStatus, ...]:
        return tuple(self._statuses)

    def forget_statuses(self) -> None:
        """What was written so far never reported: the driver knows nothing of it."""
        self._statuses = []

    def upsert(
        self, *rows: Row, schema: pa.Schema | None = None, operation: Operation = "upsert"
    ) -> ScenarioWriter:
        """Begin and write the files, without committing."""
        self.begin(self._home.batch(rows, schema).schema, operation)
        self.write(*rows, schema=schema)
        return self

    def commit(self) -> CommitOutcome:
        outcome = self.transaction.commit(self._statuses)
        if isinstance(outcome, Committed):
            self._home.reported.append(outcome.instant)
        return outcome

    def wins(self) -> Committed:
        """Commit, and it must succeed."""
        outcome = self.commit()
        assert isinstance(outcome, Committed), outcome
        return outcome

    def loses(self) -> Conflict:
        """Commit, and it must be refused for a conflict."""
        outcome = self.commit()
        assert isinstance(outcome, Conflicted), outcome
        return outcome.conflict

    def is_told_rolled_back(self) -> RolledBack:
        """Commit, and somebody else must have decided to roll it back."""
        outcome = self.commit()
        assert isinstance(outcome, RolledBack), outcome
        return outcome

    def abort(self, reason: str = "the test gave up") -> None:
        self.transaction.abort(reason)

    def upsert_and_commit(self, *rows: Row, schema: pa.Schema | None = None) -> Committed:
        return self.upsert(*rows, schema=schema).wins()

    def dies(self) -> None:
        """As by SIGKILL: its threads end, nothing is tidied up, and its last beat is long ago."""
        self.falls_silent()
        process = self.table.ports.processes
        assert isinstance(process, MortalProcess)
        process.ends()
        self.last_beat_was(LONG_AGO_S)

    def last_beat_was(self, seconds_ago: float) -> None:
        """Set the time of its heartbeat file."""
        beat = Path(self.table.storage.location) / heartbeat_path(self.last_instant)
        last_s = self.table.ports.clock.now_ms() / 1000 - seconds_ago
        os.utime(beat, (last_s, last_s))

    @property
    def is_beating(self) -> bool:
        """Its heartbeat file is still being renewed by a thread of its own."""
        scheduler = self.table.ports.scheduler
        assert isinstance(scheduler, MortalScheduler)
        return "sluice-heartbeat" in scheduler.running

    def falls_silent(self) -> None:
        """Its threads end, but its last beat is fresh."""
        scheduler = self.table.ports.scheduler
        assert isinstance(scheduler, MortalScheduler)
        scheduler.stop_all()


class ScenarioTables:
    """Makes tables below one directory and judges all of them at the end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: list[ScenarioTable] = []

    def __call__(self, **definition: Any) -> ScenarioTable:
        table = ScenarioTable(self.root / f"table{len(self.made)}", **definition)
        self.made.append(table)
        return table

    def copy_of(self, table: ScenarioTable) -> ScenarioTable:
        twin = table.copied(self.root / f"table{len(self.made)}")
        self.made.append(twin)
        return twin

    def judge_all(self) -> None:
        for table in self.made:
            table.judge()
