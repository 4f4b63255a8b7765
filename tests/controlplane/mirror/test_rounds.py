"""Many tables: nobody starves, and tables to which nothing happened cost next to nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.celery import QUEUES, SYNC_EVERY_S, app
from controlplane.mirror import observing, rounds, sight
from controlplane.mirror.models import SyncMark
from controlplane.mirror.rounds import (
    BUDGET_S,
    FOLLOWED_FOR,
    LOOK_EVERY_MAX,
    WHOLE_EVERY,
    WHOLE_EVERY_BY_NAMES,
    follow_changes,
    sync_round,
)
from controlplane.mirror.sight import sight_of
from controlplane.mirror.sync import sync_table
from controlplane.mirror.turns import make_due
from controlplane.node.processes import WORKERS
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake, Write
from tests.support.clocks import ManualClock
from workers import open_table
from workers.concurrency.heartbeat import heartbeat_path
from workers.storage.timeline_files import are_stamps_exact

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
TABLES = 40
_ROUND_QUERIES_MAX = 6
"""Which tables are due, that they are as they were, when to look at the still ones again; which to
compare, with what, when again.
"""
_FIRST_MIRROR_QUERIES_MAX = 18
_SETTLED_S = 0.4 if are_stamps_exact(Path(tempfile.gettempdir()).stat().st_dev) else 3.2
"""So long after a change stamps begin to tell."""


@pytest.fixture
def many(lake: Lake, root: Path, admin: User) -> list[Table]:
    """Forty tables beside the first one, none of them synced."""
    lake.commit(OSLO)
    made = []
    for number in range(TABLES):
        location = root / f"t{number:02}"
        shutil.copytree(lake.row.location, location)
        made.append(
            do_register_table(location=str(location), slug=f"t{number:02}", name="", by=admin)
        )
    return made


def test_every_table_is_synced_although_rounds_are_short_and_one_table_never_rests(
    lake: Lake, many: list[Table]
) -> None:
    count = 0
    while Table.objects.filter(synced_at__isnull=True).exists():
        lake.commit(OSLO)
        done = sync_round(budget_s=0.25)
        assert done.synced > 0
        count += 1
        assert count <= len(many) + 1


class Busy(ManualClock):
    """A clock whose first sleep ends with another commit."""

    def __init__(self, commit: Callable[[], object]) -> None:
        super().__init__()
        self._commit: Callable[[], object] | None = commit

    def sleep(self, seconds: float) -> None:
        commit, self._commit = self._commit, None
        if commit is not None:
            commit()
        super().sleep(seconds)


def test_table_that_changes_is_followed_until_the_next_round(lake: Lake) -> None:
    lake.commit(OSLO)
    sync_round()
    SyncMark.objects.update(tried_at=timezone.now() - timedelta(seconds=1))
    clock = Busy(lambda: lake.commit(OSLO))
    instants_before = lake.row.instants.count()

    synced = follow_changes(clock.monotonic_s() + SYNC_EVERY_S, clock)

    assert synced >= 1
    assert lake.row.instants.count() == instants_before + 1
    assert clock.monotonic_s() <= SYNC_EVERY_S + ManualClock().monotonic_s()


def test_table_that_is_still_is_left_to_the_rounds(lake: Lake) -> None:
    lake.commit(OSLO)
    sync_round()
    SyncMark.objects.update(changed_at=timezone.now() - 2 * FOLLOWED_FOR)
    clock = Busy(lambda: lake.commit(OSLO))

    assert follow_changes(clock.monotonic_s() + SYNC_EVERY_S, clock) == 0


class Hurried(ManualClock):
    """Once it was read `still` times, each reading takes more than the time of a round: the round
    ends behind the first table of each kind.
    """

    def __init__(self, still: int = 0) -> None:
        super().__init__()
        self._still = still

    def monotonic_s(self) -> float:
        self._still -= 1
        if self._still < 0:
            self.advance(2 * round(BUDGET_S * 1000))
        return super().monotonic_s()


def add_new(lake: Lake, count: int, *, real: int, prefix: str = "new") -> None:
    """Register `count` tables that were never synced; the first `real` of them exist."""
    root = Path(lake.row.location).parent
    locations = [root / f"{prefix}{number:03}" for number in range(count)]
    for location in locations[:real]:
        shutil.copytree(lake.row.location, location)
    Table.objects.bulk_create(
        Table(slug=location.name, location=str(location)) for location in locations
    )


def test_commit_on_a_known_table_is_mirrored_before_800_new_tables(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A table whose files are that new is read again in the next round.
    monkeypatch.setattr(sight, "_SETTLED_NS", 0)
    lake.commit(OSLO)
    sync_round()
    add_new(lake, 800, real=4)
    clock = Hurried()

    for number in range(3):
        instant = lake.commit(OSLO)
        done = sync_round(clock=clock)
        assert lake.row.instants.filter(requested_at=instant, state="completed").exists()
        assert (done.synced, done.left) == (2, 799 - number), "and one new table"


def test_new_tables_are_mirrored_although_known_ones_never_rest(
    lake: Lake, many: list[Table]
) -> None:
    sync_round(budget_s=60)
    add_new(lake, 3, real=3)
    clock = Hurried()

    for number in range(3):
        SyncMark.objects.update(sight="", look_at=None)
        done = sync_round(clock=clock)
        assert (done.synced, done.left) == (2, TABLES + 2)
        new = Table.objects.filter(slug__startswith="new", synced_at__isnull=False)
        assert new.count() == number + 1


def test_long_history_that_is_still_read_waits_behind_news_and_gets_its_turns(
    lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "INSTANTS_PER_PASS_MAX", 2)
    monkeypatch.setattr(sight, "_SETTLED_NS", 0)
    instants = {lake.commit(OSLO) for _ in range(7)}
    add_new(lake, 1, real=1)
    known = Lake(open_table(root / "new000").table, Table.objects.get(slug="new000"))
    sync_round(budget_s=60)
    while sync_table(known.row):
        pass
    add_new(lake, 40, real=0, prefix="gone")
    clock = Hurried()

    for _ in range(4):
        instant = known.commit(OSLO)
        sync_round(clock=clock)
        assert known.row.instants.filter(requested_at=instant, state="completed").exists()
        sync_round(clock=clock)

    assert instants <= set(lake.row.instants.values_list("requested_at", flat=True))


@pytest.mark.parametrize("waiting", [0, 300])
def test_first_mirror_costs_few_queries_however_many_wait(lake: Lake, waiting: int) -> None:
    lake.commit(OSLO)
    add_new(lake, 5 + waiting, real=5)
    lake.row.delete()

    with CaptureQueriesContext(connection) as captured:
        done = sync_round(clock=Hurried(still=5))

    assert (done.synced, done.left) == (5, waiting)
    assert len(captured) <= 5 * _FIRST_MIRROR_QUERIES_MAX + 2 * _ROUND_QUERIES_MAX


def test_round_over_quiet_tables_asks_little_and_opens_nothing(
    many: list[Table], django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    sync_round(budget_s=60)
    time.sleep(_SETTLED_S)
    sync_round(budget_s=60)

    with django_assert_max_num_queries(_ROUND_QUERIES_MAX):
        done = sync_round()

    assert (done.looked_at, done.synced, done.left) == (TABLES + 1, 0, 0)


@pytest.mark.slow
def test_still_tables_of_a_large_fleet_are_looked_at_less_often_and_none_is_forgotten(
    lake: Lake, many: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "_SETTLED_NS", 0)
    monkeypatch.setattr(rounds, "LOOKS_PER_ROUND", 10)
    sync_round(budget_s=60)
    hour = timedelta(hours=1)
    SyncMark.objects.exclude(table=lake.row).update(changed_at=timezone.now() - hour)
    now = timezone.now()
    assert sync_round().looked_at == TABLES + 1

    marks = SyncMark.objects.filter(look_at__gt=now)
    pauses = {mark.table_id: mark.look_at - now for mark in marks if mark.look_at}

    assert lake.row.pk not in pauses, "it was busy"
    assert len(pauses) == TABLES
    assert min(pauses.values()) > timedelta(seconds=30)
    assert max(pauses.values()) <= LOOK_EVERY_MAX + timedelta(seconds=1)
    assert sync_round().looked_at == 1, "the busy one"


def test_still_tables_of_a_small_fleet_are_looked_at_every_other_round(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "_SETTLED_NS", 0)
    sync_round()
    assert [sync_round().looked_at, sync_round().looked_at] == [1, 1], "it was busy"
    SyncMark.objects.update(changed_at=timezone.now() - timedelta(hours=1))

    assert [sync_round().looked_at, sync_round().looked_at] == [1, 0]
    SyncMark.objects.update(look_at=F("look_at") - 2 * SYNC_EVERY_S * timedelta(seconds=1))
    assert sync_round().looked_at == 1


def test_report_of_a_writer_makes_its_table_due_at_once(lake: Lake) -> None:
    sync_round()
    SyncMark.objects.update(look_at=timezone.now() + LOOK_EVERY_MAX)
    lake.commit(OSLO)
    assert sync_round().synced == 0

    make_due(lake.row.pk)

    assert sync_round().synced == 1


def test_what_happens_to_a_quiet_table_is_seen_in_the_next_round(lake: Lake) -> None:
    write = lake.begin(OSLO)
    sync_round()
    time.sleep(_SETTLED_S)
    sync_round()
    assert sync_round().looked_at == 1
    seen = sight_of(lake.row)

    beat = Path(lake.row.location) / heartbeat_path(write.instant)
    os.utime(beat, ns=(beat.stat().st_atime_ns, beat.stat().st_mtime_ns + 1))
    assert sight_of(lake.row) != seen
    write.commit()
    assert sync_round().synced == 1
    lake.row.refresh_from_db()
    assert lake.row.instants.filter(requested_at=write.instant, state="completed").exists()


def _complete(lake: Lake, write: Write) -> None:
    write.commit()


def _change_in_place(lake: Lake, write: Write) -> None:
    properties = Path(lake.row.location) / ".hoodie/hoodie.properties"
    stamps = properties.stat()
    properties.write_text(properties.read_text() + "a=b\n")
    os.utime(properties, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))


def _decide(lake: Lake, write: Write) -> None:
    (Path(lake.row.location) / ".hoodie/.sluice/decision" / write.instant).write_text("{}")


def _take_away(lake: Lake, write: Write) -> None:
    (Path(lake.row.location) / heartbeat_path(write.instant)).unlink()


def _mark(lake: Lake, write: Write) -> None:
    (Path(lake.row.location) / ".hoodie/.temp" / write.instant / "x.marker.CREATE").touch()


@pytest.mark.parametrize("happens", [_complete, _change_in_place, _decide, _take_away, _mark])
def test_names_tell_where_stamps_of_folders_do_not(
    lake: Lake,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    happens: Callable[[Lake, Write], None],
) -> None:
    root = Path(lake.row.location)
    monkeypatch.setitem(sight._devices, root.stat().st_dev, False)
    monkeypatch.setattr(sight, "_SETTLED_NS", 0)
    write = lake.begin(OSLO)
    sync_round()
    os.utime(root / ".hoodie/timeline")
    with django_assert_max_num_queries(_ROUND_QUERIES_MAX):
        assert sync_round().looked_at == 1, "the folder's stamp is not looked at"

    happens(lake, write)

    assert sync_round().synced == 1


def test_table_without_trusted_stamps_is_read_as_a_whole_more_often(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sight, "_SETTLED_NS", 0)
    sync_round()
    SyncMark.objects.update(tried_at=timezone.now() - WHOLE_EVERY_BY_NAMES)
    assert sync_round().synced == 0
    monkeypatch.setitem(sight._devices, Path(lake.row.location).stat().st_dev, False)
    assert sync_round().synced == 1
    assert sync_round().synced == 0

    SyncMark.objects.update(tried_at=timezone.now() - WHOLE_EVERY_BY_NAMES)

    assert sync_round().synced == 1


def test_rounds_keep_the_mirrors_processes_busy_and_wait_for_each_other_in_no_queue() -> None:
    _, processes = WORKERS["mirror"]

    assert SYNC_EVERY_S < BUDGET_S < processes * SYNC_EVERY_S


def test_quiet_table_is_read_as_a_whole_now_and_then(lake: Lake) -> None:
    sync_round()
    time.sleep(_SETTLED_S)
    sync_round()
    SyncMark.objects.update(tried_at=timezone.now() - WHOLE_EVERY)

    assert sync_round().synced == 1


def test_table_that_cannot_be_read_is_left_alone_for_a_while(lake: Lake) -> None:
    (Path(lake.row.location) / ".hoodie" / "hoodie.properties").write_text("nothing")

    assert sync_round().synced == 1
    assert sync_round().synced == 0
    lake.row.refresh_from_db()
    assert lake.row.sync_error


def test_each_queue_has_processes_of_its_own() -> None:
    routes = {
        name: app.amqp.router.route({}, name)["queue"].name
        for name in (
            "controlplane.mirror.sync_tables",
            "controlplane.monitoring.messages.deliver",
            "controlplane.operations.reconcile",
        )
    }
    routes["workers.tasks.rollback"] = app.amqp.router.route({}, "workers.tasks.rollback")[
        "queue"
    ].name

    assert sorted(routes.values()) == sorted(QUEUES)
    assert {queue for queue, _ in WORKERS.values()} == set(QUEUES)
