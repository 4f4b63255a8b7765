"""Sinks as the control plane's tests need them: real state files, and commits with real keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from workers.clock import SystemClock, format_instant
from workers.concurrency.outcome import Committed
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.sink.state_file import (
    ParticipantSnapshot,
    SinkState,
    TraceEntry,
    TransactionSnapshot,
)
from workers.write.client import WriteClient, WriteRequest
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds

SINK = "orders-in"
TOPIC = "orders"
NOW_MS = SystemClock().now_ms()


def participant(partition: int, state: str = "OPEN", **values: Any) -> ParticipantSnapshot:
    defaults = {
        "participant": f"p{partition}-7f3a",
        "worker": f"worker-{partition // 2}.example:{4000 + partition}",
        "state": state,
        "local_offset": 120,
        "table_offset": 100,
        "broker_offset": 150,
        "seen_ms": NOW_MS - 1_000,
    }
    return ParticipantSnapshot(partition, **{**defaults, **values})


def stuck_state(*, sink_id: str = SINK, partitions: int = 4, missing: int = 2) -> SinkState:
    """END was sent; all but one partition have reported."""
    instant, before = format_instant(NOW_MS - 70_000), format_instant(NOW_MS - 140_000)
    shown = tuple(
        participant(one, "OPEN", seen_ms=NOW_MS - 48_000)
        if one == missing
        else participant(one, "PREPARED", has_reported=True)
        for one in range(partitions)
    )
    reports = [
        TraceEntry(NOW_MS - 9_000 + one, "WRITE_STATUS", f"p{one}-7f3a", one, instant, "20 records")
        for one in range(partitions)
        if one != missing
    ]
    earlier = [
        TraceEntry(NOW_MS - 80_000 + one, "WRITE_STATUS", f"p{one}-7f3a", one, before)
        for one in range(partitions)
    ]
    return SinkState(
        sink_id=sink_id,
        topic=TOPIC,
        epoch=3,
        state="ENDED_COMMIT",
        instant=instant,
        deadline_ms=NOW_MS + 250_000,
        owner="c-19 on worker-0.example, pid 4000",
        updated_ms=NOW_MS - 2_000,
        participants=shown,
        transactions=(
            transaction(210_000, "committed", rows=4_000),
            transaction(
                170_000, "timed_out", took_ms=300_000, reason="no WRITE_STATUS of partition 2"
            ),
            transaction(140_000, "committed", rows=3_900, bad_rows=2),
        ),
        trace=(
            TraceEntry(NOW_MS - 140_000, "START_COMMIT", "coordinator", None, before),
            TraceEntry(NOW_MS - 80_500, "END_COMMIT", "coordinator", None, before),
            *earlier,
            TraceEntry(NOW_MS - 78_000, "ACK_COMMIT", "coordinator", None, before),
            TraceEntry(NOW_MS - 70_000, "START_COMMIT", "coordinator", None, instant),
            TraceEntry(NOW_MS - 10_000, "END_COMMIT", "coordinator", None, instant),
            *reports,
        ),
        counters={"ignored_epoch": 2, "restarts": 1},
    )


def stopped_state(sink_id: str = SINK) -> SinkState:
    stuck = stuck_state(sink_id=sink_id, missing=-1)
    return replace(stuck, state="STOPPED", instant="", deadline_ms=None, reason="asked to stop")


def transaction(ago_ms: int, outcome: str, *, took_ms: int = 61_000, **values: Any) -> Any:
    began = NOW_MS - ago_ms
    return TransactionSnapshot(format_instant(began), outcome, began, began + took_ms, **values)


def commit_offsets(
    location: str,
    offsets: str,
    *,
    sink_id: str = SINK,
    row: Mapping[str, Any] | None = None,
    extra: Mapping[str, str] | None = None,
    schema: pa.Schema | None = None,
) -> str:
    """One row under the keys of a sink's commit; its instant."""
    table = open_table(location).table
    given = [dict(row or {"id": "1", "ts": 1, "city": "Oslo"})]
    batch = pa.Table.from_pylist(given, schema=schema)
    options = write_options({"sluice.writer.name": sink_id, "hoodie.write.markers.type": "direct"})
    sink_keys = {
        "kafka.commit.offsets": offsets,
        "hoodie.sink.id": sink_id,
        "hoodie.sink.epoch": "3",
        "hoodie.sink.topic": TOPIC,
        "hoodie.sink.topic.id": "made-once",
    }
    request = WriteRequest("upsert", extra=tuple({**sink_keys, **(extra or {})}.items()))
    transaction = WriteClient(table, options).begin(batch.schema, request)
    statuses = write_file_groups(
        transaction.context, prepare(transaction.context, batch), TaskIds(), table.storage
    )
    outcome = transaction.commit(statuses)
    assert isinstance(outcome, Committed), outcome
    return outcome.instant
