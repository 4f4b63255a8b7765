"""Whatever stands in the logs, a reader sees the same rows before and after (bug H1, case H2)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.crash_ports import StillClock, still_ports
from tests.support.memory_storage import MemoryStorage
from tests.support.sampling import examples
from workers.lakehouse import LakehouseTable, create_table

TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "ts": pa.int64(),
    "value": pa.int64(),
    "note": pa.string(),
}
SCHEMA = pa.schema(TYPES)
DIRECT = {"hoodie.write.markers.type": "direct"}
NON_BLOCKING = DIRECT | {
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
EXAMPLES = examples(60)

rows = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.integers(0, 4),
        st.one_of(st.none(), st.integers(0, 99)),
        st.one_of(st.none(), st.sampled_from("xyz")),
    ),
    min_size=1,
    max_size=6,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), rows),
        st.tuples(st.just("append"), rows),
        st.tuples(st.just("delete"), st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3)),
        st.tuples(st.just("schedule"), st.none()),
    ),
    min_size=1,
    max_size=7,
)


def _made(*, is_partial: bool, clock: StillClock) -> LakehouseTable:
    storage = MemoryStorage(clock)
    options = {"hoodie.bucket.index.num.buckets": "2"}
    if is_partial:
        options["hoodie.table.partial.update.mode"] = "IGNORE_DEFAULTS"
    return create_table(
        storage.location,
        name="t",
        schema=SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options=options,
        ports=still_ports(clock, prefix="t"),
        storage=storage,
    )


def _seen(table: LakehouseTable) -> list[str]:
    rows: pa.Table = table.read()
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(steps=steps, is_partial=st.booleans())
def test_rows_are_the_same_before_and_after(
    steps: list[tuple[str, list[object]]], is_partial: bool
) -> None:
    clock = StillClock()
    table = _made(is_partial=is_partial, clock=clock)

    for what, given_rows in steps:
        clock.sleep(0.01)
        if what == "schedule":
            table.compact(schedule=True, options=DIRECT)
        elif what == "delete":
            table.delete(pa.table({"id": given_rows}), options=DIRECT)
        else:
            columns = [list(column) for column in zip(*given_rows, strict=True)]
            if is_partial:
                # A base row has one age, so columns of different ages cannot keep theirs through a
                # compaction (docs/architecture.md); column groups can (docs/streams.md).
                columns[1] = [1] * len(columns[1])
            batch = pa.table(columns, schema=SCHEMA)
            table.write(batch, options=NON_BLOCKING if what == "append" else DIRECT)
    before = _seen(table)

    while True:
        outcome = table.compact(options=DIRECT)
        assert _seen(table) == before
        if outcome.instant is None:
            break

    assert all(not one.log_files for one in table.file_groups())
