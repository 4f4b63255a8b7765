"""A long history costs a page nothing: the figures of the dashboard come from indexes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from controlplane.mirror.models import InstantRecord
from controlplane.mirror.timeline_rows import timeline_window
from controlplane.tables.listing import Wanted, tables_page
from controlplane.tables.models import Table
from controlplane.tables.queries import table_row
from controlplane.writers.queries import writers_board
from workers.clock import format_instant

TABLES = 20
INSTANTS = 30_000
FIRST_MS = 1_767_225_600_000
STEPS_MAX = 5_000
"""Instructions of SQLite's virtual machine. Scanning the 1,500 instants of a table takes more."""
STEPS_AT_ONCE = 10


@pytest.fixture
def history(db: None) -> Table:
    tables = [Table(slug=f"t{n:02}", name="t", location=f"/t/{n}") for n in range(TABLES)]
    Table.objects.bulk_create(tables)
    InstantRecord.objects.bulk_create(
        (
            InstantRecord(
                table=tables[number % TABLES],
                requested_at=format_instant(FIRST_MS + number * 1000),
                action="deltacommit",
                state="completed",
                completed_at=format_instant(FIRST_MS + number * 1000 + 500),
            )
            for number in range(INSTANTS)
        ),
        batch_size=5_000,
    )
    InstantRecord.objects.create(
        table=tables[0],
        requested_at=format_instant(FIRST_MS + INSTANTS * 1000),
        action="deltacommit",
        state="inflight",
    )
    return tables[0]


def steps_of(ask: Callable[[], object]) -> int:
    """Return how many instructions SQLite executed for `ask`."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += STEPS_AT_ONCE
        return 0

    connection.connection.set_progress_handler(count, STEPS_AT_ONCE)
    try:
        ask()
    finally:
        connection.connection.set_progress_handler(None, 0)
    return steps


@pytest.mark.slow
def test_pages_stay_quick_and_right_with_a_long_history(history: Table, admin: User) -> None:
    questions: dict[str, Callable[[], object]] = {
        "overview": lambda: tables_page(admin, Wanted()).rows,
        "table": lambda: table_row(history),
        "window": lambda: timeline_window(history, limit=100),
        "writers": lambda: writers_board(history, timezone.now()),
    }

    if connection.vendor == "sqlite":
        steps = {name: steps_of(ask) for name, ask in questions.items()}
        assert min(steps.values()) > 0, steps
        assert max(steps.values()) < STEPS_MAX, steps

    first, second, *_ = tables_page(admin, Wanted()).rows
    assert (first.slug, first.pending_instants, second.pending_instants) == ("t00", 1, 0)
    last_of_first = FIRST_MS + (INSTANTS - TABLES) * 1000 + 500
    assert first.last_commit_at == format_instant(last_of_first)
