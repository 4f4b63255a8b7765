"""Instants that moved into the history stay in the mirror, marked, and come back with it."""

from __future__ import annotations

from typing import Any

from controlplane.mirror.models import InstantRecord, SchemaRecord
from controlplane.mirror.queries.files import backlog
from controlplane.mirror.sync import forget_mirror, sync_table
from tests.controlplane.lake import Lake
from workers.timeline.archive import ArchivedInstant
from workers.timeline.archive_writer import append

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}


def publish(lake: Lake, count: int) -> list[ArchivedInstant]:
    """The oldest `count` instants, in the history and still active."""
    storage, layout = lake.table.storage, lake.table.layout
    oldest = list(lake.table.timeline().completed())[:count]
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
    assert [one | {"is_archived": False} for one in after] == [
        before[one["requested_at"]] for one in after
    ]
    assert backlog(lake.row).archived_instants == 3


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
