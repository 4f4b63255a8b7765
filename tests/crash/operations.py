"""What a table goes through, as operations that the harness can crash at every storage call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workers.concurrency.outcome import CommitOutcome
from workers.lakehouse import LakehouseTable, write_arrow
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.timeline.instant import Action
from workers.write.client import WriteRequest

TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "city": pa.string(),
    "part": pa.string(),
}
SCHEMA = pa.schema(TYPES)
COLUMNS = SCHEMA.names
Options = Mapping[str, str]
_SORT = "hoodie.clustering.plan.strategy.sort.columns"
LOGS = ("mor", "nbcc")
BLOCKING = ("cow", "mor")
"""Whole partitions are not replaced in non-blocking mode."""
Run = Callable[[LakehouseTable, Options], CommitOutcome | None]
"""Services raise where they do not come about; writes say so."""


@dataclass(frozen=True)
class Operation:
    name: str
    run: Run
    kinds: tuple[str, ...] = ("cow", "mor", "nbcc")
    """The tables on which it means something."""
    needs: tuple[Operation, ...] = ()
    """What must have happened before, where it can, so that there is something to do."""
    takes_back: bool = False
    """Undoes what was committed: readers may see each commit go, one after the other."""
    keeps_rows: bool = False
    """A table service: whoever reads sees the same rows before, during and after."""
    cases_least: int = 8
    """A savepoint is one file, or none."""

    def runs_on(self, kind: str) -> bool:
        return kind.partition("-")[0] in self.kinds


def rows(*listed: tuple[str, int, str, str]) -> pa.Table:
    columns = zip(*listed, strict=True)
    named = dict(zip(COLUMNS, (list(column) for column in columns), strict=True))
    return pa.table(named, schema=SCHEMA)


FIRST = rows(("a", 1, "Oslo", "p"), ("b", 1, "Rome", "p"), ("c", 1, "Lima", "q"))
SECOND = rows(("a", 2, "Bergen", "p"), ("d", 2, "Paris", "r"))
WIDER = SECOND.append_column("note", pa.array(["x", "y"]))
MOVED = rows(("a", 3, "Bergen", "q"), ("c", 0, "Lima", "p"), ("f", 3, "Rome", "s"))
KEYS = rows(("a", 0, "", "p"), ("c", 0, "", "q"), ("z", 0, "", "z")).select(["id", "part"])
OVER = rows(("e", 3, "Kyiv", "p"))


def _write(batch: pa.Table, operation: Any) -> Run:
    def run(table: LakehouseTable, options: Options) -> CommitOutcome:
        return write_arrow(table.table, batch, WriteRequest(operation), options)

    return run


def _delete(table: LakehouseTable, options: Options) -> CommitOutcome:
    return table.delete(KEYS, options=options)


def _delete_partition(table: LakehouseTable, options: Options) -> CommitOutcome:
    return table.delete_partition(["p"], options=options)


def _serve(name: str, **parameters: str) -> Run:
    def run(table: LakehouseTable, options: Options) -> None:
        given = ALONE.get(name, {}) | parameters
        request = ServiceRequest(by="harness", reason="test", parameters=given)
        get_service(name).run(table.table, request, write_options(options))

    return run


def _roll_back_newest(table: LakehouseTable, options: Options) -> None:
    target = table.table.timeline().list_completed_writes()[-1].requested_at
    rollback(
        table.table, RollbackRequest(target, by="admin", reason="test"), write_options(options)
    )


def _save(table: LakehouseTable, options: Options) -> None:
    newest = table.table.timeline().list_completed_writes()[-1].requested_at
    if newest not in _saved(table):
        _serve("savepoint", instant=newest)(table, options)


def _delete_savepoint(table: LakehouseTable, options: Options) -> None:
    for instant in _saved(table):
        _serve("delete_savepoint", instant=instant)(table, options)


def _saved(table: LakehouseTable) -> list[str]:
    return [
        one.requested_at
        for one in table.timeline()
        if one.action is Action.SAVEPOINT and one.is_completed
    ]


def _restore(table: LakehouseTable, options: Options) -> None:
    """Back to before the newest write."""
    goal = table.table.timeline().list_completed_writes()[-2].requested_at
    _serve("restore", instant=goal)(table, options)


# One thread: a crash in another one would not be a crash of this one.
ALONE = {
    "compaction": {"sluice.compaction.threads": "1"},
    "clustering": {"sluice.clustering.threads": "1"},
}
"""Parameters that make a service run in the harness, by its name."""

UPSERT = Operation("upsert", _write(SECOND, "upsert"))
COMPACT = Operation("compact", _serve("compaction"), kinds=LOGS, needs=(UPSERT,), keeps_rows=True)
PLAN_COMPACTION = Operation(
    "plan-compaction",
    _serve("compaction", schedule_only="true"),
    kinds=LOGS,
    needs=(UPSERT,),
    keeps_rows=True,
)
CLUSTER = Operation("cluster", _serve("clustering", **{_SORT: "city"}), keeps_rows=True)
PLAN_CLUSTERING = Operation(
    "plan-clustering",
    _serve("clustering", schedule_only="true", **{_SORT: "city"}),
    keeps_rows=True,
)
CLEAN = Operation(
    "clean",
    _serve("clean", **{"hoodie.clean.commits.retained": "1"}),
    needs=(UPSERT, COMPACT, UPSERT, COMPACT),
    keeps_rows=True,
)
SAVEPOINT = Operation("savepoint", _save, needs=(UPSERT,), keeps_rows=True, cases_least=3)
DELETE_SAVEPOINT = Operation(
    "delete-savepoint",
    _delete_savepoint,
    needs=(SAVEPOINT,),
    keeps_rows=True,
    cases_least=3,
)
ARCHIVE = Operation(
    "archive",
    _serve("archive", **{"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "2"}),
    needs=(UPSERT, UPSERT, COMPACT, CLEAN),
    keeps_rows=True,
)
DELETE = Operation("delete", _delete)
OVERWRITE = Operation("overwrite", _write(OVER, "insert_overwrite"), kinds=BLOCKING)
MOVE = Operation("move", _write(MOVED, "upsert"), needs=(UPSERT,))
"""Under a global index."""
UPSERT_THREE = Operation("upsert-three", _write(MOVED, "upsert"), needs=(UPSERT,))
COMPACT_BESIDE = Operation(
    "compact-beside",
    _serve("compaction", **{"sluice.compaction.threads": "3"}),
    kinds=LOGS,
    needs=(UPSERT, UPSERT_THREE),
    keeps_rows=True,
)
CLUSTER_BESIDE = Operation(
    "cluster-beside",
    _serve("clustering", **{_SORT: "city", "sluice.clustering.threads": "3"}),
    keeps_rows=True,
)
"""These and what a writer of several threads does have several file groups under way."""
OPERATIONS = [
    UPSERT,
    Operation("evolve", _write(WIDER, "upsert")),
    DELETE,
    OVERWRITE,
    Operation("overwrite-table", _write(OVER, "insert_overwrite_table"), kinds=BLOCKING),
    Operation("delete-partition", _delete_partition, kinds=BLOCKING),
    COMPACT,
    PLAN_COMPACTION,
    CLUSTER,
    PLAN_CLUSTERING,
    CLEAN,
    ARCHIVE,
    SAVEPOINT,
    DELETE_SAVEPOINT,
    Operation("restore", _restore, needs=(UPSERT,), takes_back=True),
    Operation("rollback", _roll_back_newest, needs=(UPSERT,), takes_back=True),
]
