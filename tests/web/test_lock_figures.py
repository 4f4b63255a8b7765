"""Waits and holds of the table lock: what a commit says, drawn where and as long as it was."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.writers.locks import LockWait, lock_waits
from tests.web.conftest import instant
from web.lock_figures import ROWS_MAX, WIDTH, gantt, wait_bins
from workers.clock import parse_instant

NOON = 1_790_000_000_000
_NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def wait(
    writer: str, *, had_it_ms: int, waited_ms: int = 100, held_ms: int | None = 50
) -> LockWait:
    return LockWait(
        instant=f"{writer}-{had_it_ms}", writer=writer, provider="storage", epoch=1,
        waited_ms=waited_ms, decided_ms=had_it_ms + 5, had_it_ms=had_it_ms, held_ms=held_ms,
    )  # fmt: skip


def test_hold_begins_where_the_wait_ends() -> None:
    drawn = gantt([wait("a", had_it_ms=NOON, waited_ms=300, held_ms=100)], None)

    assert drawn is not None
    waited, held = drawn.strips
    assert (waited.x, waited.width) == (0.0, 750.0)
    assert (held.x, held.width) == (750.0, 250.0)
    assert held.y > waited.y
    assert waited.words == "a waited 300 ms"
    assert held.words == "a held the lock for at least 100 ms"


def test_one_decision_is_drawn_with_what_was_near_it() -> None:
    chosen = wait("a", had_it_ms=NOON)
    near, far = wait("b", had_it_ms=NOON + 300), wait("c", had_it_ms=NOON + 3_600_000)

    drawn = gantt([far, near, chosen], None, around=chosen.instant)

    assert drawn is not None
    assert drawn.decisions == 2
    assert set(drawn.rows) == {"a", "b"}
    assert drawn.last_ms - drawn.first_ms < 1_000
    assert drawn.ticks[0] == (0.0, drawn.first_ms)
    assert drawn.ticks[-1] == (WIDTH, drawn.last_ms)
    assert all(strip.x >= 0 and strip.x + strip.width <= WIDTH for strip in drawn.strips)


def test_writers_beyond_the_rows_are_counted() -> None:
    drawn = gantt([wait(f"w{at}", had_it_ms=NOON + at) for at in range(ROWS_MAX + 3)], None)

    assert drawn is not None
    assert (len(drawn.rows), drawn.rows_left_out) == (ROWS_MAX, 3)


def test_without_a_decision_there_is_nothing_to_draw() -> None:
    assert gantt([], None) is None
    assert [one.share for one in wait_bins([])] == [0.0] * 7


@pytest.mark.parametrize(
    ("phases", "files", "held_ms", "had_it_after_ms"),
    [
        ({"validated": 20}, {"completed": 75}, 55, 20),
        ({"validated": 20}, {"completed": -10}, None, 20),
        ({"validated": 20}, {"completed": 10}, 0, 20),
        ({"validated": 20}, {"completed": 20 + 700_000}, None, 20),
        ({"validated": 20}, None, None, 20),
        ({}, {"completed": 75}, None, 60),
        ({"validated": "x"}, {"completed": 75}, None, 60),
    ],
    ids=[
        "both",
        "file older",
        "coarse stamp",
        "file copied",
        "archived",
        "another engine",
        "no number",
    ],
)
def test_hold_is_what_commit_and_file_say(
    phases: dict[str, Any],
    files: dict[str, int] | None,
    held_ms: int | None,
    had_it_after_ms: int,
    admin: User,
) -> None:
    table = Table.objects.create(slug="logs", name="logs", location="/lake/logs", synced_at=_NOW)
    began = parse_instant(instant(_NOW, seconds=10))
    counted = {name: began + at if isinstance(at, int) else at for name, at in {**phases}.items()}
    InstantRecord.objects.create(
        table=table, requested_at=instant(_NOW, seconds=10), action="commit", state="completed",
        completed_at=instant(_NOW, seconds=9.94),
        metadata={"extra": {"sluice.lock": json.dumps({"waited_ms": 7})}, "phases": counted},
        file_times=files and {name: began + at for name, at in files.items()},
    )  # fmt: skip

    (waited,) = lock_waits(table)

    assert (waited.held_ms, waited.had_it_ms - began) == (held_ms, had_it_after_ms)


def test_page_draws_one_decision_closely_and_any_other_address_draws_all(
    trips: Table, as_viewer: Client
) -> None:
    newest = lock_waits(trips)[0]

    close = as_viewer.get("/t/trips/locks/parts/history", {"around": newest.instant})
    every = as_viewer.get("/t/trips/locks", {"around": "../x"}).content.decode()

    assert newest.held_ms is not None
    assert f"around <code>{newest.instant}</code>" in close.content.decode()
    assert "Show all" not in every
    assert "of the newest 3 commits" in every
