"""What the browser finds: two users, one busy table as its mirror would be, one small table that
really exists.

Started as a process of its own beside the server, it then takes commands, one a line, and answers
`done` or JSON: so a test changes the mirror while a page is open, as the sync would.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import django

django.setup()

import pyarrow as pa  # noqa: E402
from django.conf import settings  # noqa: E402
from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command  # noqa: E402

from controlplane.connections.actions import (  # noqa: E402
    ConnectionWish,
    do_create_connection,
    do_grant_connection,
)
from controlplane.connections.models import Connection  # noqa: E402
from controlplane.demo.streams import DemoRun, start_streams  # noqa: E402
from controlplane.demo.streams import table_location as demo_location  # noqa: E402
from controlplane.events import publish_change  # noqa: E402
from controlplane.mirror.models import (  # noqa: E402
    HeartbeatRecord,
    InstantRecord,
    StreamStatus,
    SyncMark,
)
from controlplane.mirror.sync import sync_table  # noqa: E402
from controlplane.operations.actions import (  # noqa: E402
    do_append_lines,
    do_request_write,
)
from controlplane.operations.models import Operation  # noqa: E402
from controlplane.tables.actions import do_register_table  # noqa: E402
from controlplane.tables.models import Table  # noqa: E402
from controlplane.tables.problems import Problem  # noqa: E402
from controlplane.writers.models import Conflict  # noqa: E402
from tests.browser.alerted import alerts_of_all, channels_of_all  # noqa: E402
from tests.browser.approved import await_approval  # noqa: E402
from tests.browser.busy import beat, busy_table, file_id, instant_record, ms  # noqa: E402
from tests.browser.joined import joined_table  # noqa: E402
from tests.browser.kept import kept_table, work  # noqa: E402
from tests.browser.sunk import sunk_table, tell_sink  # noqa: E402
from tests.browser.words import PASSWORD  # noqa: E402
from tests.support.lost_writes import (  # noqa: E402
    CITIES,
    EARLY,
    OpenWrite,
    begin,
    lost_writes,
    rides,
)
from web.windows import to_instant  # noqa: E402
from workers import create_table, open_table  # noqa: E402
from workers.errors import EarlyConflict  # noqa: E402
from workers.reporting.stored_lines import LogLine  # noqa: E402

_KEPT: list[OpenWrite] = []
"""Their hearts beat while they are held."""


def users() -> User:
    admin = User.objects.create_user("ada", password=PASSWORD)
    admin.groups.add(Group.objects.get(name="admin"))
    viewer = User.objects.create_user("vera", password=PASSWORD)
    viewer.groups.add(Group.objects.get(name="viewer"))
    Group.objects.create(pk=100, name="night shift").user_set.add(viewer)
    return admin


def real_table(admin: User) -> Table:
    """Small, but in storage: what the rollback wizard plans on."""
    location = Path(settings.SLUICE_TABLE_ROOTS[0]) / "trips"
    columns: list[pa.Field[Any]] = [
        pa.field("id", pa.int64()),
        pa.field("city", pa.string()),
        pa.field("ts", pa.int64()),
    ]
    schema = pa.schema(columns)
    table = create_table(
        location,
        name="trips",
        schema=schema,
        record_key=["id"],
        partition_by=["city"],
        ordering=["ts"],
    )
    for batch in range(3):
        rows = [
            {"id": at, "city": ("Oslo", "Bergen", "Narvik")[at % 3], "ts": batch}
            for at in range(60)
        ]
        table.write(
            pa.Table.from_pylist(rows, schema=schema),
            options={"sluice.writer.name": f"loader-{batch}"},
        )
    mirrored = do_register_table(location=str(location), slug="trips", name="trips", by=admin)
    sync_table(mirrored)
    return mirrored


def contested_table(admin: User) -> Table:
    """On which real writes were lost, one of each kind."""
    location = Path(settings.SLUICE_TABLE_ROOTS[0]) / "contested"
    lost_writes(location, pause_s=0.15)
    mirrored = do_register_table(
        location=str(location), slug="contested", name="contested", by=admin
    )
    sync_table(mirrored)
    return mirrored


def open_writers(table: Table) -> dict[str, str]:
    """Three writers of the contested table that go on for as long as the tests run: two of the same
    file groups, one that is doomed.
    """
    location = Path(table.location)
    older = begin(location, rides(0, 200, cities=CITIES[1:3]), writer="fares-ingest")
    beside = begin(location, rides(0, 90, cities=CITIES[2:]), writer="nightly-backfill")
    batch = rides(0, 60, cities=CITIES[1:2])
    doomed = begin(location, batch, writer="price-fix", options=EARLY, writes=False)
    doomed.write(rides(0, 60, cities=CITIES[:1]))
    with suppress(EarlyConflict):
        doomed.write(batch)
    _KEPT.extend((older, beside, doomed))
    sync_table(table)
    return {"older": older.instant, "beside": beside.instant, "doomed": doomed.instant}


def lost(table: Table) -> dict[str, str]:
    """The losers' instants, by what beat them."""
    named = {"nightly-backfill": "write", "price-fix": "early", "app-loader": "schema"}
    conflicts = Conflict.objects.filter(table=table)
    return {named.get(one.loser_writer, "service"): one.loser_instant for one in conflicts}


