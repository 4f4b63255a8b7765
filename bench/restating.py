"""What it costs that other engines see a commit that was overtaken: its rows written once more by a
second instant, beside the compaction of the file groups that it touched, and beside a commit that
nobody overtook.

One merge-on-read table; a writer of `ROWS` rows, and rivals that began later, committed earlier and
wrote some of the same keys with equal ordering values. Measured is the commit alone, which is all
that differs: begin and data files are the same. Ways in turns, each from a table without logs;
medians.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.engine import JobFailed
from bench.lines import Line
from workers.clock import SystemClock
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable, create_table
from workers.options.write_options import write_options
from workers.write.client import Transaction, WriteClient, WriteRequest
from workers.write.handles import write_file_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds, WriteStatus

TABLE_ROWS: Final = 1_000_000
ROWS: Final = 10_000
OVERTAKEN: Final = (0, 100, 1_000, ROWS)
"""Of the writer's rows, how many a rival wrote too; 0 without a rival."""
_BUCKETS = 8
_ROUNDS = 7
_OPTIONS = {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
    "hoodie.write.markers.type": "direct",
}
_PAYLOAD = "a row of some length, as they are in tables that are written to all day long"


def restating(folder: Path) -> Iterator[Line]:
    """Raises JobFailed when a commit does not restate what it should."""
    table = _filled(folder / "restating")
    took: dict[int, list[float]] = {keys: [] for keys in OVERTAKEN}
    compacted: list[float] = []
    for turn in range(_ROUNDS):
        ways = [*OVERTAKEN, None]
        for keys in ways[turn % len(ways) :] + ways[: turn % len(ways)]:
            if keys is None:
                compacted.append(_commit_s(table, 0) + _compaction_s(table))
            else:
                took[keys].append(_commit_s(table, keys))
                table.compact()
    shutil.rmtree(folder / "restating", ignore_errors=True)
    plain_s, compacted_s = statistics.median(took[0]), statistics.median(compacted)
    for keys in OVERTAKEN[1:]:
        ours_s = statistics.median(took[keys])
        yield Line(
            f"commit of {ROWS:,} rows, {keys:,} of them stated again",
            f"with a compaction of {TABLE_ROWS:,} rows",
            ours_s,
            compacted_s,
            compacted_s / ours_s,
            details={"plain_s": round(plain_s, 4), "all_s": _rounded(took[keys])},
        )
    details = {"all_s": _rounded(took[0]), "compacted_s": _rounded(compacted)}
    name = f"commit of {ROWS:,} rows that nobody overtook"
    yield Line(
        name, "with a compaction", plain_s, compacted_s, compacted_s / plain_s, None, details
    )


def _rounded(seconds: list[float]) -> list[float]:
    return [round(one, 4) for one in sorted(seconds)]


def _filled(location: Path) -> LakehouseTable:
    shutil.rmtree(location, ignore_errors=True)
    rows = _rows(TABLE_ROWS)
    table = create_table(
        location,
        name="restating",
        schema=rows.schema,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": str(_BUCKETS)},
    )
    table.write(rows, options={**_OPTIONS, "hoodie.write.concurrency.mode": "SINGLE_WRITER"})
    table.compact()
    return table


def _rows(count: int, ts: int = 1) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "ts": pa.array([ts] * count, pa.int64()),
            "note": pa.array([f"{_PAYLOAD} {number}" for number in range(count)]),
        }
    )


def _commit_s(table: LakehouseTable, overtaken: int) -> float:
    transaction, statuses = _written(table, _rows(ROWS, ts=2))
    if overtaken:
        rival, its = _written(table, _rows(overtaken, ts=2))
        _committed(rival, its)
    clock = SystemClock()
    since_s = clock.monotonic_s()
    outcome = _committed(transaction, statuses)
    took_s = clock.monotonic_s() - since_s
    if outcome.republished_keys != overtaken:
        raise JobFailed(f"{outcome.republished_keys} keys were stated again instead of {overtaken}")
    return took_s


def _compaction_s(table: LakehouseTable) -> float:
    clock = SystemClock()
    since_s = clock.monotonic_s()
    table.compact()
    return clock.monotonic_s() - since_s


def _written(table: LakehouseTable, rows: pa.Table) -> tuple[Transaction, list[WriteStatus]]:
    transaction = WriteClient(table.table, write_options(_OPTIONS)).begin(
        rows.schema, WriteRequest("upsert")
    )
    prepared = prepare(transaction.context, rows)
    storage = table.table.storage
    return transaction, write_file_groups(transaction.context, prepared, TaskIds(), storage)


def _committed(transaction: Transaction, statuses: list[WriteStatus]) -> Committed:
    outcome = transaction.commit(statuses)
    if not isinstance(outcome, Committed):
        raise JobFailed(f"it was not committed: {outcome}")
    return outcome
