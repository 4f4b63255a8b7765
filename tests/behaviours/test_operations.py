"""Operations that take rows away, on every table type and in every mode that has them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.behaviours.setups import SETUPS, Lake, reading, sampled
from tests.support.scenario_table import READINGS
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.files.log_block import Deletes
from workers.files.log_file import read_log_file
from workers.timeline.metadata import CommitMetadata

PLACES = ("oslo", "bergen", "turku")
MANY = [reading(f"k{n:02}", n, n, place=PLACES[n % 3]) for n in range(30)]
replacing = pytest.mark.parametrize(
    "lake", [one for one in SETUPS if not one.appends_only], ids=str, indirect=True
)
partitioned = pytest.mark.parametrize(
    "lake",
    [one for one in SETUPS if not one.appends_only and one.is_partitioned],
    ids=str,
    indirect=True,
)
flat = pytest.mark.parametrize(
    "lake",
    [one for one in SETUPS if not one.appends_only and not one.is_partitioned],
    ids=str,
    indirect=True,
)

pytestmark = sampled


def keys(*rows: dict[str, object]) -> pa.Table:
    names = ["id", "place"]
    return pa.table({name: pa.array([row[name] for row in rows], pa.string()) for name in names})


def done(lake: Lake, data: pa.Table, operation: str) -> Committed:
    options = {"hoodie.write.concurrency.mode": lake.writer().options.mode.value}
    outcome = lake.table.lakehouse.write(data, operation=operation, options=options | lake.options)
    assert isinstance(outcome, Committed), outcome
    return outcome


def metadata_of(lake: Lake, outcome: Committed) -> CommitMetadata:
    return lake.table.metadata(outcome.instant)


def ids(lake: Lake) -> list[str]:
    return [str(row["id"]) for row in lake.table.rows()]


def test_deleted_keys_are_gone_and_others_stay(lake: Lake) -> None:
    lake.write(*MANY)

    outcome = done(lake, keys(*MANY[:5]), "delete")

    assert ids(lake) == [str(row["id"]) for row in MANY[5:]]
    assert outcome.rows == 5
    assert sum(stat.num_deletes for stat in metadata_of(lake, outcome).stats) == 5


def test_deleted_key_may_come_back_even_with_a_smaller_ordering_value(lake: Lake) -> None:
    lake.write(reading("a", 5, 1), reading("b", 5, 1))
    done(lake, keys(reading("a", None, None)), "delete")

    lake.write(reading("a", 2, 2))

    assert lake.values() == {"a": 2, "b": 1}
    if lake.setup.table_type == "MERGE_ON_READ":
        lake.table.excuse_referee("hudi-rs merges the logs first and loses the delete in them")


def test_deleting_what_is_not_there_writes_nothing(lake: Lake) -> None:
    lake.write(reading("a", 5, 1))
    before = lake.table.data_files()

    done(lake, keys(reading("zz", None, None, place="nowhere")), "delete")

    is_known_group = lake.setup.table_type == "MERGE_ON_READ" and not lake.setup.is_partitioned
    assert lake.values() == {"a": 1}
    assert is_known_group or lake.table.data_files() == before


def test_delete_looks_at_keys_alone(lake: Lake) -> None:
    lake.write(*MANY[:6])
    frame = lake.table.batch(MANY[:3]).append_column("unknown", pa.array([1, 2, 3]))

    done(lake, frame.drop_columns(["ts"]), "delete")

    assert ids(lake) == [str(row["id"]) for row in MANY[3:6]]
    assert lake.table.schema_columns() == READINGS.names


def test_delete_of_all_rows_leaves_an_empty_table_that_takes_rows_again(lake: Lake) -> None:
    lake.write(*MANY)

    done(lake, keys(*MANY), "delete")

    assert ids(lake) == []
    lake.table.assert_referee_agrees()
    lake.write(MANY[0])
    assert lake.table.rows() == [MANY[0]]


def test_delete_without_key_column_is_refused(lake: Lake) -> None:
    lake.write(*MANY[:2])

    with pytest.raises(InvalidInput, match="lacks key"):
        done(lake, keys(*MANY).drop_columns(["id"]), "delete")

    assert len(lake.table.timeline()) == 2


def test_merge_on_read_delete_appends_a_block_and_rewrites_nothing(lake: Lake) -> None:
    lake.write(*MANY)
    before = set(lake.table.data_files())

    outcome = done(lake, keys(MANY[0]), "delete")

    [new] = set(lake.table.data_files()) - before
    [stat] = metadata_of(lake, outcome).stats
    assert stat.path == new
    if lake.setup.table_type == "MERGE_ON_READ":
        [block] = read_log_file(lake.table.storage, new)
        assert isinstance(block, Deletes)
        assert [record.key for record in block.records] == ["k00"]


@replacing
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_insert_of_a_key_that_is_there_updates_it(lake: Lake, operation: str) -> None:
    lake.write(reading("a", 5, 1), reading("b", 5, 1))
    rows = [reading("a", 6, 2), reading("c", 1, 2), reading("c", 2, 3)]

    done(lake, lake.table.batch(rows), operation)

    assert lake.values() == {"a": 2, "b": 1, "c": 3}


@partitioned
def test_insert_overwrite_replaces_the_partitions_of_its_rows_only(lake: Lake) -> None:
    lake.write(*MANY)
    new = [reading("n1", 1, 1, place="oslo"), reading("k01", 0, 1, place="bergen")]

    outcome = done(lake, lake.table.batch(new), "insert_overwrite")

    turku = [row for row in MANY if row["place"] == "turku"]
    assert lake.table.rows() == sorted([*turku, *new], key=lambda row: str(row["id"]))
    assert set(metadata_of(lake, outcome).partition_to_replace_file_ids) == {"oslo", "bergen"}
    assert lake.table.timeline()[-1] == ("replacecommit", "completed")


@flat
def test_insert_overwrite_of_a_flat_table_replaces_it(lake: Lake) -> None:
    lake.write(*MANY)

    done(lake, lake.table.batch([reading("n1", 1, 1)]), "insert_overwrite")

    assert lake.table.rows() == [reading("n1", 1, 1)]


@replacing
def test_insert_overwrite_table_leaves_only_its_rows(lake: Lake) -> None:
    lake.write(*MANY)
    new = [reading("n1", 1, 1, place="oslo"), reading("n2", 1, 1, place="paris")]

    done(lake, lake.table.batch(new), "insert_overwrite_table")

    assert lake.table.rows() == new


@replacing
def test_insert_overwrite_table_with_no_rows_empties_it(lake: Lake) -> None:
    lake.write(*MANY)

    outcome = done(lake, lake.table.batch([]), "insert_overwrite_table")

    assert lake.table.rows() == []
    assert outcome.warnings == ("no rows replace the whole table, so it is empty afterwards",)


@flat
def test_insert_overwrite_of_a_flat_table_with_no_rows_empties_it(lake: Lake) -> None:
    lake.write(*MANY)

    outcome = done(lake, lake.table.batch([]), "insert_overwrite")

    assert lake.table.rows() == []
    assert outcome.warnings == ("no rows replace the whole table, so it is empty afterwards",)


@partitioned
def test_insert_overwrite_of_partitions_with_no_rows_replaces_nothing(lake: Lake) -> None:
    lake.write(*MANY)

    outcome = done(lake, lake.table.batch([]), "insert_overwrite")

    assert lake.table.rows() == MANY
    assert outcome.warnings == ("no rows name a partition, so nothing is replaced",)


@replacing
def test_writes_after_a_replacement_meet_in_its_file_groups(lake: Lake) -> None:
    """A replaced file group's id never comes back, and no bucket ever has two file groups."""
    lake.write(*MANY)
    done(lake, lake.table.batch([MANY[0]]), "insert_overwrite_table")
    lake.write(*MANY)
    done(lake, lake.table.batch(MANY[:4]), "insert_overwrite_table")

    lake.write(*MANY)

    assert lake.table.rows() == MANY
    slices = lake.table.lakehouse.file_groups()
    buckets = [(one.partition, one.file_id[:8]) for one in slices]
    assert len(set(buckets)) == len(buckets)