def quiet_table(now: datetime, admin: User) -> None:
    root = Path(settings.SLUICE_TABLE_ROOTS[0])
    weather = Table.objects.create(
        slug="weather",
        name="weather",
        location=str(root / "weather"),
        table_type="COPY_ON_WRITE",
        synced_at=now - timedelta(minutes=9),
        sync_error="table storage is gone: path=weather/.hoodie",
        registered_by=admin,
    )
    SyncMark.objects.create(
        table=weather, problem=Problem.GONE.value, failing_since=now - timedelta(minutes=9)
    )
    Table.objects.create(
        slug="empty", name="empty", location=str(root / "empty"), registered_by=admin
    )


def add_writer(table: Table, *, name: str) -> str:
    now = datetime.now(UTC)
    record = instant_record(table, now, None, writer=name, state="inflight")
    record.save()
    beat(table, record.requested_at, writer=name, beat_at=now, mode="OPTIMISTIC")
    publish_change(table.slug, "writers")
    return record.requested_at


def remove_instant(table: Table, *, instant: str) -> None:
    """The instant is not on the timeline any longer."""
    InstantRecord.objects.filter(table=table, requested_at=instant).delete()
    publish_change(table.slug, "instants")


def find_ended_write(table: Table) -> str:
    ended = Operation.objects.filter(table=table, kind="write", state="conflicted")
    return str(ended.latest("requested_at").pk)


def add_commits(table: Table, *, count: int, every_ms: int = 200) -> str:
    now = datetime.now(UTC)
    made = [
        instant_record(
            table,
            now - timedelta(milliseconds=every_ms * at + 900),
            timedelta(milliseconds=700),
            writer="burst",
            rows=10,
        )
        for at in range(count)
    ]
    InstantRecord.objects.bulk_create(made)
    publish_change(table.slug, "instants")
    return made[0].requested_at


def add_conflict(table: Table, *, winner: str, loser: str) -> str:
    now = datetime.now(UTC)
    made = Conflict.objects.create(
        table=table,
        loser_instant=to_instant(ms(now)),
        loser_writer=loser,
        winner_instant=to_instant(ms(now) - 5),
        winner_writer=winner,
        kind="write",
        file_groups=[["emea", file_id(0)]],
        decided_at=now,
    )
    publish_change(table.slug, "conflicts")
    return made.loser_instant


def renew_heartbeats(table: Table) -> None:
    """All streams beat just now; one backfill is late, one writer is dead."""
    now = datetime.now(UTC)
    beats = HeartbeatRecord.objects.filter(table=table)
    beats.filter(stream__gt="").update(beat_at=now - timedelta(seconds=1))
    beats.filter(writer_name="backfill-c").update(beat_at=now - timedelta(seconds=6))
    Table.objects.filter(pk=table.pk).update(synced_at=now)
    publish_change(table.slug, "writers")


def amend_operation(table: Table, *, pk: str, **values: Any) -> None:
    """What reports of a worker would make of it."""
    if values.get("state") == "succeeded":
        values["finished_at"] = datetime.now(UTC)
    Operation.objects.filter(pk=pk).update(**values)
    publish_change(table.slug, "operations")


def log_lines(table: Table, *, pk: str, first: int, count: int) -> None:
    """What a worker of the operation reports of its log."""
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    lines = [
        LogLine(number, now_ms, logging.INFO, "workers.write", f"line {number}.")
        for number in range(first, first + count)
    ]
    do_append_lines(UUID(pk), lines, host="engine-7", stream="worker-0.log")


def roll_back(table: Table, *, instant: str) -> None:
    """What the worker and the sync after it do."""
    open_table(table.location).rollback(instant, dry_run=False, by="ada", reason="test")
    sync_table(table)


def commit(table: Table) -> None:
    """A small real commit on the table of the wizard, and the sync after it."""
    rows = [{"id": 1, "city": "Bergen", "ts": 99}]
    open_table(table.location).write(pa.Table.from_pylist(rows))
    sync_table(table)


def running_stream(table: Table, *, stream: str) -> str:
    """An operation that writes until somebody stops it."""
    source = {"kind": "demo_stream", "stream": "click", "run": 7, "rounds": 3}
    by = User.objects.get(username="ada")
    running = do_request_write(
        table=table, parameters={"source": source, "stream": stream}, by=by, reason="clicks"
    )
    Operation.objects.filter(pk=running.pk).update(state="running")
    return str(running.pk)


def sync(table: Table) -> None:
    sync_table(table)


