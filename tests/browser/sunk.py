"""A table with three sinks: one waits for a participant, one was lost, one has stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from controlplane.events import publish_change
from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_start_sink
from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.support.sinks import (
    NOW_MS,
    SINK,
    TOPIC,
    commit_offsets,
    stopped_state,
    stuck_state,
    transaction,
)
from workers import create_table
from workers.sink.batch import BadRecord, Source
from workers.sink.dead_letters import dead_letters_to_arrow
from workers.sink.state_file import SinkState, put_state
from workers.write.dead_letters import DeadLetters
from workers.write.status import TaskIds

SLUG = "orders"
_COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("ts", pa.int64()),
    pa.field("city", pa.string()),
]
_OUTCOMES = ("committed", "committed", "committed", "aborted", "committed", "timed_out")


def sunk_table(admin: User) -> Table:
    location = str(Path(settings.SLUICE_TABLE_ROOTS[0]) / SLUG)
    create_table(
        location,
        name=SLUG,
        schema=pa.schema(_COLUMNS),
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    row = do_register_table(location=location, slug=SLUG, name=SLUG, by=admin)
    bad = [
        BadRecord(117, b"order-117", b'{"id": "117", "ts": "soon"}', "ts: not a number", NOW_MS),
        BadRecord(131, None, b"\xff\xfe", "not JSON: not UTF-8", NOW_MS),
    ]
    letters = DeadLetters(f"{location}-dead-letters", "20260102030405678")
    Path(letters.path).mkdir()
    named = letters.write(dead_letters_to_arrow(Source(TOPIC, 0), bad), TaskIds()).name
    extra = {"hoodie.sink.dlq.count": "2", "sluice.dead_letter.files": named}
    commit_offsets(location, "0=100,1=100,2=100,3=100,4=100,5=100", extra=extra)
    commit_offsets(location, "0=140", sink_id="returns", extra=extra)
    sync_table(row)
    row.refresh_from_db()
    lost = {"hoodie.kafka.topic": "returns", "bootstrap.servers": "kafka.example:9092"}
    do_start_sink(row, lost, by=admin, relaunches_max=0)
    Operation.objects.filter(table=row, sink_id="returns").update(
        state="lost",
        started_at=timezone.now(),
        finished_at=timezone.now(),
        message="its process is gone and left no word; what it had not committed is undone",
    )
    put_state(storage_of(row), stopped_state("refunds"))
    tell_sink(row, missing=4)
    return row


def tell_sink(table: Table, *, missing: int, said_ms_ago: int = 0) -> None:
    """The state of the busy sink as of now, or of some time ago; -1 is missed by nobody."""
    now_ms = int(timezone.now().timestamp() * 1000) - said_ms_ago
    behind_ms = now_ms - NOW_MS
    state = stuck_state(partitions=6, missing=missing)
    past = tuple(
        transaction(
            3_000_000 - at * 63_000,
            _OUTCOMES[at % 6],
            took_ms=61_000 + at % 7 * 900,
            rows=0 if at % 6 in (3, 5) else 4_000 + at * 37,
            reason="" if at % 6 != 5 else "no WRITE_STATUS of partition 4",
        )
        for at in range(40)
    )
    put_state(storage_of(table), _moved(replace(state, transactions=past), behind_ms))
    sync_table(table)
    publish_change(table.slug, "sinks")


def _moved(state: SinkState, by_ms: int) -> SinkState:
    return replace(
        state,
        updated_ms=state.updated_ms + by_ms,
        deadline_ms=(state.deadline_ms or 0) + by_ms,
        participants=tuple(replace(one, seen_ms=one.seen_ms + by_ms) for one in state.participants),
        trace=tuple(replace(one, at_ms=one.at_ms + by_ms) for one in state.trace),
    )


__all__ = ["SINK", "SLUG", "sunk_table", "tell_sink"]
