"""The archive of version 6, in the form in which Hudi writes it: a record per instant and state."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from tests.support.crash_ports import StillClock
from tests.support.memory_storage import MemoryStorage
from tests.support.old_tables import archive_block
from workers.errors import MalformedTable
from workers.files.log_block import BlockType, HeaderKey, encode_block
from workers.timeline.archive_v1 import archive_bytes, list_archived_instants
from workers.timeline.avro_schemas import CLEAN_METADATA, CLEANER_PLAN, REPLACE_COMMIT_METADATA
from workers.timeline.clean_metadata import CleanPlanFile, read_clean_plan
from workers.timeline.instant import Action
from workers.timeline.metadata import read_commit_metadata

FOLDER = "archived"


def optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


ENTRY = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        optional("hoodieReplaceCommitMetadata", REPLACE_COMMIT_METADATA),
        optional("hoodieCleanMetadata", CLEAN_METADATA),
        optional("hoodieCleanerPlan", CLEANER_PLAN),
        optional("commitTime", "string"),
        optional("actionType", "string"),
        optional("actionState", "string"),
    ],
}


def at(number: int) -> str:
    return f"20240101000000{number:03d}"


def entry(number: int, action: str, state: str, **content: Any) -> dict[str, Any]:
    return {"commitTime": at(number), "actionType": action, "actionState": state, **content}


def block(*records: dict[str, Any]) -> bytes:
    return archive_block(ENTRY, *records)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(StillClock())


def put(storage: MemoryStorage, number: int, *blocks: bytes) -> None:
    storage.put(f".hoodie/{FOLDER}/.commits_.archive.{number}_1-0-1", b"".join(blocks))


REPLACED = {
    "partitionToWriteStats": {"p": [{"fileId": "f2", "path": "p/f2", "partitionPath": "p"}]},
    "partitionToReplaceFileIds": {"p": ["f1"]},
    "operationType": "INSERT_OVERWRITE",
}


def test_completed_instants_of_all_files_are_told_once_in_order(storage: MemoryStorage) -> None:
    put(storage, 10, block(entry(7, "deltacommit", "COMPLETED")))
    put(
        storage,
        9,
        block(entry(5, "commit", "REQUESTED"), entry(5, "commit", "INFLIGHT")),
        block(entry(5, "commit", "COMPLETED"), entry(6, "clean", "REQUESTED")),
        block(entry(7, "deltacommit", "COMPLETED"), entry(8, "unheard-of", "COMPLETED")),
    )

    instants = [one.instant for one in list_archived_instants(storage, FOLDER)]

    assert [(one.requested_at, one.action) for one in instants] == [
        (at(5), Action.COMMIT),
        (at(7), Action.DELTACOMMIT),
    ]
    assert [one.completed_at for one in instants] == [at(5), at(7)]


def test_bounds_are_included(storage: MemoryStorage) -> None:
    put(storage, 1, block(*(entry(number, "commit", "COMPLETED") for number in range(6))))

    chosen = list_archived_instants(storage, FOLDER, requested_from=at(2), completed_until=at(4))

    assert [one.instant.requested_at for one in chosen] == [at(2), at(3), at(4)]


def test_content_is_what_the_instants_own_files_held(storage: MemoryStorage) -> None:
    plan = CleanPlanFile("KEEP_LATEST_COMMITS", {"p": ("p/f1-0_0-0-0_20240101000000001.parquet",)})
    written = fastavro.reader(io.BytesIO(plan.encode("/lake/t")))
    put(
        storage,
        1,
        block(entry(1, "replacecommit", "COMPLETED", hoodieReplaceCommitMetadata=REPLACED)),
        block(entry(2, "clean", "REQUESTED", hoodieCleanerPlan=next(written))),
        block(entry(2, "clean", "COMPLETED")),
    )

    replaced, clean = list_archived_instants(storage, FOLDER, with_content=True)

    metadata = read_commit_metadata(replaced.metadata or b"")
    assert metadata.replaced_groups == {("p", "f1")}
    assert metadata.file_groups == {("p", "f1"), ("p", "f2")}
    clean_plan = read_clean_plan(clean.plan or b"")
    assert clean_plan is not None
    assert dict(clean_plan.paths_by_partition) == dict(plan.paths_by_partition)
    assert list_archived_instants(storage, FOLDER)[0].metadata is None


def test_archive_changes_its_mark_when_it_grows(storage: MemoryStorage) -> None:
    assert archive_bytes(storage, FOLDER) == 0
    put(storage, 1, block(entry(1, "commit", "COMPLETED")))
    before = archive_bytes(storage, FOLDER)
    put(storage, 2, block(entry(2, "commit", "COMPLETED")))

    assert archive_bytes(storage, FOLDER) > before > 0


def test_damaged_block_names_its_file(storage: MemoryStorage) -> None:
    whole = block(entry(1, "commit", "COMPLETED"))
    torn = encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: json.dumps(ENTRY)}, b"\0\0\0\3")
    put(storage, 1, whole, torn)

    with pytest.raises(MalformedTable, match=r"archive\.1"):
        list_archived_instants(storage, FOLDER)
