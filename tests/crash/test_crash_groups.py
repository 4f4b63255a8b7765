"""Tables with column groups crashed at every storage call: a stream's write, a delete, a compaction
that has to remember it, a row that moves, and one more group declared.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
import pytest

from tests.crash.harness import COW, MOR, NBCC, Kind, State, Trial
from tests.crash.operations import SCHEMA, Operation, Options, Run
from tests.support.crash_count import CASES
from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MemoryStorage
from workers.lakehouse import LakehouseTable, create_table, write_arrow
from workers.options.write_options import write_options
from workers.table_services.registry import get_service
from workers.table_services.service import ServiceRequest
from workers.write.client import WriteRequest

pytestmark = pytest.mark.slow

CASES_LEAST = 8
GROUPS = json.dumps([{"name": "place", "ordering": ["ts"], "columns": ["city"]}])
MARK = pa.field("_hoodie_is_deleted", pa.bool_())


def rows(*listed: tuple[str, int, str | None, str], deleted: bool = False) -> pa.Table:
    named = [dict(zip(SCHEMA.names, one, strict=True)) for one in listed]
    marked = [one | {MARK.name: deleted} for one in named]
    return pa.Table.from_pylist(marked, schema=SCHEMA.append(MARK))


def made(kind: Kind, *before: Run, update: str = "reject") -> State:
    """Three rows of the one group, then what `before` does."""
    clock = StillClock()
    storage = MemoryStorage(clock)
    table = create_table(
        storage.location,
        name="crash",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["part"],
        table_type=kind.table_type,
        options={
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.multistream.groups": GROUPS,
            "hoodie.multistream.partition.update": update,
        },
        ports=still_ports(clock, prefix="setup"),
        storage=storage,
    )
    for run in (
        _write(("a", 5, "Oslo", "p"), ("b", 5, "Rome", "p"), ("c", 5, "Lima", "q")),
        *before,
    ):
        run(table, kind.options)
        clock.sleep(1)
    return State(storage.files, clock.now_ms())


def _write(*listed: tuple[str, int, str | None, str], deleted: bool = False) -> Run:
    def run(table: LakehouseTable, options: Options) -> None:
        write_arrow(table.table, rows(*listed, deleted=deleted), WriteRequest(), options)

    return run


def _compact(table: LakehouseTable, options: Options) -> None:
    request = ServiceRequest("crash", parameters={"sluice.compaction.threads": "1"})
    get_service("compaction").run(table.table, request, write_options(options))


def _add_group(table: LakehouseTable, options: Options) -> None:
    group = {"name": "price", "ordering": ["priced_at"], "columns": ["price"]}
    types: dict[str, pa.DataType] = {"priced_at": pa.int64(), "price": pa.float64()}
    table.add_group(group, types, options=options)


DELETE = _write(("b", 9, None, "p"), deleted=True)
LATE = _write(("b", 7, "late", "p"), ("a", 8, "Bergen", "p"))


@pytest.mark.parametrize("run", [DELETE, LATE], ids=["delete", "late"])
def test_a_rewritten_file_is_the_old_one_or_the_new_one(
    run: Run, run_trial: Callable[[Trial], int]
) -> None:
    start = made(COW, DELETE)

    assert run_trial(Trial(COW, Operation("write", run), start)) >= CASES_LEAST


@pytest.mark.parametrize("kind", [MOR, NBCC], ids=["mor", "nbcc"])
@pytest.mark.parametrize(
    ("before", "operation"),
    [
        ((), Operation("delete", DELETE)),
        ((DELETE,), Operation("late", LATE)),
        ((DELETE, LATE), Operation("compaction", _compact, keeps_rows=True)),
        ((DELETE, LATE, _compact), Operation("late-again", LATE, keeps_rows=True)),
    ],
    ids=["delete", "late", "compaction", "late-again"],
)
def test_logs_and_what_a_compaction_remembers_survive(
    kind: Kind,
    before: tuple[Run, ...],
    operation: Operation,
    record_property: Callable[[str, object], None],
) -> None:
    trial = Trial(kind, operation, made(kind, *before))

    trial.run()  # Not judged by hudi-rs, which refuses to merge these logs.

    record_property(CASES, list(trial.cases))
    assert len(trial.cases) >= CASES_LEAST


@pytest.mark.parametrize("kind", [COW, NBCC], ids=["cow", "nbcc"])
def test_a_row_moves_to_another_partition_whole_or_not_at_all_whatever_call_dies(
    kind: Kind, record_property: Callable[[str, object], None]
) -> None:
    move = _write(("a", 9, "Bergen", "q"), ("b", 4, "late", "q"))
    trial = Trial(kind, Operation("move", move), made(kind, update="move"))

    trial.run()

    record_property(CASES, list(trial.cases))
    assert len(trial.cases) >= CASES_LEAST


@pytest.mark.parametrize("kind", [COW, NBCC], ids=["cow", "nbcc"])
def test_a_group_is_declared_or_not_whatever_call_dies(
    kind: Kind, record_property: Callable[[str, object], None]
) -> None:
    trial = Trial(kind, Operation("add-group", _add_group, keeps_rows=True), made(kind))

    trial.run()

    record_property(CASES, list(trial.cases))
    assert len(trial.cases) >= CASES_LEAST
