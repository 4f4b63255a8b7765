"""Fills a control plane's database with what the mirror would know of many tables with a long past,
in a process of its own: names and sizes as on a busy lake, without any table behind them.
"""

from __future__ import annotations

from typing import Any

import django

from bench.drivers.serving import Job, serve

_PERSON = "bench"
_OPERATIONS = 10_000
_TABLES = """
    INSERT INTO tables_table (
        slug, name, namespace, location, table_type, table_version, record_key, partition_by,
        ordering, index_type, lock_provider, is_foreign, write_refusal, groups, join_needs,
        properties, property_changes, overtaken, time_units, registered_at, synced_at, sync_error,
        owner, tags)
    SELECT 't' || lpad(n::text, 5, '0'), 'Table ' || n, 'n' || n %% 20, '/lake/t' || n,
        'MERGE_ON_READ', 9, 'id', 'day', 'ts', 'BUCKET', 'storage', false, '', '[]', '[]', '{}',
        '[]', '[]', '', now(), now(), '', '', ''
    FROM generate_series(1, %(tables)s) n
"""
_INSTANTS = """
    INSERT INTO mirror_instantrecord (
        table_id, requested_at, action, state, completed_at, operation_type, writer_name, stream,
        sink, rows, files, bytes, partitions, operation_ref, metadata, is_archived,
        has_content)
    SELECT t.id, to_char(at, 'YYYYMMDDHH24MISSMS'),
        CASE WHEN n %% 10 = 0 THEN 'commit' ELSE 'deltacommit' END, 'completed',
        to_char(at + interval '2 seconds', 'YYYYMMDDHH24MISSMS'), 'upsert', 'writer-' || n %% 3,
        '', '', 1000, 4, 400000, 2, '',
        '{"file_groups": [["day=1", "f-0"]], "file_group_count": 1, "extra": {}}', n > 200, true
    FROM tables_table t, generate_series(1, %(each)s) n,
        LATERAL (SELECT now() - n * interval '5 minutes' AS at) moment
"""


def fill(tables: int, instants: int) -> dict[str, Any]:
    """So many tables, with so many instants in all; of a tenth of the tables a writer is active,
    and half of all operations stand at one table.
    """
    from django.db import connection
    from django.utils import timezone

    from controlplane.mirror.models import HeartbeatRecord
    from controlplane.operations.models import Operation
    from controlplane.tables.models import Table
    from workers.clock import format_instant

    with connection.cursor() as cursor:
        cursor.execute(_TABLES, {"tables": tables})
        cursor.execute(_INSTANTS, {"each": instants // tables})
    rows, now = list(Table.objects.order_by("slug")), timezone.now()
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


def credentials() -> dict[str, str]:
    """A viewer's token for the API, and the cookie of a session for pages."""
    from django.conf import settings
    from django.contrib.auth.models import Group, User
    from django.test import Client

    from controlplane.accounts.tokens import new_token

    person = User.objects.create_user(_PERSON)
    person.groups.add(Group.objects.get(name="viewer"))
    client = Client()
    client.force_login(person)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    return {
        "Authorization": f"Token {new_token(person, scope='administer')[1]}",
        "Cookie": f"{settings.SESSION_COOKIE_NAME}={session}",
    }


def listeners(count: int) -> list[dict[str, str]]:
    """So many viewers more: the header that a client of each sends."""
    from django.contrib.auth.models import Group, User

    from controlplane.accounts.tokens import new_token

    people = [User.objects.create_user(f"listener-{number}") for number in range(count)]
    Group.objects.get(name="viewer").user_set.add(*people)
    return [{"Authorization": f"Token {new_token(person, scope='read')[1]}"} for person in people]


def jobs() -> dict[str, Job]:
    django.setup()
    return {"fill": fill, "credentials": credentials, "listeners": listeners}


if __name__ == "__main__":
    serve(jobs)
