"""Writes that lose, for whoever shows or mirrors them: real transactions on a real table, one loser
of each kind.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pytest

from workers import create_table, open_table
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.errors import EarlyConflict
from workers.options.write_options import write_options
from workers.table.table import Table
from workers.table_services import registry
from workers.table_services.service import ServiceRequest
from workers.write.client import Transaction, WriteClient, WriteRequest
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds, WriteStatus

OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"
EARLY = {"hoodie.write.concurrency.early.conflict.detection.enable": "true"}
CITIES = ("bergen", "narvik", "oslo", "tromso")
_GIVEN = {"hoodie.write.concurrency.mode": OPTIMISTIC, "hoodie.write.markers.type": "direct"}
_FIELDS: list[pa.Field[Any]] = [
    pa.field("ride", pa.int64()),
    pa.field("city", pa.string()),
    pa.field("paid_at", pa.int64()),
    pa.field("amount", pa.float64()),
]
SCHEMA = pa.schema(_FIELDS)


@dataclass
class OpenWrite:
    """A writer between its begin and its commit."""

    transaction: Transaction
    table: Table
    statuses: list[WriteStatus]

    @property
    def instant(self) -> str:
        return self.transaction.instant

    def write(self, batch: pa.Table) -> None:
        """Raises EarlyConflict."""
        context = self.transaction.context
        self.statuses += write_file_groups(
            context, prepare(context, batch), TaskIds(), self.table.storage
        )

    def commit(self) -> CommitOutcome:
        return self.transaction.commit(self.statuses)

    def wins(self) -> str:
        outcome = self.commit()
        assert isinstance(outcome, Committed), outcome
        return self.instant

    def loses(self) -> str:
        outcome = self.commit()
        assert isinstance(outcome, Conflicted), outcome
        return self.instant


@dataclass(frozen=True, slots=True)
class LostWrites:
    """The instants of the losers."""

    location: Path
    write: str
    early: str
    schema: str
    service: str


@pytest.fixture(scope="session")
def lost_writes_once(tmp_path_factory: pytest.TempPathFactory) -> LostWrites:
    """Made once; a test takes a copy."""
    return lost_writes(tmp_path_factory.mktemp("lost") / "contested")


def copied(made: LostWrites, location: Path) -> LostWrites:
    """With all times as they were."""
    shutil.copytree(made.location, location)
    return replace(made, location=location)


def rides(
    first: int, end: int, *, cities: tuple[str, ...] = CITIES, **more: pa.DataType
) -> pa.Table:
    """One row per number; `more` are further columns, without values."""
    schema = SCHEMA
    for name, kind in more.items():
        schema = schema.append(pa.field(name, kind))
    rows = [
        {"ride": at, "city": cities[at % len(cities)], "paid_at": at, "amount": 80.0 + at % 17}
        for at in range(first, end)
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def begin(
    location: Path,
    batch: pa.Table,
    *,
    writer: str,
    options: Mapping[str, str] | None = None,
    writes: bool = True,
) -> OpenWrite:
    """Its files are written when this returns, unless `writes` says otherwise."""
    table = open_table(str(location)).table
    given = {"sluice.writer.name": writer, **_GIVEN, **(options or {})}
    transaction = WriteClient(table, write_options(given)).begin(
        batch.schema, WriteRequest("upsert")
    )
    opened = OpenWrite(transaction, table, [])
    if writes:
        opened.write(batch)
    return opened


def lost_writes(location: Path, *, pause_s: float = 0.0) -> LostWrites:
    """A new table at `location` on which four writes were lost. `pause_s` between their steps makes
    times that a person can tell apart.
    """
    create_table(
        str(location),
        name=location.name,
        schema=SCHEMA,
        record_key=["ride"],
        partition_by=["city"],
        ordering=["paid_at"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "4"},
    )
    open_table(str(location)).write(rides(0, 400), options={"sluice.writer.name": "fares-ingest"})
    return LostWrites(
        location,
        write=_refused_at_commit(location, pause_s),
        early=_stopped_early(location, pause_s),
        schema=_refused_for_schema(location, pause_s),
        service=_beaten_by_a_compaction(location, pause_s),
    )


def _refused_at_commit(location: Path, pause_s: float) -> str:
    slow = begin(location, rides(100, 300), writer="nightly-backfill")
    sleep(pause_s)
    fast = begin(location, rides(0, 160, cities=CITIES[:2]), writer="fares-ingest")
    sleep(pause_s)
    fast.wins()
    sleep(pause_s)
    return slow.loses()


def _stopped_early(location: Path, pause_s: float) -> str:
    older = begin(location, rides(0, 120, cities=CITIES[1:3]), writer="fares-ingest")
    sleep(pause_s)
    younger = begin(
        location, rides(0, 90, cities=CITIES[:2]), writer="price-fix", options=EARLY, writes=False
    )
    younger.write(rides(0, 40, cities=CITIES[:1]))
    sleep(pause_s)
    with pytest.raises(EarlyConflict):
        younger.write(rides(0, 90, cities=CITIES[1:2]))
    outcome = younger.transaction.lose_early()
    assert isinstance(outcome, Conflicted), outcome
    sleep(pause_s)
    older.wins()
    return younger.instant


def _refused_for_schema(location: Path, pause_s: float) -> str:
    apart = rides(1000, 1040, cities=CITIES[3:], tip=pa.string(), device=pa.string())
    slow = begin(location, apart, writer="app-loader")
    sleep(pause_s)
    begin(
        location, rides(2000, 2040, cities=CITIES[:1], tip=pa.float64()), writer="tips-loader"
    ).wins()
    sleep(pause_s)
    return slow.loses()


def _beaten_by_a_compaction(location: Path, pause_s: float) -> str:
    """An overwrite of what is being compacted; log files alone would have merged with it."""
    table = open_table(str(location)).table
    given = {"sluice.writer.name": "reload-oslo", **_GIVEN}
    batch = rides(0, 50, cities=CITIES[2:3])
    transaction = WriteClient(table, write_options(given)).begin(
        batch.schema, WriteRequest("insert_overwrite")
    )
    slow = OpenWrite(transaction, table, [])
    slow.write(batch)
    sleep(pause_s)
    request = ServiceRequest(by="ada", reason="test", parameters={})
    compactor = write_options({"sluice.writer.name": "compaction by ada"})
    registry.get_service("compaction").run(open_table(str(location)).table, request, compactor)
    sleep(pause_s)
    return slow.loses()


def retried_write(location: Path) -> tuple[str, str]:
    """On the table of `lost_writes`: (the attempt that lost, the one after it that committed)."""
    options = {"hoodie.write.num.retries.on.conflict.failures": "2"}
    batch = rides(0, 30, cities=CITIES[:1])
    slow = begin(location, batch, writer="hourly", options=options)
    begin(location, rides(0, 20, cities=CITIES[:1]), writer="fares-ingest").wins()
    lost = slow.loses()
    table = open_table(str(location)).table
    given = write_options({**options, **_GIVEN, "sluice.writer.name": "hourly"})
    again = OpenWrite(
        WriteClient(table, given).begin(batch.schema, WriteRequest("upsert").for_attempt(2)),
        table,
        [],
    )
    again.write(batch)
    return lost, again.wins()
