"""Many tables as their mirror would be, in the database alone: what pages over all tables cost."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.mirror.file_totals import store_file_totals
from controlplane.mirror.models import FileGroupRecord, HeartbeatRecord, InstantRecord
from controlplane.monitoring.models import Alert, TableHealth
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from web.windows import to_instant

COMMITS = 4


def many_tables(count: int, now: datetime) -> list[Table]:
    """`lake-0000` and so on, in namespaces of ten; every tenth has an open conflict and a check
    that is not well, every twentieth a suspect writer.
    """
    tables = Table.objects.bulk_create(
        Table(
            slug=f"lake-{number:04}",
            name=f"lake-{number:04}",
            namespace=f"n{number % 10}",
            location=f"/lake/{number:04}",
            table_type="MERGE_ON_READ",
            synced_at=now,
            owner="sales" if number % 2 else "",
            tags="gold pii" if number % 3 == 0 else "",
        )
        for number in range(count)
    )
    InstantRecord.objects.bulk_create(
        InstantRecord(
            table=table,
            requested_at=_instant(now, hours=hours, at=1),
            action="deltacommit",
            state="completed",
            completed_at=_instant(now, hours=hours, at=2),
            writer_name="ingest",
            rows=7,
        )
        for table in tables
        for hours in range(1, COMMITS + 1)
    )
    tenth = tables[::10]
    Conflict.objects.bulk_create(
        Conflict(
            table=table,
            loser_instant=_instant(now, hours=2, at=3),
            loser_writer="backfill",
            kind="write",
            decided_at=now - timedelta(hours=2),
        )
        for table in tenth
    )
    TableHealth.objects.bulk_create(
        TableHealth(
            table=table, looked_at=now, verdicts={"compaction": "warn"} if at % 10 == 0 else {}
        )
        for at, table in enumerate(tables)
    )
    Alert.objects.bulk_create(
        Alert(
            table=table,
            check_name="compaction",
            title="Compaction keeps up",
            verdict="warn",
            sentence="9 delta commits since the last one",
            unwell_at=now,
            fired_at=now - timedelta(minutes=at),
        )
        for at, table in enumerate(tenth)
    )
    HeartbeatRecord.objects.bulk_create(
        HeartbeatRecord(
            table=table,
            instant=_instant(now, hours=0, at=0),
            beat_at=now - timedelta(seconds=400),
            interval_ms=100_000,
            tolerable_misses=6,
            writer_name="ingest",
            operation="UPSERT",
            last_seen=now,
        )
        for table in tables[::20]
    )
    FileGroupRecord.objects.bulk_create(
        FileGroupRecord(
            table=table,
            partition="",
            file_id=f"{table.slug}-0",
            bytes=1_000 * at,
            log_files=at % 3,
            first_instant=_instant(now, hours=1, at=0),
            last_instant=_instant(now, hours=1, at=0),
        )
        for at, table in enumerate(tables)
    )
    for table in tables:
        store_file_totals(table, FileGroupRecord.objects.filter(table=table))
    return list(tables)


def _instant(now: datetime, *, hours: float, at: int) -> str:
    return to_instant(int((now - timedelta(hours=hours)).timestamp() * 1000) + at)
