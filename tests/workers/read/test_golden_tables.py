"""Tables that Apache Hudi itself wrote, of versions 6, 8 and 9: every read, the timeline, the
schemas and the file groups are what hudi-rs sees.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

from bench.support.golden import ARCHIVES, MISSING, golden_archive, unpacked
from tests.support.referee import assert_referee_agrees, referee_table
from workers.errors import UnsupportedTable
from workers.lakehouse import LakehouseTable, open_table
from workers.timeline.instant import Action, CompletedInstant, State

pytestmark = pytest.mark.skipif(not ARCHIVES, reason=MISSING)
READ_OPTIMIZED = {"hoodie.read.use.read_optimized.mode": "true"}
# What the writers did, told by hand from the names of the files: it tells a reader that drops
# something from one that never saw it.
STORIES = {
    "mor-avro-v6_trips_8i3d": {"deltacommit": 2},
    "mor-avro-v8_trips_8i3u1d": {"deltacommit": 6, "indexing": 1, "commit": 1},
    "cow-v6_empty": {},
    "cow-v6_simplekeygen_nonhivestyle_overwritetable": {"commit": 2, "replacecommit": 1},
    "cow-v8_complexkeygen_hivestyle": {"commit": 2},
    "cow-v9_txns_simple_nometa": {"commit": 10, "replacecommit": 2},
    "mor-avro-v9_nonpartitioned_rollback": {"deltacommit": 2, "rollback": 1},
    "mor-avro-v9_txns_nonpart_nometa": {"deltacommit": 10, "commit": 1, "replacecommit": 1},
    "mor-avro-v9_txns_simple_meta": {
        "deltacommit": 10,
        "indexing": 2,
        "commit": 1,
        "replacecommit": 2,
    },
    "mor-parquet-v6_nonpartitioned_rollback": {"deltacommit": 2, "rollback": 1},
}


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.stem)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture
def table(location: Path) -> LakehouseTable:
    return open_table(location)


def same_rows(ours: pa.Table, theirs: pa.Table) -> None:
    names = ours.column_names
    judged = theirs.select(names) if theirs.num_columns else ours.schema.empty_table()
    assert counted(ours) == counted(judged)


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(list(row.values())) for row in rows.to_pylist())


def writes(table: LakehouseTable) -> list[CompletedInstant]:
    return table.table.timeline().list_completed_writes()


def test_snapshot_with_keys_and_partitions_is_the_referees(location: Path) -> None:
    assert_referee_agrees(location, is_ours=False)


def test_read_optimized_is_the_referees(location: Path, table: LakehouseTable) -> None:
    same_rows(table.read(query="read_optimized"), referee_table(location, READ_OPTIMIZED))


def test_time_travel_to_every_completed_write_is_the_referees(
    location: Path, table: LakehouseTable
) -> None:
    for write in writes(table):
        then = HudiReadOptions().with_as_of_timestamp(write.completed_at or "")
        same_rows(table.read(as_of=write.completed_at), referee_table(location, read_options=then))


def test_windows_from_every_completed_write_are_the_referees(
    location: Path, table: LakehouseTable
) -> None:
    incremental = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
    same_rows(table.read(since="earliest"), referee_table(location, read_options=incremental))
    for write in writes(table):
        since = incremental.with_start_timestamp(write.completed_at or "")
        same_rows(table.read(since=write.completed_at), referee_table(location, read_options=since))


def test_changes_played_back_are_the_snapshot(table: LakehouseTable) -> None:
    images: Counter[str] = Counter()
    for change in table.read(query="cdc", since="earliest").to_pylist():
        images.subtract([repr(list(change["before"].values()))] if change["before"] else [])
        images.update([repr(list(change["after"].values()))] if change["after"] else [])

    assert +images == counted(table.read())
    assert not -images


def test_every_file_of_the_timeline_belongs_to_an_instant_that_is_shown(
    location: Path, table: LakehouseTable
) -> None:
    layout = table.table.layout
    shown = {(one.requested_at, one.action): one.state for one in table.timeline()}
    names = [
        path.name
        for path in (location / layout.directory).iterdir()
        if re.match(r"\d{14,17}[._]", path.name)
    ]
    ranks = list(State)
    for name in names:
        instant = layout.parse(name)
        assert instant is not None, name
        state = shown[instant.requested_at, instant.action.completes_as]
        assert ranks.index(state) >= ranks.index(instant.state), name
    assert len(shown) == len({re.split(r"[._]", name)[0] for name in names})


@pytest.mark.parametrize("name", STORIES)
def test_timeline_tells_what_the_writers_did(name: str, tmp_path: Path) -> None:
    timeline = open_table(unpacked(golden_archive(name), tmp_path)).timeline()

    assert Counter(one.action.value for one in timeline) == STORIES[name]
    assert {one.state for one in timeline} <= {State.COMPLETED}


def test_completed_writes_and_their_schemas_are_the_referees(
    location: Path, table: LakehouseTable
) -> None:
    theirs = HudiTableBuilder.from_base_uri(str(location)).build().get_timeline()
    judged = [
        *theirs.get_completed_commits(),
        *theirs.get_completed_deltacommits(),
        *theirs.get_completed_replacecommits(),
    ]
    assert {one.requested_at for one in writes(table)} == {one.timestamp for one in judged}

    contents = {one.timestamp: theirs.get_instant_metadata_in_json(one) for one in judged}
    for write in writes(table):
        metadata = json.loads(contents[write.requested_at])
        if metadata.get("operationType") == "CLUSTER" or metadata.get("compacted"):
            continue  # A table service sets no schema.
        avro = json.loads(metadata["extraMetadata"]["schema"])
        schema = table.schema(as_of=write.completed_at)
        assert schema is not None, write
        assert schema.names == [field["name"] for field in avro["fields"]], write


def test_newest_schema_is_the_referees(location: Path, table: LakehouseTable) -> None:
    judged = pa.schema(HudiTableBuilder.from_base_uri(str(location)).build().get_schema())

    ours = table.schema()

    assert ours is not None
    assert {one.name: one.type for one in ours} == {one.name: one.type for one in judged}


def test_file_groups_are_the_referees(location: Path, table: LakehouseTable) -> None:
    judged = HudiTableBuilder.from_base_uri(str(location)).build().get_file_slices()

    assert {
        (one.partition, one.file_id, leaf(one.base_file), frozenset(map(leaf, one.log_files)))
        for one in table.file_groups()
    } == {
        (one.partition_path, one.file_id, one.base_file_name, frozenset(one.log_file_names))
        for one in judged
    }


def leaf(path: str | None) -> str:
    return (path or "").rpartition("/")[2]


def test_pending_instants_are_shown_in_their_state(tmp_path: Path) -> None:
    """Of both layouts; a pending compaction and clustering under their own names."""
    old = unpacked(golden_archive("mor-avro-v6_trips"), tmp_path)
    new = unpacked(golden_archive("mor-avro-v9_txns_nonpart"), tmp_path)
    pending = {
        (old / ".hoodie", "20990101000000000.deltacommit.requested"): Action.DELTACOMMIT,
        (old / ".hoodie", "20990101000000001.inflight"): Action.COMMIT,
        (old / ".hoodie", "20990101000000002.compaction.requested"): Action.COMPACTION,
        (new / ".hoodie/timeline", "20990101000000000.clustering.inflight"): Action.CLUSTERING,
        (new / ".hoodie/timeline", "20990101000000001.compaction.requested"): Action.COMPACTION,
    }
    for directory, file in pending:
        (directory / file).touch()

    shown = [one for path in (old, new) for one in open_table(path).timeline()]

    assert [(one.action, one.state.value) for one in shown if one.completed_at is None] == [
        (action, file.rpartition(".")[2]) for (_, file), action in pending.items()
    ]


def test_table_of_apache_hudi_is_never_written_without_knowing_its_rules(
    location: Path, table: LakehouseTable
) -> None:
    schema = table.schema() or pa.schema({"id": pa.string()})
    before = sorted(path.relative_to(location) for path in location.rglob("*"))

    with pytest.raises(UnsupportedTable):
        table.write(schema.empty_table())

    assert sorted(path.relative_to(location) for path in location.rglob("*")) == before
