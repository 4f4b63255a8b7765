"""Which files a reader sees: slices by completion time, nothing of pending or rolled-back writers.

Files are planted by name, because names are all that the view looks at.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.scenario_table import READINGS
from workers.files.names import BaseFileName, LogFileName, bucket_file_id
from workers.files.partition import ensure_partition
from workers.lakehouse import create_table
from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.table.view import FileSystemView
from workers.timeline.metadata import CommitMetadata

GROUP = bucket_file_id(0)
OTHER = bucket_file_id(1)


def at(number: int) -> str:
    return f"202401010000000{number:02d}"


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = create_table(
        tmp_path / "table",
        name="t",
        schema=None,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    ).table
    ensure_partition(made.storage, "", at(1))
    return made


def completed(
    table: Table,
    requested: int,
    completion: int,
    action: str = "deltacommit",
    content: bytes = b"x",
) -> None:
    table.storage.put(f".hoodie/timeline/{at(requested)}_{at(completion)}.{action}", content)


def pending(table: Table, requested: int) -> None:
    table.storage.put(f".hoodie/timeline/{at(requested)}.deltacommit.inflight", b"")


def base(table: Table, instant: int, group: str = GROUP) -> str:
    name = BaseFileName(group, "0-0-0", at(instant)).text
    table.storage.put(name, b"x")
    return name


def log(table: Table, instant: int, version: int = 1, group: str = GROUP) -> str:
    name = LogFileName(group, at(instant), version, "0-0-0").text
    table.storage.put(name, b"x")
    return name


def slices(table: Table, as_of: int | None = None) -> tuple[FileSlice, ...]:
    return FileSystemView.load(table, as_of=at(as_of) if as_of else None).slices


def test_newest_base_with_the_logs_that_completed_after_it(table: Table) -> None:
    completed(table, 1, 2)
    completed(table, 3, 4)
    base(table, 1)
    newest = base(table, 3)
    completed(table, 5, 6)
    after = log(table, 5)

    [file_slice] = slices(table)

    assert (file_slice.base_file, file_slice.log_files) == (newest, (after,))
    assert file_slice.base_instant == at(3)


def test_log_that_completed_after_the_compaction_began_belongs_to_the_new_slice(
    table: Table,
) -> None:
    """Logs [1,3] and [2,5], compaction at 4: the second is not in it (case H2)."""
    completed(table, 1, 3)
    completed(table, 2, 5)
    completed(table, 4, 6, "commit")
    log(table, 1)
    second = log(table, 2)
    compacted = base(table, 4)

    [file_slice] = slices(table)

    assert (file_slice.base_file, file_slice.log_files) == (compacted, (second,))


def test_logs_merge_in_the_order_in_which_they_became_visible(table: Table) -> None:
    completed(table, 1, 9)
    completed(table, 2, 8)
    completed(table, 3, 4)
    late, middle, early = log(table, 1), log(table, 2), log(table, 3)

    [file_slice] = slices(table)

    assert file_slice.log_files == (early, middle, late)


def test_versions_of_one_commit_stand_in_their_order(table: Table) -> None:
    completed(table, 1, 2)
    names = [log(table, 1, version) for version in (2, 10, 1)]

    [file_slice] = slices(table)

    assert file_slice.log_files == (names[2], names[0], names[1])


def test_files_of_pending_and_unknown_writers_are_not_seen(table: Table) -> None:
    """MS7: in no slice, whatever compacted meanwhile."""
    completed(table, 1, 2)
    seen = base(table, 1)
    pending(table, 3)
    log(table, 3)
    base(table, 3)
    log(table, 4)  # Rolled back: nothing on the timeline.
    completed(table, 5, 6)

    [file_slice] = slices(table)

    assert file_slice.files == (seen,)


def test_files_older_than_the_timeline_were_committed_long_ago(table: Table) -> None:
    archived = base(table, 1)
    completed(table, 5, 6)

    [file_slice] = slices(table)

    assert file_slice.base_file == archived


def test_group_of_pending_files_only_is_no_group(table: Table) -> None:
    pending(table, 3)
    log(table, 3)

    assert slices(table) == ()


def test_replaced_file_groups_are_gone_for_readers_after_that(table: Table) -> None:
    completed(table, 1, 2)
    base(table, 1)
    kept = base(table, 1, OTHER)
    metadata = CommitMetadata(partition_to_replace_file_ids={"": [GROUP]})
    completed(table, 3, 4, "replacecommit", _replacing(metadata))

    assert [one.base_file for one in slices(table)] == [kept]
    assert len(slices(table, as_of=2)) == 2


def _replacing(metadata: CommitMetadata) -> bytes:
    """As JSON, which every reader of ours takes: writing replacements is a later matter."""

    return json.dumps(
        {"partitionToReplaceFileIds": metadata.partition_to_replace_file_ids}
    ).encode()


def test_as_of_selects_by_completion(table: Table) -> None:
    completed(table, 1, 6)
    completed(table, 3, 4)
    late, early = log(table, 1), log(table, 3)

    assert [one.log_files for one in slices(table, as_of=5)] == [(early,)]
    assert [one.log_files for one in slices(table, as_of=6)] == [(early, late)]


@pytest.mark.parametrize(
    "name",
    [
        "part-00000.parquet",
        f"{GROUP}_0-0-0.parquet",
        f".{GROUP}_{at(1)}.log.1_0-0-0.cdc",
        f"{GROUP}_0-0-0_{at(1)}.parquet.crc",
        "README",
    ],
)
def test_strange_files_are_not_seen(table: Table, name: str) -> None:
    completed(table, 1, 2)
    table.storage.put(name, b"x")

    assert slices(table) == ()


def test_directory_without_partition_metadata_is_no_partition(tmp_path: Path) -> None:
    made = create_table(
        tmp_path / "table", name="t", schema=READINGS, record_key=["id"], partition_by=["place"]
    ).table
    instant = next(made.timeline().iterate_completed()).requested_at
    name = BaseFileName(GROUP, "0-0-0", instant).text
    made.storage.put(f"oslo/{name}", b"x")

    assert slices(made) == ()
    ensure_partition(made.storage, "oslo", instant)
    assert [one.partition for one in slices(made)] == ["oslo"]
