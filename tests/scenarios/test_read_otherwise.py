"""Keys that Apache Hudi and hudi-rs read otherwise although nobody was overtaken: the commit says
how many, and a compaction ends it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from tests.support.overtaking import SCHEMA, deleting, keys_read_otherwise, row
from tests.support.partial_writers import marked
from tests.support.scenario_table import ScenarioTable, ScenarioTables, schema_of
from tests.support.watched_storage import WatchedStorage
from workers.concurrency.outcome import Committed
from workers.timeline.extra_metadata import READ_OTHERWISE_KEY, decode_counts

Step = int | None | str
"""A row of this age, or what is done instead."""
LONGS = schema_of(id=pa.int64(), ts=pa.int64(), city=pa.string(), note=pa.string())


def merge_on_read(tables: ScenarioTables, schema: pa.Schema = SCHEMA) -> ScenarioTable:
    one_bucket = {"hoodie.bucket.index.num.buckets": "1"}
    return tables(table_type="MERGE_ON_READ", schema=schema, ordering=["ts"], options=one_bucket)


def done(table: ScenarioTable, steps: Sequence[Step]) -> Committed:
    """To key 1, beside two keys that stay as they are; what the last write was told."""
    table.writer("first").upsert_and_commit(row(7, 5, "other"), row(8, 5, "other"))
    table.lakehouse.compact()
    last_commit: Committed | None = None
    for number, step in enumerate(steps):
        writer = table.writer(f"writer{number}")
        if step == "compact":
            table.lakehouse.compact()
        elif step == "delete":
            last_commit = deleting(writer, 1).wins()
        elif step == "delete of 7":
            last_commit = marked(writer, (row(1, 7, "gone"), True), schema=SCHEMA).wins()
        else:
            assert not isinstance(step, str), step
            last_commit = writer.upsert_and_commit(row(1, step, f"row{number}"))
    assert last_commit is not None
    return last_commit


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("steps", "keys"),
    [
        ([5, "compact", "delete", 4], 1),
        ([5, "compact", "delete", 5], 0),
        ([5, "compact", "delete", 4, 6], 0),
        ([5, "compact", "delete", 4, "delete"], 0),
        ([5, "compact", "delete", 4, 3], 1),
        ([5, "delete", 4], 0),
        ([5, "compact", "delete", None], 1),
        ([5, "compact", "delete", "delete of 7", 6], 1),
        ([5, "compact", "delete of 7", 6], 0),
        ([5, "compact", "delete", "delete of 7", 8], 0),
        ([-3, "compact", None], 1),
        ([None, "compact", -3], 1),
        ([0, None], 1),
        ([None, 0], 0),
        ([5, "compact", None], 0),
        ([None, "compact", 5], 0),
    ],
)
def test_commit_says_of_how_many_keys_other_engines_show_another_row(
    tables: ScenarioTables, steps: list[Step], keys: int
) -> None:
    table = merge_on_read(tables)

    committed = done(table, steps)

    assert committed.divergent_keys == len(keys_read_otherwise(table)) == keys
    assert len(committed.warnings) == keys
    table.lakehouse.compact()
    table.assert_referee_agrees()


def test_outcome_and_commit_tell_the_number_and_the_file_group(tables: ScenarioTables) -> None:
    table = merge_on_read(tables)

    committed = done(table, [5, "compact", "delete", 4])

    [warning] = committed.warnings
    assert warning.startswith(
        "1 key is read differently by Apache Hudi and hudi-rs in 1 file group"
    )
    extra = table.metadata(committed.instant).extra_metadata
    [(partition, file_id)] = decode_counts(extra)
    assert (partition, decode_counts(extra)[partition, file_id]) == ("", 1)
    assert table.metadata(committed.instant).stats[0].file_id == file_id
    table.lakehouse.compact()


def test_what_ended_is_told_as_nothing_once(tables: ScenarioTables) -> None:
    table = merge_on_read(tables)
    ended = done(table, [5, "compact", "delete", 4, 6])
    again = table.writer("later").upsert_and_commit(row(1, 7, "later"))

    [count] = decode_counts(table.metadata(ended.instant).extra_metadata).values()

    assert count == 0
    assert again.divergent_keys == 0
    assert again.warnings == ()


@pytest.mark.parametrize("steps", [[5, "compact", None], [None, "compact", 5], [5, None]])
def test_null_beside_a_long_counts_because_apache_hudi_cannot_read_it(
    tables: ScenarioTables, steps: list[Step]
) -> None:
    table = merge_on_read(tables, LONGS)
    table.excuse_referee("hudi-rs takes null for 0, Apache Hudi fails")

    assert done(table, steps).divergent_keys == 1


@pytest.mark.parametrize(("before", "is_read"), [(6, False), ("delete", True)])
def test_data_is_read_for_it_only_where_it_can_matter(
    tables: ScenarioTables, before: Step, is_read: bool
) -> None:
    table = merge_on_read(tables)
    done(table, [5, "compact", before])
    opened: list[str] = []
    storage = WatchedStorage(table.location, before=lambda _, path: opened.append(path))
    writer = table.writer("plain", storage=storage).upsert(row(1, 7, "plain"))
    opened.clear()

    outcome = writer.wins()

    own = {stat.path for stat in table.metadata(outcome.instant).stats}
    data = {path for path in opened if not path.startswith(".hoodie")} - own
    assert bool(data) == is_read, data
    assert READ_OTHERWISE_KEY not in table.metadata(outcome.instant).extra_metadata


@pytest.mark.parametrize(
    "steps",
    [[(9, None), (5, 7)], [(9, None), (5, 7), (12, None)], [(5, 7), (9, None)]],
    ids=["dropped", "and not said later", "in order"],
)
def test_partial_row_of_one_column_that_hudi_rs_drops_is_counted(
    tables: ScenarioTables, steps: Sequence[tuple[int, int | None]]
) -> None:
    table = tables(
        table_type="MERGE_ON_READ",
        schema=schema_of(id=pa.int64(), ts=pa.int64(), n=pa.int64()),
        ordering=["ts"],
        options={
            "hoodie.bucket.index.num.buckets": "1",
            "hoodie.datasource.write.payload.class": "PartialUpdateAvroPayload",
        },
    )
    writer = table.writer("writer")
    *_, last = [writer.upsert_and_commit({"id": 1, "ts": ts, "n": n}) for ts, n in steps]

    assert table.rows("n") == [{"n": 7}]
    assert last.divergent_keys == len(keys_read_otherwise(table))
    table.excuse_referee("it drops a row that says every column behind a newer one")
