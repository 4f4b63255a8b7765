"""A writer that waited for a holder with another clock says so in its commit, and a health check
names both hosts.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from controlplane.mirror.health_check import Check
from controlplane.mirror.models import InstantRecord
from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.sync import sync_table
from tests.controlplane.lake import Lake
from workers.concurrency.locks.record import LockState, owner_text
from workers.table_layout import LOCK

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
AHEAD_MS = 3_600_000
LEASE_MS = 20
"""So short that the writer that waits takes the lock over at once."""


def leave_lock(lake: Lake, completing: str | None) -> None:
    """As a holder that died leaves it, whose clock was an hour ahead."""
    now_ms = lake.table.ports.clock.now_ms() + AHEAD_MS
    owner = owner_text(1, now_ms, "token", "nightly", completing, lease_ms=LEASE_MS)
    state = LockState(False, now_ms + LEASE_MS, owner)
    lake.table.storage.put(LOCK.path, state.encode())


def check_clocks(lake: Lake, hours: int = 0) -> list[Check]:
    sync_table(lake.row)
    now = timezone.now() + timedelta(hours=hours)
    return [one for one in health_checks(lake.row, now) if one.name == "host-clocks"]


def test_health_check_names_the_other_holder_and_the_difference_for_a_day(lake: Lake) -> None:
    lake.commit(OSLO)
    assert [one.verdict for one in check_clocks(lake)] == ["good"]
    leave_lock(lake, None)

    instant = lake.commit(OSLO)

    [check] = check_clocks(lake)
    assert (check.verdict, check.instant) == ("warn", instant)
    words = check.sentence.split()
    assert check.sentence.startswith("the clock of writer nightly is ")
    assert abs(int(words[words.index("ms") - 1].replace(",", "")) - AHEAD_MS) < 60_000
    assert "ms ahead of that of" in check.sentence
    assert "NTP" in check.advice
    assert check_clocks(lake, hours=25) == []


def test_health_check_names_the_other_host_where_its_commit_is_known(lake: Lake) -> None:
    other = lake.commit(OSLO)
    leave_lock(lake, other)
    lake.commit(OSLO)
    sync_table(lake.row)
    row = InstantRecord.objects.get(requested_at=other)
    row.metadata["process"]["host"] = "far-away"
    row.save()

    [check] = check_clocks(lake)

    assert check.sentence.startswith("the clock of far-away is ")
