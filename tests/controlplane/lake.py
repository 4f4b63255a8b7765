"""A table that the control plane's tests write to with the real engine, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from controlplane.tables.models import Table as TableRow
from workers.concurrency.outcome import CommitOutcome, Committed
from workers.options.write_options import write_options
from workers.table.table import Table
from workers.write.client import Transaction, WriteClient, WriteRequest
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds

Mode = Literal[
    "SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL", "NON_BLOCKING_CONCURRENCY_CONTROL"
]
OPTIMISTIC: Mode = "OPTIMISTIC_CONCURRENCY_CONTROL"


@dataclass
class Write:
    """A write that began and put its files down, and is not committed."""

    transaction: Transaction
    statuses: Any

    @property
    def instant(self) -> str:
        return self.transaction.instant

    def commit(self) -> CommitOutcome:
        return self.transaction.commit(self.statuses)


@dataclass
class Lake:
    table: Table
    row: TableRow

    def begin(
        self,
        *rows: dict[str, Any],
        writer: str = "writer",
        mode: Mode = "SINGLE_WRITER",
        stream: str | None = None,
        operation_id: str = "",
        heartbeat_ms: int = 60_000,
        heartbeat_misses: int = 2,
        strategy: str = "simple",
    ) -> Write:
        batch = pa.Table.from_pylist(list(rows))
        options = write_options(
            {
                "sluice.writer.name": writer,
                "sluice.operation.id": operation_id,
                "hoodie.write.concurrency.mode": mode,
                "hoodie.write.markers.type": "direct",
                "hoodie.client.heartbeat.interval_in_ms": str(heartbeat_ms),
                "hoodie.client.heartbeat.tolerable.misses": str(heartbeat_misses),
                "hoodie.write.concurrency.schema.conflict.resolution.strategy": strategy,
            }
        )
        transaction = WriteClient(self.table, options).begin(
            batch.schema, WriteRequest("upsert", stream)
        )
        prepared = prepare(transaction.context, batch)
        statuses = write_file_groups(transaction.context, prepared, TaskIds(), self.table.storage)
        return Write(transaction, statuses)

    def commit(self, *rows: dict[str, Any], writer: str = "writer", **how: Any) -> str:
        """The instant of a committed write."""
        outcome = self.begin(*rows, writer=writer, **how).commit()
        assert isinstance(outcome, Committed), outcome
        return outcome.instant
