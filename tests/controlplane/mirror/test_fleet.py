"""308 tables, some of Apache Hudi: what the mirror asks, and that each of them gets its turn.

Counts, no times: `make bench BENCH="--only fleet"` measures a node over the same tables.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from django.db import connection

from bench.support.fleet import FLEET, FOREIGN_EVERY, add_row, make_fleet
from bench.support.golden import ARCHIVES
from controlplane.mirror import sight
from controlplane.mirror.measuring import measure_round
from controlplane.mirror.models import InstantRecord, SyncMark
from controlplane.mirror.rounds import Round, sync_round
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from workers import LakehouseTable, open_table

pytestmark = pytest.mark.slow
_SHORT_S = 0.5
_NEVER = timedelta(days=1)
_FIRST_LOOK_QUERIES_MAX = 30
_QUIET_LOOK_QUERIES_MAX = 4
_ROUND_QUERIES_MAX = 6
_Done = TypeVar("_Done")


@pytest.fixture
def fleet(root: Path, db: None, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Registered and never synced; stamps tell at once, so that nobody has to wait for them."""
    monkeypatch.setattr(sight, "_SETTLED_NS", 0)
    locations = make_fleet(root / "fleet")
    for location in locations:
        do_register_table(location=str(location), slug=location.name, by=None)
    return locations


def test_each_of_308_tables_gets_its_turn_and_quiet_ones_cost_next_to_nothing(
    fleet: list[Path],
) -> None:
    _sync_first_time(open_table(fleet[0]))
    _sync_round(600)
    _look_at_names(open_table(fleet[0]))
    _look_at_all_of_each()


def _sync_round(budget_s: float) -> Round:
    """Sync as usual, except that no table is due to be read as a whole on a slow machine."""
    return sync_round(budget_s=budget_s, whole_every=_NEVER)


def _sync_first_time(busy: LakehouseTable) -> None:
    """Short rounds beside a table that never rests: it is synced in each of them, and of the others
    none twice before all are once.
    """
    rounds, queries_sum = 0, 0
    while never := Table.objects.filter(synced_at__isnull=True).count():
        add_row(busy, 1_000 + rounds)
        done, queries = _counted(lambda: _sync_round(_SHORT_S))
        still = Table.objects.filter(synced_at__isnull=True).count()
        assert done.synced > 0
        assert never - still >= done.synced - 1, "none but the busy one came again"
        assert never - still > 0
        rounds, queries_sum = rounds + 1, queries_sum + queries
    assert not Table.objects.exclude(sync_error="").exists()
    foreign = FLEET // FOREIGN_EVERY if ARCHIVES else 0
    assert Table.objects.filter(is_foreign=True).count() == foreign
    assert queries_sum <= rounds * _ROUND_QUERIES_MAX + (FLEET + 1) * _FIRST_LOOK_QUERIES_MAX


def _look_at_names(busy: LakehouseTable) -> None:
    _make_all_due()
    quiet, queries = _counted(lambda: _sync_round(0))
    assert (quiet.looked_at, quiet.synced, quiet.left) == (FLEET, 0, 0)
    assert queries <= _ROUND_QUERIES_MAX

    instant = add_row(busy, 9_000)
    _make_all_due()
    seen, queries = _counted(lambda: _sync_round(0))
    assert (seen.looked_at, seen.synced, seen.left) == (FLEET - 1, 1, 0)
    assert queries <= _ROUND_QUERIES_MAX + _FIRST_LOOK_QUERIES_MAX
    assert InstantRecord.objects.filter(requested_at=instant, state="completed").exists()


def _make_all_due() -> None:
    """Of those that were still for long on a slow machine some would be left alone for a while."""
    SyncMark.objects.update(look_at=None)


def _look_at_all_of_each() -> None:
    _sync_round(600)
    SyncMark.objects.update(sight="", look_at=None)
    whole, queries = _counted(lambda: _sync_round(600))
    assert (whole.synced, whole.left) == (FLEET, 0)
    assert queries <= _ROUND_QUERIES_MAX + FLEET * _QUIET_LOOK_QUERIES_MAX
    measured, queries = _counted(measure_round)
    assert (measured.measured, queries) == (0, 1)


def _counted(run: Callable[[], _Done]) -> tuple[_Done, int]:
    """Django's own log of queries forgets all but the newest 9,000."""
    queries = [0]

    def count(execute: Callable[..., Any], *arguments: Any) -> Any:
        queries[0] += 1
        return execute(*arguments)

    with connection.execute_wrapper(count):
        done = run()
    return done, queries[0]
