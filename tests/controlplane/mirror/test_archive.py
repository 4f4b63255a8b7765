"""Instants that moved into the history stay in the mirror, marked, and come back with it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from django.utils import timezone

from controlplane.mirror import archive_facts
from controlplane.mirror.bulk import names_csv
from controlplane.mirror.health_check import Check
from controlplane.mirror.models import InstantRecord, SchemaRecord, SyncMark
from controlplane.mirror.queries.files import backlog
from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.sync import forget_mirror, sync_table
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_names import NAMES
from workers.timeline.archive_writer import append
from workers.timeline.history_files import list_history

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}


def publish(lake: Lake, count: int) -> list[ArchivedInstant]:
    """The oldest `count` instants, in the history and still active."""
    storage, layout = lake.table.storage, lake.table.layout
    oldest = list(lake.table.timeline().iterate_completed())[:count]
    archived = [ArchivedInstant(one, storage.read(layout.path(one))) for one in oldest]
    append(storage, archived, lambda: None)
    return archived


def leave(lake: Lake, archived: list[ArchivedInstant]) -> None:
    storage = lake.table.storage
    times = {one.instant.requested_at for one in archived}
    for file in storage.list_files(lake.table.layout.directory):
        if file.name[:17] in times:
            storage.delete(file.path)


def rows(lake: Lake) -> list[dict[str, Any]]:
    records = (
        InstantRecord.objects.filter(table=lake.row).order_by("requested_at", "action").values()
    )
    return [{key: value for key, value in one.items() if key != "id"} for one in records]


def test_an_archived_instant_keeps_its_row_and_is_marked(lake: Lake) -> None:
    for _ in range(4):
        lake.commit(OSLO)
    sync_table(lake.row)
    before = {one["requested_at"]: one for one in rows(lake)}

    leave(lake, publish(lake, 3))
    sync_table(lake.row)

    after = rows(lake)
    assert [one["is_archived"] for one in after] == [True, True, True, False, False]
    assert [bool(one["file_times"]) for one in after] == [False, False, False, True, True]
    assert [one | {"is_archived": False, "file_times": None} for one in after] == [
        before[one["requested_at"]] | {"file_times": None} for one in after
    ]
    assert backlog(lake.row).archived_instants == 3


def test_lost_file_of_the_history_fails_a_health_check_by_its_name(lake: Lake) -> None:
    for _ in range(4):
        lake.commit(OSLO)
    archived = publish(lake, 3)
    leave(lake, archived)
    sync_table(lake.row)
    before = rows(lake)
    [file] = list_history(lake.table.storage).files
    content = lake.table.storage.read(file.path)

    lake.table.storage.delete(file.path)

    check = check_history(lake)
    assert (check.verdict, "Restore the files into" in check.advice) == ("warn", True)
    times = (archived[0].instant.requested_at, archived[-1].instant.requested_at)
    assert check.sentence == (
        f"1 file missing: {file.name}, with instants requested from {times[0]} to {times[1]}"
    )

    lake.table.storage.put(file.path, content)

    assert check_history(lake).verdict == "good"
    assert rows(lake) == before


def check_history(lake: Lake) -> Check:
    sync_table(lake.row)
    [check] = [one for one in health_checks(lake.row, timezone.now()) if one.name == "history"]
    return check


def test_what_is_published_and_not_gone_yet_counts_as_active_until_it_goes(lake: Lake) -> None:
    for _ in range(3):
        lake.commit(OSLO)
    archived = publish(lake, 2)
    sync_table(lake.row)
    assert not InstantRecord.objects.filter(is_archived=True).exists()

    leave(lake, archived)
    sync_table(lake.row)

    assert InstantRecord.objects.filter(is_archived=True).count() == 2
    assert InstantRecord.objects.count() == 4


def test_a_mirror_made_anew_from_the_history_is_the_same(lake: Lake) -> None:
    for _ in range(4):
        lake.commit(OSLO)
    sync_table(lake.row)
    leave(lake, publish(lake, 3))
    sync_table(lake.row)
    kept, schemas = rows(lake), list(SchemaRecord.objects.values("instant", "fingerprint"))

    forget_mirror(lake.row)
    sync_table(lake.row)

    assert rows(lake) == kept
    assert list(SchemaRecord.objects.values("instant", "fingerprint")) == schemas != []


@pytest.mark.slow
def test_names_of_a_long_history_come_first_and_what_they_hold_later_newest_first(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(OSLO)
    lake.commit({**OSLO, "zip": "5003"})
    for _ in range(12):
        lake.commit(OSLO)
    leave(lake, publish(lake, 13))
    sync_table(lake.row)
    whole, schemas = rows(lake), list(SchemaRecord.objects.values("instant", "fingerprint"))
    forget_mirror(lake.row)
    monkeypatch.setattr(archive_facts, "CONTENTS_PER_PASS_MAX", 5)

    sync_table(lake.row)

    by_name = rows(lake)
    names = ("requested_at", "action", "state", "completed_at", "is_archived")
    assert [[row[name] for name in names] for row in by_name] == [
        [row[name] for name in names] for row in whole
    ]
    assert [row["has_content"] for row in by_name] == [False] * 8 + [True] * 7
    assert {row["operation_type"] for row in by_name[:8]} == {""}
    assert SyncMark.objects.get().names_only == 8

    for left in (3, 0):
        assert sync_table(lake.row) == frozenset({"instants"})
        assert SyncMark.objects.get().names_only == left
    assert rows(lake) == whole
    assert list(SchemaRecord.objects.values("instant", "fingerprint")) == schemas
    assert sync_table(lake.row) == frozenset()


def test_history_that_was_taken_away_leaves_the_mirror(lake: Lake) -> None:
    for _ in range(4):
        lake.commit(OSLO)
    leave(lake, publish(lake, 3))
    sync_table(lake.row)
    for file in lake.table.storage.list_files(".hoodie/timeline/history"):
        lake.table.storage.delete(file.path)

    sync_table(lake.row)

    assert not InstantRecord.objects.filter(is_archived=True).exists()
    assert InstantRecord.objects.exists()


def test_names_of_several_history_files_are_copied_as_they_are() -> None:
    """They come as they were read where nothing is active: no filter has gone over them."""
    times = [(f"2026010100000{part}000", f"2026010100000{part}500") for part in range(3)]
    parts = [
        pa.table([[requested_at], ["commit"], [completed_at]], NAMES.names)
        for requested_at, completed_at in times
    ]
    names = pa.concat_tables([NAMES.empty_table(), *parts])

    rows = bytes(names_csv(Table(pk=7), names)).split(b"\n")

    assert [row.decode("latin-1").split(",")[:5] for row in rows[:-1]] == [
        ["7", f'"{requested_at}"', '"commit"', '"completed"', f'"{completed_at}"']
        for requested_at, completed_at in times
    ]