@partitioned
def test_delete_partition_by_path_and_by_value(lake: Lake) -> None:
    lake.write(*MANY)
    options = {"hoodie.write.concurrency.mode": lake.writer().options.mode.value} | lake.options

    outcome = lake.table.lakehouse.delete_partition(["oslo", {"place": "turku"}], options=options)

    assert isinstance(outcome, Committed)
    assert {row["place"] for row in lake.table.rows()} == {"bergen"}
    lake.write(MANY[0])
    assert ids(lake) == sorted(str(row["id"]) for row in [MANY[0], *MANY[1::3]])


@partitioned
@pytest.mark.parametrize("given", [[], ["rome"], ["os*"], [""], ["../x"], [{"city": "oslo"}]])
def test_delete_partition_refuses_what_is_no_partition(
    lake: Lake, given: list[str | dict[str, str]]
) -> None:
    lake.write(*MANY)

    with pytest.raises(InvalidInput):
        lake.table.lakehouse.delete_partition(given, options=lake.options)

    assert len(lake.table.timeline()) == 2


@pytest.mark.parametrize("operation", ["insert", "insert_overwrite", "insert_overwrite_table"])
@pytest.mark.parametrize(
    "lake", [one for one in SETUPS if one.appends_only], ids=str, indirect=True
)
def test_non_blocking_writers_do_not_replace(lake: Lake, operation: str) -> None:
    with pytest.raises(InvalidInput, match="only append logs"):
        done(lake, lake.table.batch(MANY), operation)

    assert len(lake.table.timeline()) == 1
