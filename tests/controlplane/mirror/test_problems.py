"""A table that cannot be read says why and since when, keeps its last good rows, and comes back by
itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import Settings

from controlplane.mirror.applying import apply_observed
from controlplane.mirror.models import InstantRecord, SyncMark
from controlplane.mirror.observing import observe
from controlplane.mirror.rounds import sync_round
from controlplane.mirror.storage import engine_table
from controlplane.mirror.sync import sync_table
from controlplane.mirror.turns import take_turn
from controlplane.tables.freshness import freshness
from controlplane.tables.listing import Wanted, tables_page
from controlplane.tables.models import Table
from controlplane.tables.problems import Problem
from controlplane.tables.queries import table_row
from tests.controlplane.lake import Lake

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
_NOBODY = 65_534
Spoil = Callable[[Path], object]


@pytest.fixture
def good(lake: Lake) -> Lake:
    lake.commit(OSLO)
    sync_table(lake.row)
    return lake


def _move_away(root: Path) -> None:
    shutil.move(root, root.with_name("away"))


def _lose_hoodie(root: Path) -> None:
    shutil.rmtree(root / ".hoodie")


def _damage(root: Path) -> None:
    (root / ".hoodie" / "hoodie.properties").write_text("no properties")


def _age(root: Path) -> None:
    properties = root / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines()
    replaced = ("hoodie.table.version", "hoodie.table.checksum")
    kept = [line for line in lines if not line.startswith(replaced)]
    properties.write_text("\n".join([*kept, "hoodie.table.version=99", ""]))


def _put_elsewhere(root: Path) -> None:
    elsewhere = root.parent.parent / "elsewhere"
    shutil.move(root, elsewhere)
    root.symlink_to(elsewhere)


def _break_the_way(root: Path) -> None:
    shutil.move(root, root.with_name("away"))
    (root / ".hoodie").mkdir(parents=True)
    loop = root / ".hoodie" / "hoodie.properties"
    loop.symlink_to(loop)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_move_away, Problem.GONE),
        (_lose_hoodie, Problem.NO_TABLE),
        (_damage, Problem.DAMAGED),
        (_age, Problem.UNSUPPORTED),
        (_put_elsewhere, Problem.OUTSIDE),
        (_break_the_way, Problem.UNAVAILABLE),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_lost(
    good: Lake, admin: User, spoil: Spoil, problem: Problem
) -> None:
    before = list(InstantRecord.objects.values())
    spoil(Path(good.row.location))

    sync_table(good.row)

    good.row.refresh_from_db()
    fresh = freshness(good.row)
    assert (fresh.problem, fresh.verdict) == (problem, "unreadable"), fresh.reason
    assert fresh.title
    assert fresh.advice.endswith(".")
    assert fresh.failing_since is not None
    assert list(InstantRecord.objects.values()) == before
    (row,) = tables_page(admin, Wanted()).rows
    assert (row.sync_state, row.sync_problem) == ("unreadable", fresh.title)
    assert row.sync_failing_since == table_row(good.row).sync_failing_since is not None


@contextmanager
def _as_nobody() -> Iterator[None]:
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody without permission")
def test_table_that_may_not_be_read_says_so(good: Lake) -> None:
    hoodie = Path(good.row.location) / ".hoodie"
    hoodie.chmod(0o700)

    with _as_nobody():
        sync_table(good.row)

    good.row.refresh_from_db()
    assert freshness(good.row).problem == Problem.DENIED


def test_it_has_failed_since_it_first_did_and_comes_back_by_itself(good: Lake) -> None:
    location = Path(good.row.location)
    _move_away(location)
    sync_round()
    first = SyncMark.objects.get().failing_since
    location.mkdir()
    SyncMark.objects.update(look_at=None)
    sync_round()
    mark = SyncMark.objects.get()
    assert (mark.failing_since, mark.problem) == (first, Problem.NO_TABLE), "another reason"

    location.rmdir()
    shutil.move(location.with_name("away"), location)
    SyncMark.objects.update(look_at=None)
    sync_round()

    mark = SyncMark.objects.get()
    good.row.refresh_from_db()
    assert (mark.problem, mark.failing_since, good.row.sync_error) == ("", None, "")
    assert freshness(good.row).verdict == "fresh"


def test_file_that_nobody_can_place_is_told_beside_a_timeline_that_is_read(good: Lake) -> None:
    newer = good.commit(OSLO)
    name = f"00000000-0000-0000-0000-000000000000-0_0-0-0_{newer}.orc"
    (Path(good.row.location) / name).touch()

    sync_table(good.row)

    good.row.refresh_from_db()
    assert InstantRecord.objects.filter(requested_at=newer, state="completed").exists()
    fresh = freshness(good.row)
    assert (fresh.verdict, fresh.problem) == ("partial", Problem.FILES)
    assert fresh.failing_since is not None


def test_what_is_shown_is_as_old_as_the_last_look_at_storage(
    good: Lake, settings: Settings
) -> None:
    settings.SLUICE_STALE_AFTER_S = 30
    assert freshness(Table.objects.get()).verdict == "fresh"
    synced_at = timezone.now() - timedelta(seconds=31)
    Table.objects.update(synced_at=synced_at)

    row = table_row(Table.objects.get())

    assert row.sync_state == "stale"
    assert row.sync_age_s is not None
    assert 31 <= row.sync_age_s <= (timezone.now() - synced_at).total_seconds()
    Table.objects.update(synced_at=None)
    assert table_row(Table.objects.get()).sync_state == "unread"


def test_age_counts_from_before_the_reading(lake: Lake) -> None:
    """What is committed while a table is read is not among what was read."""
    lake.commit(OSLO)
    opened, mark = engine_table(lake.row), SyncMark.objects.create(table=lake.row)
    turn = take_turn(lake.row)
    assert turn is not None
    began = timezone.now()
    observed = observe(lake.row, opened, mark)
    lake.commit(OSLO)

    apply_observed(opened, observed, turn, "", began)

    lake.row.refresh_from_db()
    assert lake.row.synced_at == began
