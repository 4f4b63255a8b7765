"""What the edge cases of concurrent schemas share: schemas, writers, and cases by their number."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tests.support.scenario_table import (
    Row,
    ScenarioTable,
    ScenarioTables,
    ScenarioWriter,
    schema_of,
)
from workers.concurrency.outcome import Committed
from workers.lakehouse import open_table
from workers.schema.alter import SchemaChange
from workers.timeline.metadata import SCHEMA_KEY, SCHEMA_RESOLUTION_KEY

STRATEGY = "hoodie.write.concurrency.schema.conflict.resolution.strategy"
STRATEGIES = ["simple", "evolvability"]
TEXT, INT = pa.string(), pa.int32()
S1 = schema_of(id=pa.int64(), f1=TEXT)
S2 = schema_of(id=pa.int64(), f1=TEXT, f2=INT)
S3 = schema_of(id=pa.int64(), f1=TEXT, f3=pa.bool_())
ONE: Row = {"id": 1, "f1": "one"}
TWO: Row = {"id": 2, "f1": "two", "f2": 2}
Case = Callable[[ScenarioTables, str], None]


class Cases:
    """Tests under the numbers of requirements 2.3; each is given a strategy."""

    def __init__(self) -> None:
        self.tests: dict[str, Case] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self.tests)

    def of(self, number: str) -> Callable[[Case], Case]:
        def keep(test: Case) -> Case:
            self.tests[f"{number} {test.__name__.replace('_', ' ')}"] = test
            return test

        return keep


def writer(
    table: ScenarioTable, strategy: str, name: str = "writer", **more: Any
) -> ScenarioWriter:
    return table.writer(name, options={STRATEGY: strategy}, **more)


def alter(table: ScenarioTable, *changes: SchemaChange) -> None:
    options = {"hoodie.write.markers.type": "direct"}
    outcome = open_table(table.location, ports=table.ports()).alter(*changes, options=options)
    assert isinstance(outcome, Committed), outcome


def verdict(table: ScenarioTable, committed: Committed) -> tuple[str, list[str]]:
    """(row of the decision table, columns that the commit carries)."""
    extra = table.metadata(committed.instant).extra_metadata
    fields = json.loads(extra[SCHEMA_KEY])["fields"]
    return json.loads(extra[SCHEMA_RESOLUTION_KEY])["case"], [one["name"] for one in fields]


def next_commit(table: ScenarioTable) -> None:
    """hudi-rs takes the schema of the commit that was requested last, and needs one there."""
    table.writer("next").upsert_and_commit({"id": 9})
