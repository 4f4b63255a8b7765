"""One busy table as its mirror would be: three streams, backfills, a killed writer, two conflicts.

Needs Django set up; `seed` does that first.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from controlplane.mirror.models import (
    HeartbeatRecord,
    InstantRecord,
    MarkerCount,
    MarkerDirectory,
    SchemaRecord,
    ServerSample,
    StreamStatus,
)
from controlplane.operations.models import MarkerServer, Operation
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from web.windows import to_instant

STREAMS = {
    "impression": ["campaign", "placement", "device", "price"],
    "click": ["clicked_at", "click_x", "click_y"],
    "conversion": ["converted_at", "product", "revenue"],
}
REGIONS = ("apac", "emea", "north-america")
_WIDTH = {"impression": 1.0, "click": 0.41, "conversion": 0.12}


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def busy_table(now: datetime, admin: User) -> Table:
    table = Table.objects.create(
        slug="ad-requests",
        name="ad-requests",
        location="/srv/lake/ad-requests",
        table_type="MERGE_ON_READ",
        table_version=9,
        record_key="request_id",
        partition_by="region",
        ordering="requested_at",
        bucket_count=8,
        registered_by=admin,
        synced_at=now - timedelta(seconds=1),
    )
    _history(table, now)
    _living(table, now)
    _conflicts(table, now)
    _streams(table, now)
    _operations(table, now, admin)
    return table


def _history(table: Table, now: datetime) -> None:
    chance = random.Random(7)
    begun = now - timedelta(minutes=14)
    records = []
    for round_number in range(32):
        for stream in STREAMS:
            start = begun + timedelta(seconds=round_number * 24 + chance.uniform(0, 9))
            took = timedelta(seconds=chance.uniform(2.2, 8.5))
            if start + took > now - timedelta(seconds=15):
                continue
            rows = int(8000 * _WIDTH[stream] * chance.uniform(0.85, 1.1))
            records.append(
                instant_record(
                    table, start, took, writer=f"{stream}-writer", stream=stream, rows=rows
                )
            )
    for minutes, seconds in ((11, 1.4), (5.2, 1.9)):
        record = instant_record(
            table, now - timedelta(minutes=minutes), timedelta(seconds=seconds), action="rollback"
        )
        record.metadata = {"rolled_back": [to_instant(ms(now - timedelta(minutes=minutes + 1)))]}
        record.rows = record.files = record.bytes = record.partitions = None
        record.operation_type = "ROLLBACK"
        records.append(record)
    winner = instant_record(
        table, now - timedelta(minutes=4.4), timedelta(seconds=16), writer="backfill-a", rows=20_000
    )
    records += [
        winner,
        instant_record(
            table, now - timedelta(minutes=8), timedelta(seconds=11), writer="evolve-a", rows=4_000
        ),
    ]
    InstantRecord.objects.bulk_create(records)
    for minutes, columns in ((14, 10), (8, 11)):
        names = [name for stream in STREAMS.values() for name in stream] + (
            ["campaign_id"] if columns == 11 else []
        )
        SchemaRecord.objects.create(
            table=table,
            instant=to_instant(ms(now - timedelta(minutes=minutes))),
            completed_at=to_instant(ms(now - timedelta(minutes=minutes)) + 11_000),
            writer_name="evolve-a" if columns == 11 else "impression-writer",
            avro=_avro({name: "long" if name == "campaign_id" else "string" for name in names}),
            fingerprint=f"{columns:064x}",
            columns=columns,
        )


def instant_record(
    table: Table,
    start: datetime,
    took: timedelta | None,
    *,
    writer: str = "",
    stream: str = "",
    rows: int | None = None,
    action: str = "deltacommit",
    state: str = "completed",
) -> InstantRecord:
    requested = to_instant(ms(start))
    files = 8 if rows else None
    return InstantRecord(
        table=table,
        requested_at=requested,
        action=action,
        state=state,
        completed_at=to_instant(ms(start + took)) if took else None,
        operation_type="UPSERT",
        writer_name=writer,
        stream=stream,
        rows=rows,
        files=files,
        bytes=rows * 61 if rows else None,
        partitions=3 if rows else None,
        metadata={
            "inserts": rows * 7 // 10,
            "updates": rows * 3 // 10,
            "deletes": 0,
            "log_files": 8,
            "base_files": 0,
            "file_groups": [[REGIONS[at % 3], file_id(at)] for at in range(8)],
            "partition_bytes": {region: 1_300_000 * (at + 1) for at, region in enumerate(REGIONS)},
            "file_group_count": 8,
            "extra": {
                "sluice.writer.name": writer,
                "sluice.stream": stream,
                "sluice.rows": str(rows),
            },
        }
        if rows
        else {},
    )


def file_id(bucket: int) -> str:
    return f"{bucket:08d}-0000-0000-0000-000000000000-0"


def _living(table: Table, now: datetime) -> None:
    mode = "NON_BLOCKING_CONCURRENCY_CONTROL"
    beats = (
        ("impression-writer", "impression", 6, 1, mode, 12),
        ("click-writer", "click", 9, 2, mode, 9),
        ("conversion-writer", "conversion", 4, 1, mode, 5),
        ("backfill-c", "", 21, 7, "OPTIMISTIC_CONCURRENCY_CONTROL", 24),
        ("late-loader", "", 80, 42, "OPTIMISTIC_CONCURRENCY_CONTROL", 16),
    )
    for at, (writer, stream, age, beat_age, mode, markers) in enumerate(beats):
        begun = now - timedelta(seconds=age)
        record = instant_record(
            table,
            begun,
            None,
            writer=writer,
            stream=stream,
            state="inflight" if at != 2 else "requested",
        )
        record.save()
        beat(
            table,
            record.requested_at,
            writer=writer,
            stream=stream,
            beat_at=now - timedelta(seconds=beat_age),
            mode=mode,
            pid=41_200 + at * 37,
        )
        MarkerCount.objects.create(
            table=table,
            instant=record.requested_at,
            kind="APPEND" if stream else "CREATE",
            count=markers,
            sample=[f"emea/.{file_id(0)}_{record.requested_at}.log.1"],
        )
        MarkerDirectory.objects.create(
            table=table,
            instant=record.requested_at,
            layout="timeline_server_based" if at != 3 else "direct",
            markers=markers,
            by_file=[[f"MARKERS{n}", 1 + (n * 7 + at) % 4] for n in range(markers // 2)]
            if at != 3
            else [],
            claims=[[REGIONS[n % 3], file_id(n)] for n in range(at, at + 3)],
            claim_count=3,
            changed_at=now - timedelta(seconds=2),
        )


def beat(
    table: Table,
    instant: str,
    *,
    writer: str,
    beat_at: datetime,
    stream: str = "",
    mode: str = "",
    pid: int = 1,
) -> None:
    # A tolerance of 3000 s keeps a writer alive for as long as a test runs; the short one is the
    # demo's.
    HeartbeatRecord.objects.create(
        table=table,
        instant=instant,
        beat_at=beat_at,
        interval_ms=2_000,
        tolerable_misses=5,
        writer_name=writer,
        stream=stream,
        mode=mode,
        operation="upsert",
        host="node-1",
        pid=pid,
        last_seen=beat_at,
    )


def _conflicts(table: Table, now: datetime) -> None:
    decided = now - timedelta(minutes=4)
    winner = InstantRecord.objects.get(table=table, writer_name="backfill-a")
    Conflict.objects.create(
        table=table,
        loser_instant=to_instant(ms(decided) - 21_000),
        loser_writer="backfill-b",
        winner_instant=winner.requested_at,
        winner_writer="backfill-a",
        kind="write",
        message="file groups already written by a concurrent commit",
        file_groups=[["apac", file_id(1)], ["apac", file_id(4)], ["emea", file_id(1)]],
        decided_at=decided,
    )
    start = {"request_id": "string", "requested_at": "long", "placement": ["null", "string"]}
    evolved = InstantRecord.objects.get(table=table, writer_name="evolve-a")
    Conflict.objects.create(
        table=table,
        loser_instant=to_instant(ms(evolved_at := now - timedelta(minutes=7, seconds=50))),
        loser_writer="evolve-b",
        winner_instant=evolved.requested_at,
        winner_writer="evolve-a",
        kind="schema",
        message="concurrent schema evolution",
        schemas={
            "at_start": _avro(start),
            "at_validation": _avro({**start, "campaign_id": ["null", "long"]}),
            "writer": _avro(
                {**start, "campaign_id": ["null", "string"], "device": ["null", "string"]}
            ),
            "scenario": 8,
            "reason": "another writer changed the table's schema in a different way",
        },
        decided_at=evolved_at + timedelta(seconds=14),
    )


def _avro(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def _streams(table: Table, now: datetime) -> None:
    total = 251_480
    for stream, columns in STREAMS.items():
        with_columns = int(
            total * {"impression": 0.998, "click": 0.4127, "conversion": 0.0719}[stream]
        )
        last = (
            InstantRecord.objects.filter(table=table, stream=stream, state="completed")
            .order_by("-completed_at")
            .first()
        )
        StreamStatus.objects.create(
            table=table,
            stream=stream,
            columns=columns,
            rows_with=with_columns,
            rows_without=total - with_columns,
            last_event_time=f"{now - timedelta(seconds=40):%Y-%m-%d %H:%M:%S}",
            last_commit_at=last.completed_at if last else None,
            lag_s={"impression": 3.0, "click": 11.0, "conversion": 74.0}[stream],
            sampled_at=now - timedelta(seconds=8),
        )
    chance = random.Random(3)
    MarkerServer.objects.create(
        port=8765, pid=40_113, state="running", started_at=now - timedelta(minutes=14), restarts=1
    )
    for step in range(60):
        up = step not in (22, 23)
        ServerSample.objects.create(
            at=now - timedelta(seconds=5 * (59 - step)),
            up=up,
            pid=40_113,
            queue_depth=max(0, int(chance.gauss(6 + 9 * (step % 12 < 4), 3))) if up else 0,
            batches=400 + step * 7,
            requests=3000 + step * 88,
            markers=2_900 + step * 87,
            batch_sizes={"1": 61, "2-3": 105, "4-7": 240 + step, "8-15": 180, "16-31": 22},
            p50_ms=4.1,
            p95_ms=11.7,
        )


def _operations(table: Table, now: datetime, admin: User) -> None:
    operations = (
        ("write", "running", "backfill-c", 21, 5, 8),
        ("write", "conflicted", "backfill-b", 262, 8, 8),
        ("write", "succeeded", "backfill-a", 264, 8, 8),
        ("rollback", "succeeded", "", 312, 24, 24),
        ("write", "conflicted", "evolve-b", 470, 3, 3),
        ("write", "succeeded", "evolve-a", 480, 3, 3),
    )
    for kind, state, writer, age, done, total in operations:
        operation = Operation.objects.create(
            table=table,
            kind=kind,
            state=state,
            requested_by=admin,
            progress_done=done,
            progress_total=total,
            progress_unit="files" if kind == "rollback" else "tasks",
            parameters={"writer": writer},
            instant=to_instant(ms(now) - (age + 60) * 1000) if kind == "rollback" else "",
            reason="the backfill was started with the wrong day" if kind == "rollback" else "",
        )
        Operation.objects.filter(pk=operation.pk).update(requested_at=now - timedelta(seconds=age))
