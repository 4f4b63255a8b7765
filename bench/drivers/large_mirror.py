"""Fills a control plane's database with what the mirror would know of many tables with a long past,
in a process of its own: names and sizes as on a busy lake, without any table behind them.
"""

from __future__ import annotations

import gzip
import time
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import django

from bench.drivers.serving import Job, serve

_PERSON = "bench"
_OPERATIONS = 10_000
_INSTANTS = """
    INSERT INTO mirror_instantrecord (
        table_id, requested_at, action, state, completed_at, operation_type, writer_name, stream,
        sink, rows, files, bytes, partitions, operation_ref, metadata, is_archived,
        has_content)
    SELECT t.id, {requested_at},
        CASE WHEN n %% 10 = 0 THEN 'commit' ELSE 'deltacommit' END, 'completed',
        {completed_at}, 'upsert', 'writer-' || n %% 3,
        '', '', 1000, 4, 400000, 2, '',
        '{{"file_groups": [["day=1", "f-0"]], "file_group_count": 1, "extra": {{}}}}',
        n > 200, true
    FROM tables_table t, {moments}
"""
_DIALECT: Final = {
    "postgresql": {
        "requested_at": "to_char(at, 'YYYYMMDDHH24MISSMS')",
        "completed_at": "to_char(at + interval '2 seconds', 'YYYYMMDDHH24MISSMS')",
        "moments": """generate_series(1, %(each)s) n,
            LATERAL (SELECT now() - n * interval '5 minutes' AS at) moment""",
    },
    "sqlite": {
        "requested_at": "strftime('%%Y%%m%%d%%H%%M%%S000', at, 'unixepoch')",
        "completed_at": "strftime('%%Y%%m%%d%%H%%M%%S000', at + 2, 'unixepoch')",
        "moments": """(WITH RECURSIVE numbers(n) AS (
                SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < %(each)s)
            SELECT n, unixepoch() - n * 300 AS at FROM numbers) moment""",
    },
}


