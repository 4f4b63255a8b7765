"""What is known of writers at work, of the lock and of markers: real writers, still open."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django.live_server_helper import LiveServer

from controlplane.audit.models import AuditEvent
from controlplane.errors import NotAllowedNow
from controlplane.mirror.marker_tree import marker_tree
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_request_abort
from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from controlplane.writers.activity import WriterActivity, writers_activity
from controlplane.writers.locks import lock_status, lock_waits
from controlplane.writers.markers import marker_directories
from tests.controlplane.lake import OPTIMISTIC, Lake
from tests.support.lost_writes import (
    CITIES,
    EARLY,
    LostWrites,
    OpenWrite,
    begin,
    copied,
    rides,
)
from workers.concurrency.lock_takeover import table_lock
from workers.concurrency.outcome import Committed, RolledBack
from workers.errors import EarlyConflict
from workers.markers.store import delete_markers, markers_file, write_type
from workers.options.write_options import write_options
from workers.tasks import rollback

WAIT_S = 60


@pytest.fixture
def lost(root: Path, lost_writes_once: LostWrites) -> LostWrites:
    return copied(lost_writes_once, root / "contested")


@pytest.fixture
def contested(lost: LostWrites, admin: User) -> Table:
    return do_register_table(
        location=str(lost.location), slug="contested", name="contested", by=admin
    )


def activity_of(table: Table, write: OpenWrite) -> WriterActivity:
    sync_table(table)
    activities = writers_activity(table, timezone.now())
    return next(each for each in activities if each.row.instant == write.instant)


@pytest.mark.slow
def test_open_writers_of_one_file_group_are_said_to_meet(
    contested: Table, lost: LostWrites
) -> None:
    first = begin(lost.location, rides(0, 40, cities=CITIES[:2]), writer="first")
    second = begin(lost.location, rides(0, 40, cities=CITIES[1:3]), writer="second")
    apart = begin(lost.location, rides(0, 40, cities=CITIES[3:]), writer="apart")

    activity = activity_of(contested, first)

    assert activity.met == [(second.instant, "second")]
    assert {partition for partition, _ in activity.claims} == {"bergen", "narvik"}
    assert (activity.claim_count, activity.marker_layout) == (8, "direct")
    assert activity.marked_at is not None
    assert activity_of(contested, apart).met == []
    for write in (first, apart):
        write.wins()
    second.loses()
    assert activity_of(contested, first).met == []


def test_doomed_writer_carries_the_verdict_of_early_detection(
    contested: Table, lost: LostWrites
) -> None:
    older = begin(lost.location, rides(0, 40, cities=CITIES[:1]), writer="older")
    batch = rides(0, 40, cities=CITIES[:1])
    younger = begin(lost.location, batch, writer="younger", options=EARLY, writes=False)
    with pytest.raises(EarlyConflict):
        younger.write(batch)

    verdict = activity_of(contested, younger).verdict

    assert verdict is not None
    assert (verdict.rival, verdict.rival_writer) == (older.instant, "older")
    assert verdict.file_groups == 4
    younger.transaction.lose_early()
    older.wins()


def test_heartbeat_that_died_beside_growing_markers_is_told_as_a_contradiction(
    contested: Table, lost: LostWrites
) -> None:
    write = begin(lost.location, rides(0, 40, cities=CITIES[:1]), writer="half-dead")
    activity_of(contested, write)
    contested.heartbeats.update(beat_at=timezone.now() - timedelta(minutes=5))

    (activity,) = [
        each
        for each in writers_activity(contested, timezone.now())
        if each.row.instant == write.instant
    ]

    assert activity.row.state == "expired"
    assert activity.stops_responding
    write.wins()


def test_lock_names_its_holder_and_who_waits_and_commits_say_how_long(
    contested: Table, lost: LostWrites
) -> None:
    slow = begin(lost.location, rides(0, 20, cities=CITIES[:1]), writer="patient")
    options = write_options({"sluice.writer.name": "holder"})
    waiter = threading.Thread(target=slow.wins)
    with table_lock(slow.table, options).hold():
        waiter.start()
        _until(lambda: bool(list((lost.location / ".hoodie/.locks/waiting").glob("*.json"))))
        sync_table(contested)
        status = lock_status(contested, timezone.now())
        waiting = activity_of(contested, slow)
    waiter.join(timeout=WAIT_S)

    assert status is not None
    assert (status.state, status.writer, status.provider) == ("held", "holder", "storage")
    assert status.expires_in_s is not None
    assert status.expires_in_s > 0
    assert [one.writer for one in status.waiters] == ["patient"]
    assert waiting.lock == "waits"
    sync_table(contested)
    freed = lock_status(contested, timezone.now())
    assert freed is not None
    assert (freed.state, freed.waiters) == ("free", [])
    assert [one.writer for one in freed.holders] == ["holder"]
    newest = lock_waits(contested)[0]
    assert (newest.instant, newest.writer) == (slow.instant, "patient")
    assert newest.waited_ms >= 1_000


def test_lease_that_ran_out_is_told_as_overdue(contested: Table, lost: LostWrites) -> None:
    path = lost.location / ".hoodie/.locks/table_lock.json"
    body = json.loads(path.read_bytes())
    now_ms = int(timezone.now().timestamp() * 1000)
    path.write_text(json.dumps({**body, "expired": False, "validUntil": now_ms + 200}))
    sync_table(contested)

    status = lock_status(contested, timezone.now() + timedelta(seconds=60))

    assert status is not None
    assert status.state == "overdue"


def test_owner_of_another_engine_is_unknown_with_its_reason(
    contested: Table, lost: LostWrites
) -> None:
    path = lost.location / ".hoodie/.locks/table_lock.json"
    until_ms = int(timezone.now().timestamp() * 1000) + 60_000
    path.write_text(json.dumps({"expired": False, "validUntil": until_ms, "owner": "spark-42"}))
    sync_table(contested)

    status = lock_status(contested, timezone.now())

    assert status is not None
    assert (status.state, status.writer, status.owner) == ("held", "", "spark-42")
    assert status.reason


def test_marker_tree_tells_files_that_are_there_from_those_that_are_not_yet(
    contested: Table, lost: LostWrites
) -> None:
    write = begin(lost.location, rides(0, 40, cities=CITIES[:1]), writer="one")
    sync_table(contested)
    tree = marker_tree(contested, write.instant)
    assert tree is not None
    assert (tree.there, tree.not_yet, tree.is_pending) == (4, 0, True)
    (partition,) = tree.partitions
    (lost.location / "bergen" / partition.files[0].name).unlink()

    tree = marker_tree(contested, write.instant)

    assert tree is not None
    assert (tree.there, tree.not_yet) == (3, 1)
    write.transaction.abort("test")
    assert marker_tree(contested, write.instant) is None


def test_markers_by_the_server_are_counted_per_file_and_what_nobody_writes_is_left_behind(
    contested: Table, lost: LostWrites
) -> None:
    write = begin(lost.location, rides(0, 20, cities=CITIES[:1]), writer="one")
    storage, gone = write.table.storage, "20250101000000000"
    write_type(storage, gone)
    name = "bergen/00000000-0000-0000-0000-000000000000-0_0-0-0_20250101000000000.parquet"
    storage.append(markers_file(gone, 0), f"{name}.marker.CREATE\n".encode())
    sync_table(contested)

    left, mine = marker_directories(contested, timezone.now())

    assert (left.instant, left.is_orphan, left.layout) == (gone, True, "timeline_server_based")
    assert [(fill.name, fill.markers) for fill in left.files] == [("MARKERS0", 1)]
    assert (mine.instant, mine.is_orphan, mine.markers) == (write.instant, False, 4)
    delete_markers(storage, gone)
    write.wins()


@pytest.mark.usefixtures("working")
@pytest.mark.django_db(transaction=True)
def test_operator_ends_a_living_writer_by_its_decision_and_it_is_audited(
    lake: Lake, operator: User, client: Client, live_server: LiveServer
) -> None:
    lake.commit({"id": "0", "ts": 0, "city": "Narvik"})
    writer = lake.begin({"id": "1", "ts": 1, "city": "Oslo"}, writer="stuck", mode=OPTIMISTIC)
    sync_table(lake.row)
    client.force_login(operator)

    answer = client.post(
        f"/api/v1/tables/trips/writers/{writer.instant}/abort/",
        {"reason": "it hangs"},
        "application/json",
    )

    assert answer.status_code == 202, answer.content
    operation = Operation.objects.get(kind="rollback")
    rollback.apply(args=[operation.parameters["job"]]).get()
    operation.refresh_from_db()
    assert operation.state == "succeeded"
    outcome = writer.commit()
    assert isinstance(outcome, RolledBack)
    (event,) = AuditEvent.objects.filter(what="operation.abort")
    assert (event.who, event.reason) == ("olaf", "it hangs")


@pytest.mark.usefixtures("working")
@pytest.mark.django_db(transaction=True)
def test_writer_that_commits_before_its_end_is_carried_out_keeps_everything(
    lake: Lake, operator: User, live_server: LiveServer
) -> None:
    writer = lake.begin({"id": "1", "ts": 1, "city": "Oslo"}, writer="quick", mode=OPTIMISTIC)
    sync_table(lake.row)
    operation = do_request_abort(lake.row, writer.instant, reason="too slow", by=operator)
    assert isinstance(writer.commit(), Committed)

    rollback.apply(args=[operation.parameters["job"]]).get()

    operation.refresh_from_db()
    assert operation.state == "failed"
    assert "committed meanwhile" in operation.message
    sync_table(lake.row)
    with pytest.raises(NotAllowedNow):
        do_request_abort(lake.row, writer.instant, reason="again", by=operator)


def _until(condition: object) -> None:
    assert callable(condition)
    deadline = timezone.now() + timedelta(seconds=WAIT_S)
    while not condition():
        assert timezone.now() < deadline, "it never came"
        threading.Event().wait(0.05)
