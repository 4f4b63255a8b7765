"""Table services of a sink: its coordinator makes the plans, and the driver carries them out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.workers.sink.sinks import Facts, all_below, config_of, coordinates, coordinator, ingest
from workers.lakehouse import open_table
from workers.sink.runtime.service_plans import plan_services, run_pending_plans
from workers.table.table import Table

PLANNED = {
    "compaction": {"hoodie.compact.inline.max.delta.commits": "2"},
    "clustering": {
        "hoodie.clustering.inline.max.commits": "2",
        "hoodie.clustering.plan.strategy.sort.columns": "city",
    },
}


@pytest.mark.parametrize(
    ("service", "has_later_commit", "done"),
    [("compaction", True, 1), ("clustering", False, 1), ("clustering", True, 0)],
)
def test_services_that_the_coordinator_plans_are_carried_out_and_keep_every_offset(
    table: Table, facts: Facts, service: str, has_later_commit: bool, done: int
) -> None:
    """A commit that comes between a clustering's plan and its end wins: the plan is rolled back."""
    config = replace(
        config_of(),
        schedules_compaction=service == "compaction",
        schedules_clustering=service == "clustering",
    )
    ledger = coordinator(table, config)
    for _ in range(2):
        ingest(ledger, table, facts)
        facts.produce(0, 4)
        facts.produce(1, 4)
    if not has_later_commit:
        ingest(ledger, table, facts)

    plan_services(table, config, PLANNED[service])
    if has_later_commit:
        ingest(ledger, table, facts)
    planned = [instant.action.value for instant in table.timeline().pending()]
    carried_out = run_pending_plans(open_table(table.storage.location).table, config, {})

    assert planned == [service]
    assert carried_out == done
    assert coordinates(table) == all_below(facts)
    assert list(table.timeline().pending()) == []
    groups = open_table(table.storage.location).file_groups()
    assert any(group.base_file for group in groups) == bool(done)