def demo_ended(table: Table) -> str:
    """The busy table is the demo's, whose streams were started and have ended; where it was."""
    before = table.location
    Table.objects.filter(pk=table.pk).update(location=demo_location())
    start_streams(User.objects.get(username="ada"), DemoRun(rounds=2))
    streams = Operation.objects.filter(parameters__job__source__kind="demo_stream")
    streams.update(state="succeeded", finished_at=datetime.now(UTC))
    return before


def demo_over(table: Table, *, location: str) -> None:
    Operation.objects.filter(parameters__job__source__kind="demo_stream").delete()
    Table.objects.filter(pk=table.pk).update(location=location)


def stream_round(table: Table, *, stream: str, ago_ms: int) -> str:
    """A stream with a round every four seconds has ended one so long ago; its operation."""
    at = datetime.now(UTC) - timedelta(milliseconds=ago_ms)
    operation = Operation.objects.create(
        table=table,
        kind="write",
        state="running",
        parameters={"stream": stream, "job": {"source": {"pace_s": 4.0}}},
    )
    Operation.objects.filter(pk=operation.pk).update(
        requested_at=at - timedelta(minutes=1), changed_at=at
    )
    took = timedelta(seconds=1)
    record = instant_record(table, at - took, took, writer=stream, stream=stream, rows=10)
    record.save()
    StreamStatus.objects.create(
        table=table, stream=stream, columns=[stream], rows_with=1, rows_without=1,
        last_commit_at=record.completed_at, sampled_at=at,
    )  # fmt: skip
    publish_change(table.slug, "instants")
    return str(operation.pk)


def stream_over(table: Table, *, stream: str) -> None:
    for kept in (InstantRecord, StreamStatus):
        kept.objects.filter(table=table, stream=stream).delete()
    Operation.objects.filter(table=table, parameters__stream=stream).delete()


def delete_row(table: Table, *, key: int, city: str, writer: str) -> None:
    """Delete one row of the small table."""
    keys = pa.table({"id": [key], "city": [city]})
    open_table(table.location).delete(keys, options={"sluice.writer.name": writer})
    sync_table(table)


def newest_commit(table: Table) -> str:
    """The instant of the newest completed write."""
    return str(table.instants.latest("completed_at").requested_at)


COMMANDS: dict[str, Callable[..., object]] = {
    "await_approval": await_approval,
    "writer": add_writer,
    "remove_instant": remove_instant,
    "ended_write": find_ended_write,
    "commits": add_commits,
    "conflict": add_conflict,
    "beats": renew_heartbeats,
    "operation": amend_operation,
    "log": log_lines,
    "roll_back": roll_back,
    "commit": commit,
    "running_stream": running_stream,
    "work": work,
    "lost": lost,
    "open_writers": open_writers,
    "sync": sync,
    "sink": tell_sink,
    "demo_ended": demo_ended,
    "demo_over": demo_over,
    "stream_round": stream_round,
    "stream_over": stream_over,
    "delete_row": delete_row,
    "newest_commit": newest_commit,
}


def connections(now: datetime, admin: User) -> None:
    """One that was reached, one that was not, and one that nobody tested or granted."""
    sasl = {
        "bootstrap_servers": "kafka-1.example:9093,kafka-2.example:9093",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "username": "sluice",
    }
    bucket = {"bucket": "landing", "prefix": "orders", "region": "eu-west-1", "access_key_id": "A"}
    shop = {"host": "db.example", "database": "shop", "username": "reader"}
    wishes = (
        ("orders-cluster", "kafka", sasl, {"password": "x"}),
        ("landing", "s3", bucket, {"secret_access_key": "x"}),
        ("shop", "postgresql", shop, {"password": "x"}),
    )
    for name, kind, reach, secrets in wishes:
        wish = ConnectionWish(name=name, kind=kind, settings=reach, secrets=secrets)
        do_create_connection(wish, by=admin)
    do_grant_connection("orders-cluster", ["default", "sales"], by=admin)
    do_grant_connection("landing", ["default"], by=admin)
    tested = Connection.objects.exclude(name="shop")
    tested.update(tested_at=now - timedelta(minutes=5), tested_by="ada")
    tested.filter(name="landing").update(test_problem="the bucket does not answer: HTTP 403")


def main() -> None:
    call_command("migrate", verbosity=0)
    now = datetime.now(UTC)
    admin = users()
    busy_table(now, admin)
    real_table(admin)
    kept_table(admin)
    joined_table(admin)
    sunk_table(admin)
    contested_table(admin)
    quiet_table(now, admin)
    alerts_of_all(now, admin)
    channels_of_all(now, admin)
    connections(now, admin)
    _say("ready")
    for line in sys.stdin:
        verb, _, rest = line.strip().partition(" ")
        arguments = json.loads(rest)
        table = Table.objects.get(slug=arguments.pop("table", "ad-requests"))
        _say(json.dumps(COMMANDS[verb](table, **arguments)))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
