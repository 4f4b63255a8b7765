"""Rounds that measure streams of many tables: only where something moved; each gets its turn."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.mirror import streams
from controlplane.mirror.measuring import measure_round
from controlplane.mirror.models import JoinMeasure, SyncMark
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.support.joined import commit, make
from workers import open_table

NOON_MS = 1_777_636_800_000
JOINED = ("j0", "j1", "j2")


@pytest.fixture
def joined(root: Path, admin: User) -> list[Table]:
    """Three tables with column groups, synced and not measured."""
    first = make(root)
    commit(first, {"id": "a", "shop_ts": NOON_MS, "price": 1.0})
    tables = []
    for slug in JOINED:
        shutil.copytree(first.location, root / slug)
        tables.append(do_register_table(location=str(root / slug), slug=slug, by=admin))
        sync_table(tables[-1])
    return tables


def move(table: Table) -> None:
    commit(open_table(table.location), {"id": "a", "shop_ts": NOON_MS + 1, "price": 2.0})
    sync_table(table)


def measured() -> set[str]:
    return set(JoinMeasure.objects.values_list("table__slug", flat=True))


def test_tables_without_streams_and_streams_that_stand_still_cost_one_query_together(
    lake: Lake, joined: list[Table], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    sync_table(lake.row)
    assert measure_round(budget_s=60).measured == len(JOINED)
    SyncMark.objects.update(measured_at=timezone.now() - timedelta(hours=1))

    with django_assert_num_queries(1):
        done = measure_round()

    assert (done.measured, done.left) == (0, 0)
    assert measured() == set(JOINED)


def test_rounds_are_bounded_and_no_table_starves_beside_one_that_never_rests(
    joined: list[Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "AT_MOST_EVERY", timedelta(0))
    monkeypatch.setattr(streams, "REST_PER_WORK", 0)
    seen = []

    for _ in JOINED:
        move(joined[0])
        done = measure_round(budget_s=0)
        seen.append((done.measured, len(measured())))

    assert seen == [(1, 1), (1, 2), (1, 3)]
    assert measure_round(budget_s=60).measured == 1, "the one that moved on since"


def test_table_that_cannot_be_measured_stops_no_other_and_rests(joined: list[Table]) -> None:
    shutil.rmtree(joined[0].location)

    first, tried = measure_round(budget_s=60), _tried(joined[0])
    again = measure_round(budget_s=60)

    assert (first.measured, again.measured) == (2, 0)
    assert measured() == set(JOINED[1:])
    assert _tried(joined[0]) == tried
    SyncMark.objects.update(measured_at=timezone.now() - streams.REST_MAX)
    measure_round(budget_s=60)
    assert _tried(joined[0]) > tried


def test_streams_that_moved_on_rest_first(joined: list[Table]) -> None:
    measure_round(budget_s=60)
    move(joined[1])

    assert measure_round().measured == 0
    SyncMark.objects.update(measured_at=timezone.now() - streams.AT_MOST_EVERY)
    JoinMeasure.objects.update(took_ms=0)
    assert measure_round().measured == 1


def _tried(table: Table) -> Any:
    return SyncMark.objects.get(table=table).measured_at
