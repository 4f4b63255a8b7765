"""A look at a whole table that finds nothing new: what it costs, and that it misses nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.events import Kind
from controlplane.mirror import apply, observing, sight
from controlplane.mirror.models import HeartbeatRecord, LockRecord, SyncMark
from controlplane.mirror.rounds import sync_round
from controlplane.mirror.sync import look, sync_table
from controlplane.mirror.turns import TURN, given_back, take_turn
from controlplane.writers.locks import lock_status
from tests.controlplane.lake import Lake
from workers.concurrency.heartbeat import heartbeat_path
from workers.sink.state_file import SinkState, put_state
from workers.table_layout import PROPERTIES

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
QUERIES_MAX = 4
FIRST_QUERIES_MAX = 40
_OF_A_ROUND = 2
"""Which tables are due, and which tables' rows are to be compared."""


@pytest.fixture
def quiet(lake: Lake) -> Lake:
    """One writer is at it, and its heart does not beat for a minute."""
    lake.commit(OSLO)
    lake.begin(OSLO)
    sync_table(lake.row)
    return lake


def test_a_look_that_finds_nothing_asks_four_times_at_most(
    quiet: Lake, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    before = timezone.now()

    with django_assert_max_num_queries(QUERIES_MAX):
        assert sync_table(quiet.row) == frozenset()

    mark = SyncMark.objects.get()
    quiet.row.refresh_from_db()
    assert mark.running_until is None
    assert mark.synced_at is not None
    assert mark.synced_at >= before
    assert quiet.row.synced_at == mark.synced_at


def test_a_first_look_asks_little(
    lake: Lake, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """Of a new table with one commit: nothing is forgotten of what nobody knew."""
    lake.commit(OSLO)

    with django_assert_max_num_queries(FIRST_QUERIES_MAX):
        assert sync_table(lake.row)

    assert SyncMark.objects.get().running_until is None


def test_a_round_adds_two_queries_of_its_own(
    quiet: Lake,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_TICKS_NS", "_SETTLED_NS"):  # However slow this machine is.
        monkeypatch.setattr(sight, name, 10**12)
    sync_round()

    with django_assert_max_num_queries(_OF_A_ROUND + QUERIES_MAX):
        assert sync_round().synced == 1, "so soon after a write stamps tell nothing"


def _beat(lake: Lake, root: Path) -> None:
    path = root / heartbeat_path(_pending(lake))
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1_000_000))


def _die(lake: Lake, root: Path) -> None:
    (root / heartbeat_path(_pending(lake))).unlink()


def _announce(lake: Lake, root: Path) -> None:
    (root / ".hoodie/.temp" / _pending(lake) / "more_0-0-0_1.parquet.marker.CREATE").touch()


def _hold(lake: Lake, root: Path) -> None:
    held_until_ms = int((timezone.now() + timedelta(minutes=1)).timestamp() * 1000)
    lock = {"expired": False, "validUntil": held_until_ms, "owner": "spark-42"}
    (root / ".hoodie/.locks/table_lock.json").write_text(json.dumps(lock))


def _run_a_sink(lake: Lake, root: Path) -> None:
    state = SinkState(sink_id="orders", topic="orders", epoch=1, state="IDLE")
    put_state(lake.table.storage, state)


def _pending(lake: Lake) -> str:
    [pending] = lake.table.timeline().pending()
    return pending.requested_at


@pytest.mark.parametrize(
    ("happens", "kind"),
    [
        (_beat, "writers"),
        (_die, "writers"),
        (_announce, "markers"),
        (_hold, "locks"),
        (_run_a_sink, "sinks"),
    ],
)
def test_whatever_happens_beside_the_timeline_is_seen_by_the_next_look(
    quiet: Lake, happens: Callable[[Lake, Path], None], kind: Kind
) -> None:
    assert sync_table(quiet.row) == frozenset()

    happens(quiet, Path(quiet.row.location))

    assert kind in (sync_table(quiet.row) or ())


def test_properties_that_somebody_changed_are_seen_by_the_next_look(quiet: Lake) -> None:
    path = Path(quiet.row.location) / PROPERTIES.path
    path.write_text(path.read_text() + "hoodie.metadata.enable=true\n")

    sync_table(quiet.row)

    quiet.row.refresh_from_db()
    assert [one["key"] for one in quiet.row.property_changes] == ["hoodie.metadata.enable"]


def test_who_holds_the_lock_is_noted_at_each_look(quiet: Lake) -> None:
    _hold(quiet, Path(quiet.row.location))
    sync_table(quiet.row)
    [before] = LockRecord.objects.get().holders

    sync_table(quiet.row)

    [after] = LockRecord.objects.get().holders
    assert after["seen_ms"] > before["seen_ms"]


def test_a_heart_that_is_gone_is_forgotten_although_nothing_else_happens(
    quiet: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "GONE_KEPT_FOR", timedelta(0))
    _die(quiet, Path(quiet.row.location))
    sync_table(quiet.row)
    assert HeartbeatRecord.objects.get().is_gone

    sync_table(quiet.row)

    assert not HeartbeatRecord.objects.exists()


def test_the_lock_was_looked_at_when_the_look_found_nothing_new(quiet: Lake) -> None:
    before = timezone.now()

    sync_table(quiet.row)

    status = lock_status(quiet.row, timezone.now())
    assert status is not None
    assert status.sampled_at >= before


def test_who_lost_the_turn_says_nothing_at_its_end(quiet: Lake) -> None:
    turn = take_turn(quiet.row)
    assert turn is not None
    SyncMark.objects.update(running_until=turn.until + TURN)  # It ran out, and another took it.
    quiet.commit(OSLO)

    with given_back(turn):
        looked = look(turn)
        turn.ending["sight"] = "seen"

    mark = SyncMark.objects.get()
    assert (looked.changed, looked.is_whole) == (frozenset(), False)
    assert (mark.sight, mark.running_until) == ("", turn.until + TURN)


def test_what_one_pass_left_is_read_in_the_next_round_although_nothing_happens(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "INSTANTS_PER_PASS_MAX", 2)
    monkeypatch.setattr(sight, "_SETTLED_NS", 0)
    written = {lake.commit(OSLO) for _ in range(5)}

    for _ in range(4):
        sync_round()

    assert written <= set(lake.row.instants.values_list("requested_at", flat=True))
    assert sync_round().looked_at == 1