def fill(tables: int, instants: int) -> dict[str, Any]:
    """So many tables, with so many instants in all; of a tenth of the tables a writer is active,
    and half of all operations stand at one table.
    """
    from django.db import connection
    from django.utils import timezone

    from controlplane.mirror.models import FileTotals, HeartbeatRecord, SyncMark
    from controlplane.monitoring.models import TableHealth
    from controlplane.operations.models import Operation
    from controlplane.tables.models import Table
    from workers.clock import format_instant

    now = timezone.now()
    Table.objects.bulk_create(
        Table(
            slug=f"t{number:05}",
            name=f"Table {number}",
            namespace=f"n{number % 20}",
            location=f"/lake/t{number}",
            table_type="MERGE_ON_READ",
            table_version=9,
            record_key="id",
            partition_by="day",
            ordering="ts",
            index_type="BUCKET",
            lock_provider="storage",
            registered_at=now,
            synced_at=now,
        )
        for number in range(1, tables + 1)
    )
    with connection.cursor() as cursor:
        sql = _INSTANTS.format(**_DIALECT[connection.vendor])
        cursor.execute(sql, {"each": instants // tables})
    rows = list(Table.objects.order_by("slug"))
    FileTotals.objects.bulk_create(
        FileTotals(table=table, bytes=400_000, log_files=3, base_rows=1_000_000) for table in rows
    )
    SyncMark.objects.bulk_create(SyncMark(table=table, synced_at=now) for table in rows)
    TableHealth.objects.bulk_create(
        TableHealth(
            table=table, looked_at=now, verdicts={"archiving": "warn"} if not at % 50 else {}
        )
        for at, table in enumerate(rows)
    )
    HeartbeatRecord.objects.bulk_create(
        HeartbeatRecord(
            table=table,
            instant=format_instant(int(now.timestamp() * 1000)),
            beat_at=now,
            interval_ms=60_000,
            tolerable_misses=60,
            writer_name="writer-0",
            last_seen=now,
        )
        for table in rows[::10]
    )
    Operation.objects.bulk_create(
        Operation(
            table=rows[0] if number % 2 else rows[number % tables],
            kind="write",
            state="succeeded",
            parameters={"operation": "upsert"},
        )
        for number in range(_OPERATIONS)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return {"busiest": rows[0].slug}


def count_history() -> int:
    """Count the archived instants of each table by hour and day, as the sync does. Return the
    number of rows with counts.
    """
    from controlplane.mirror.archive_facts import ArchiveFacts
    from controlplane.mirror.history_counts import keep_counts
    from controlplane.mirror.models import HistoryCount, InstantRecord, SyncMark
    from controlplane.mirror.row_sums import HISTORY, RowSum

    for mark in SyncMark.objects.select_related("table"):
        archived = InstantRecord.objects.filter(table=mark.table, is_archived=True).count()
        mark.sums = {HISTORY: RowSum(archived).text}
        keep_counts(mark.table, mark, ArchiveFacts())
        mark.save()
    return HistoryCount.objects.count()


def pages(paths: list[str], cookie: str, repeats: int) -> dict[str, dict[str, float]]:
    """Measure what the server spends on each page, whatever else the machine does: SQL queries, and
    milliseconds of the processor and of the clock, median and 95th percentile.
    """
    from django.db import connection
    from django.test import Client

    client = Client(SERVER_NAME="127.0.0.1", headers={"cookie": cookie, "accept-encoding": "gzip"})
    measured = {}
    for path in paths:
        cpu_ms: list[float] = []
        wall_ms: list[float] = []
        queries: list[str] = []
        client.get(path)
        with connection.execute_wrapper(partial(_note, queries)):
            answer = client.get(path)
        if answer.status_code != HTTPStatus.OK:
            raise ValueError(f"{path}: {answer.status_code}")
        for _ in range(repeats):
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            client.get(path)
            cpu_ms.append((time.process_time() - cpu_s) * 1000)
            wall_ms.append((time.perf_counter() - wall_s) * 1000)
        body = answer.content
        is_compressed = answer.headers.get("Content-Encoding") == "gzip"
        measured[path] = {
            "queries": len(queries),
            "bytes": len(gzip.decompress(body) if is_compressed else body),
            "sent_bytes": len(body),
            "cpu_median_ms": _percentile(cpu_ms, 50),
            "cpu_p95_ms": _percentile(cpu_ms, 95),
            "wall_median_ms": _percentile(wall_ms, 50),
            "wall_p95_ms": _percentile(wall_ms, 95),
        }
    return measured


def _note(queries: list[str], execute: Any, sql: str, *rest: Any) -> Any:
    queries.append(sql)
    return execute(sql, *rest)


def _percentile(times_ms: list[float], percent: int) -> float:
    return round(sorted(times_ms)[(len(times_ms) - 1) * percent // 100], 1)


def credentials() -> dict[str, str]:
    """A viewer's token for the API, and the cookie of a session for pages."""
    from django.conf import settings
    from django.contrib.auth.models import Group, User
    from django.test import Client

    from controlplane.accounts.tokens import create_token

    person = User.objects.create_user(_PERSON)
    person.groups.add(Group.objects.get(name="viewer"))
    client = Client()
    client.force_login(person)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    return {
        "Authorization": f"Token {create_token(person, scope='administer')[1]}",
        "Cookie": f"{settings.SESSION_COOKIE_NAME}={session}",
    }


def listeners(count: int) -> list[dict[str, str]]:
    """So many viewers more: the header that a client of each sends."""
    from django.contrib.auth.models import Group, User

    from controlplane.accounts.tokens import create_token

    people = [User.objects.create_user(f"listener-{number}") for number in range(count)]
    Group.objects.get(name="viewer").user_set.add(*people)
    return [
        {"Authorization": f"Token {create_token(person, scope='read')[1]}"} for person in people
    ]


def jobs() -> dict[str, Job]:
    django.setup()
    every = (fill, count_history, pages, credentials, listeners)
    return {job.__name__: job for job in every}


if __name__ == "__main__":
    serve(jobs)
