"""How records of `files` merge: Hudi's rules, case by case (metadata page 4)."""

from __future__ import annotations

import pytest

from tests.support.metadata_tables import SCHEMA_JSON, files_record
from workers.errors import MalformedTable, UnsupportedTable
from workers.metadata_table.files_partition import FilesRecord, ListedFile, RecordType

ADDED, LARGER, GONE = ListedFile(5), ListedFile(9), ListedFile(0, is_deleted=True)


def record(file: ListedFile | None) -> FilesRecord:
    return FilesRecord(RecordType.FILES, {} if file is None else {"a": file})


@pytest.mark.parametrize(
    ("older", "newer", "merged"),
    [
        (None, ADDED, ADDED),
        (None, GONE, GONE),
        (ADDED, None, ADDED),
        (ADDED, GONE, None),
        (GONE, ADDED, ADDED),
        (GONE, GONE, GONE),
        (ADDED, LARGER, LARGER),
        (LARGER, ADDED, LARGER),
    ],
)
def test_newer_record_over_an_older(
    older: ListedFile | None, newer: ListedFile | None, merged: ListedFile | None
) -> None:
    assert record(older).merge(record(newer)) == record(merged)


def test_deleted_files_have_no_size() -> None:
    listed = {"a": ADDED, "b": GONE}
    assert FilesRecord(RecordType.FILES, listed).get_sizes() == {"a": 5}


def test_value_is_decoded_by_its_schema() -> None:
    value = files_record(2, {"a": (5, False), "b": (0, True)})
    expected = FilesRecord(RecordType.FILES, {"a": ADDED, "b": GONE})
    assert FilesRecord.decode(value, SCHEMA_JSON) == expected


def test_records_of_other_partitions_and_broken_ones_are_refused() -> None:
    with pytest.raises(UnsupportedTable, match="lists no files: type=3"):
        FilesRecord.decode(files_record(3, {}), SCHEMA_JSON)
    with pytest.raises(MalformedTable, match="not readable"):
        FilesRecord.decode(files_record(2, {"a": (5, False)})[:-3], SCHEMA_JSON)
