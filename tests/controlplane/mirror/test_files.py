"""File groups in the mirror: those that readers see, with their sizes, and nothing uncommitted."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from controlplane.errors import InvalidRequest
from controlplane.mirror.models import FileGroupRecord, InstantRecord, SyncMark
from controlplane.mirror.queries.file_stats import write_heat
from controlplane.mirror.queries.files import backlog, file_group, file_groups_page, partitions
from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.sync import forget_mirror, sync_table
from tests.controlplane.lake import Lake
from workers.files.partition import METADATA_NAME
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table.view import FileSystemView
from workers.table_layout import ARCHIVED_WRITES, HISTORY_FILES
from workers.table_services import registry
from workers.table_services.service import ServiceRequest


def row(number: int) -> dict[str, Any]:
    return {"id": str(number), "ts": number, "city": "Oslo"}


def rows_of_mirror() -> list[dict[str, Any]]:
    rows = FileGroupRecord.objects.order_by("partition", "file_id").values()
    return [{key: value for key, value in one.items() if key != "id"} for one in rows]


def test_the_latest_slices_are_those_that_a_reader_finds(lake: Lake) -> None:
    lake.commit(*[row(number) for number in range(20)])
    lake.commit(row(1), row(2))
    sync_table(lake.row)

    mirrored = {
        (one.partition, one.file_id, one.log_files) for one in file_groups_page(lake.row).rows
    }

    view = FileSystemView.load(lake.table)
    assert mirrored == {(one.partition, one.file_id, len(one.log_files)) for one in view.slices}
    sizes = {one.file_id: one.bytes for one in file_groups_page(lake.row).rows}
    for file_slice in view.slices:
        stored = [lake.table.storage.info(path) for path in file_slice.files]
        assert sizes[file_slice.file_id] == sum(file.size for file in stored if file)


def test_whom_archiving_waits_for_and_files_of_unknown_instants_are_mirrored(lake: Lake) -> None:
    """A writer that lives is rolled back by others; later the table loses its history."""
    lake.commit(row(1))
    taken = lake.begin(row(2)).instant
    request = RollbackRequest(taken, by="admin", reason="test", is_forced=True)
    rollback(lake.table, request, write_options({}))
    lake.commit(row(3))
    sync_table(lake.row)

    mark = SyncMark.objects.get(table=lake.row)
    assert mark.held_by["instant"] == taken
    assert mark.held_by["writer"].startswith("process ")
    assert mark.unproved == []

    for number in range(4):
        lake.commit(row(4 + number))
    keep = {"hoodie.keep.min.commits": "1", "hoodie.keep.max.commits": "1"}
    archive = ServiceRequest("admin", "test", {**keep, "sluice.archive.late.writer.hours": "0"})
    registry.get_service("archive").run(lake.table, archive, write_options({}))
    lake.table.storage.delete_tree(".hoodie/timeline/history")
    for note in (ARCHIVED_WRITES, HISTORY_FILES):
        lake.table.storage.delete(note.path)
    forget_mirror(lake.row)
    sync_table(lake.row)

    mark.refresh_from_db()
    assert mark.held_by == {}
    assert mark.unproved != []
    first = lake.table.timeline().first_time or ""
    assert all(one < first for one in mark.unproved)


def test_a_partition_without_metadata_fails_a_health_check_until_it_is_repaired(lake: Lake) -> None:
    lake.commit(row(1))
    lake.table.storage.delete(METADATA_NAME)

    def check_metadata() -> tuple[str, str, int]:
        forget_mirror(lake.row)
        sync_table(lake.row)
        checks = {one.name: one for one in health_checks(lake.row, timezone.now())}
        check = checks["partition-metadata"]
        return check.verdict, check.remedy, len(rows_of_mirror())

    assert check_metadata() == ("bad", "repair", 1)

    request = ServiceRequest("admin", "test", {})
    registry.get_service("repair").run(lake.table, request, write_options({}))

    assert check_metadata() == ("good", "", 1)


def test_files_of_a_pending_write_do_not_count(lake: Lake) -> None:
    lake.commit(row(1))
    pending = lake.begin(row(1), row(2), row(3))
    sync_table(lake.row)

    before = rows_of_mirror()
    pending.commit()
    sync_table(lake.row)

    assert all(pending.instant not in str(one) for one in before)
    assert any(one["last_instant"] == pending.instant for one in rows_of_mirror())


def test_a_mirror_that_was_synced_after_every_commit_equals_one_that_was_made_anew(
    lake: Lake,
) -> None:
    for number in range(4):
        lake.commit(row(number), row(number + 1))
        sync_table(lake.row)
    step_by_step = rows_of_mirror()

    forget_mirror(lake.row)
    assert not FileGroupRecord.objects.exists()
    sync_table(lake.row)

    assert rows_of_mirror() == step_by_step != []


def test_pages_hand_every_file_group_out_once_in_each_order(lake: Lake) -> None:
    lake.commit(*[row(number) for number in range(20)])
    lake.commit(row(1), row(2))
    sync_table(lake.row)
    everything = {one.file_id for one in file_groups_page(lake.row, limit=500).rows}

    for order in ("partition", "-bytes", "-log_files"):
        ids: list[str] = []
        cursor = None
        while True:
            page = file_groups_page(lake.row, order=order, cursor=cursor, limit=3)
            ids += [one.file_id for one in page.rows]
            if (cursor := page.next_cursor) is None:
                break
        assert len(ids) == len(set(ids))
        assert set(ids) == everything


@pytest.mark.parametrize("cursor", ["x", "bm8=", "WyJwYXJ0aXRpb24iLCAxLCAyXQ=="])
def test_what_is_no_cursor_is_refused(lake: Lake, cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        file_groups_page(lake.row, cursor=cursor)


def test_one_file_group_names_its_slices_and_who_wrote_them(lake: Lake) -> None:
    first, second = lake.commit(row(1)), lake.commit(row(1))
    sync_table(lake.row)
    known = file_groups_page(lake.row).rows[0]

    detail = file_group(lake.row, partition=known.partition, file_id=known.file_id)

    assert detail is not None
    assert detail.slices[0].instants == [first, second]
    assert file_group(lake.row, partition="elsewhere", file_id=known.file_id) is None


def test_the_backlog_counts_what_waits_for_services(lake: Lake) -> None:
    for _ in range(3):
        lake.commit(row(1))
    sync_table(lake.row)

    waiting = backlog(lake.row)

    assert (waiting.delta_commits, waiting.commits_since_clean) == (3, 3)
    assert waiting.file_groups == waiting.file_groups_with_logs > 0
    assert waiting.log_files == sum(one.log_files for one in partitions(lake.row))
    assert waiting.log_bytes > 0
    assert waiting.left_out == 0


def test_a_table_with_too_many_file_groups_says_how_many_were_left_out(
    lake: Lake, settings: Settings
) -> None:
    settings.SLUICE_MIRROR_FILE_GROUPS_MAX = 2
    lake.commit(*[row(number) for number in range(20)])
    sync_table(lake.row)

    assert FileGroupRecord.objects.count() == 2
    assert backlog(lake.row).left_out == len(FileSystemView.load(lake.table).slices) - 2


@pytest.mark.slow
def test_a_mirror_kept_through_services_equals_one_that_was_made_anew(lake: Lake) -> None:
    """Compaction, clean, savepoint, restore and archive, each synced as it happened (MR4)."""
    kept = lake.commit(row(1), row(2))
    run_service(lake, "savepoint", instant=kept)
    for number in range(3):
        lake.commit(row(1), row(number + 2))
        sync_table(lake.row)
    run_service(lake, "compaction")
    run_service(lake, "restore", instant=kept)
    run_service(lake, "delete_savepoint", instant=kept)
    for _ in range(3):
        lake.commit(row(1))
        run_service(lake, "compaction")
    run_service(lake, "clean", **{"hoodie.clean.commits.retained": "1"})
    run_service(lake, "archive", **{"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    step_by_step, instants = rows_of_mirror(), instants_of_mirror()

    forget_mirror(lake.row)
    sync_table(lake.row)

    assert rows_of_mirror() == step_by_step != []
    assert instants_of_mirror() == instants
    assert any(one["is_archived"] for one in instants)


def run_service(lake: Lake, service: str, **parameters: str) -> None:
    request = ServiceRequest(by="test", parameters=parameters)
    registry.get_service(service).run(lake.table, request, write_options({}))
    sync_table(lake.row)


def instants_of_mirror() -> list[dict[str, Any]]:
    rows = InstantRecord.objects.order_by("requested_at", "action").values()
    return [{key: value for key, value in one.items() if key != "id"} for one in rows]


def test_the_heat_of_writes_is_what_each_wrote_in_bytes(lake: Lake) -> None:
    written = [lake.commit(row(1)), lake.commit(row(1), row(2))]
    sync_table(lake.row)

    heat = write_heat(lake.row)

    sizes = dict(InstantRecord.objects.values_list("requested_at", "bytes"))
    assert heat.partitions == ("",)
    assert heat.instants == tuple(written)
    assert heat.bytes == (tuple(sizes[at] for at in written),)
    assert min(heat.bytes[0]) > 0
