"""Rows that somebody changed in the database are noticed although storage is still, and read anew
from it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from controlplane.mirror import repairing, sync
from controlplane.mirror.comparing import compare_due
from controlplane.mirror.models import (
    FileGroupRecord,
    HeartbeatRecord,
    InstantRecord,
    LockRecord,
    MarkerCount,
    MarkerDirectory,
    SchemaRecord,
    SyncMark,
    UndoneRecord,
)
from controlplane.mirror.rounds import sync_round
from controlplane.mirror.row_sums import KINDS
from controlplane.mirror.sync import look, read_anew, sync_table
from controlplane.mirror.turns import given_back, take_turn
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.controlplane.lake import OPTIMISTIC, Lake
from tests.controlplane.mirror.test_archive import leave, publish
from tests.support.watched_storage import WatchedStorage
from workers.options.write_options import write_options
from workers.ports import system_ports
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table.table import open_

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}
_HIDDEN = {"id", "last_seen", "sampled_at", "changed_at"}
_MODELS: tuple[Any, ...] = (
    *(InstantRecord, UndoneRecord, SchemaRecord, FileGroupRecord, HeartbeatRecord),
    *(MarkerCount, MarkerDirectory, LockRecord, Conflict),
)


@pytest.fixture
def still(lake: Lake) -> Lake:
    """A row of every kind, and storage that does not change any more."""
    for _ in range(3):
        lake.commit(OSLO)
    loser = lake.begin(OSLO, writer="backfill", mode=OPTIMISTIC)
    lake.begin(BERGEN, writer="ingest", mode=OPTIMISTIC).commit()
    loser.commit()
    wrong = lake.commit(OSLO)
    rollback(lake.table, RollbackRequest(wrong, by="ada", reason="wrong"), write_options({}))
    leave(lake, publish(lake, 2))
    lake.begin(OSLO, writer="still-here", heartbeat_ms=3_600_000)
    sync_table(lake.row)
    lake.row.refresh_from_db()
    assert all(model.objects.exists() for model in _MODELS)
    return lake


def rows() -> dict[str, list[dict[str, Any]]]:
    mirrored = {
        model.__name__: sorted(
            ({k: v for k, v in row.items() if k not in _HIDDEN} for row in model.objects.values()),
            key=str,
        )
        for model in _MODELS
    }
    tables = Table.objects.values("record_key", "table_type", "groups")
    return {**mirrored, "Table": [dict(row) for row in tables]}


def compare_now() -> int:
    SyncMark.objects.update(compare_at=timezone.now())
    return compare_due(timezone.now())


CORRUPTIONS: dict[str, Callable[[], object]] = {
    "rows deleted": lambda: InstantRecord.objects.filter(is_archived=False).delete(),
    "a count changed": lambda: InstantRecord.objects.filter(action="deltacommit").update(rows=77),
    "metadata changed": lambda: InstantRecord.objects.update(metadata={"inserts": 1}),
    "a row added": lambda: InstantRecord.objects.create(
        table=Table.objects.get(), requested_at="20200101000000000", action="commit"
    ),
    "history deleted": lambda: InstantRecord.objects.filter(is_archived=True).delete(),
    "history changed": lambda: InstantRecord.objects.filter(is_archived=True).update(files=9),
    "undone deleted": lambda: UndoneRecord.objects.all().delete(),
    "schemas deleted": lambda: SchemaRecord.objects.all().delete(),
    "a schema changed": lambda: SchemaRecord.objects.update(columns=9),
    "file groups changed": lambda: FileGroupRecord.objects.update(bytes=1),
    "a writer added": lambda: HeartbeatRecord.objects.update(host="elsewhere"),
    "markers changed": lambda: MarkerCount.objects.update(count=1_000),
    "claims deleted": lambda: MarkerDirectory.objects.all().delete(),
    "lock changed": lambda: LockRecord.objects.update(owner="nobody", is_held=True),
    "conflicts deleted": lambda: Conflict.objects.all().delete(),
    "a conflict changed": lambda: Conflict.objects.update(winner_writer="nobody"),
    "description changed": lambda: Table.objects.update(record_key="wrong", groups=[1]),
}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("corrupt", CORRUPTIONS.values(), ids=CORRUPTIONS.keys())
def test_rows_that_were_changed_by_hand_are_read_anew(
    still: Lake, corrupt: Callable[[], object]
) -> None:
    before = rows()
    corrupt()
    assert rows() != before
    assert sync_table(still.row) == frozenset(), "storage tells nothing of it"

    assert compare_now() == 1

    assert rows() == before
    assert SyncMark.objects.get().repaired_at is not None
    assert compare_now() == 0


def test_rows_as_they_were_written_stay_through_everything_that_happens(lake: Lake) -> None:
    """Each sync notes its own sums rightly, whatever it wrote."""
    for step in range(6):
        lake.commit({**OSLO, "ts": step}, **({"writer": "w"} if step % 2 else {}))
        if step == 3:
            leave(lake, publish(lake, 2))
        if step == 4:
            lake.begin(BERGEN, writer="slow", mode=OPTIMISTIC)
        sync_table(lake.row)
        assert compare_now() == 0, step
    assert SyncMark.objects.get().repaired_at is None


def test_round_compares_what_is_due_and_shows_the_right_rows_within_seconds(still: Lake) -> None:
    before = rows()
    InstantRecord.objects.all().delete()
    due_at = SyncMark.objects.get().compare_at
    assert due_at is not None
    assert due_at - timezone.now() < timedelta(seconds=5)
    SyncMark.objects.update(compare_at=timezone.now())

    assert sync_round().repaired == 1

    assert rows() == before


def test_large_tables_are_compared_less_often(still: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairing, "ROWS_PER_SECOND", 0.01)

    assert compare_now() == 0

    due_at = SyncMark.objects.get().compare_at
    assert due_at is not None
    assert due_at - timezone.now() > timedelta(minutes=10)


def test_what_a_sync_writes_meanwhile_is_no_corruption(still: Lake) -> None:
    SyncMark.objects.update(sums={"instants": "0:0"}, compare_at=timezone.now())
    turn = take_turn(still.row)
    assert turn is not None
    with given_back(turn):
        assert compare_due(timezone.now()) == 0


def test_mirror_that_an_older_program_made_is_read_anew_whole(still: Lake) -> None:
    before = rows()
    InstantRecord.objects.filter(action="deltacommit").update(rows=77)
    SyncMark.objects.update(made_by="7", sums={})

    sync_table(still.row)

    assert rows() == before


def test_table_that_cannot_be_read_keeps_its_rows_until_it_can(still: Lake) -> None:
    before = rows()
    still.table.storage.put(".hoodie/hoodie.properties", b"nothing")
    still.table.storage.delete(".hoodie/hoodie.properties.backup")
    InstantRecord.objects.filter(is_archived=True).update(files=9)

    assert compare_now() == 0

    assert len(rows()["InstantRecord"]) == len(before["InstantRecord"])


def test_command_rebuilds_one_table(still: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    before = rows()
    SyncMark.objects.update(sums={})
    InstantRecord.objects.all().delete()

    call_command("mirror", "rebuild", still.row.slug)

    assert rows() == before
    count = len(before["InstantRecord"])
    assert capsys.readouterr().out == f"{still.row.slug}: rebuilt, {count} instants\n"


def test_command_compares_all_tables(still: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    InstantRecord.objects.all().delete()

    call_command("mirror", "compare")

    assert capsys.readouterr().out == "1 tables repaired\n"


def test_command_says_what_it_cannot_do(still: Lake) -> None:
    with pytest.raises(CommandError, match="table not found: nowhere"):
        call_command("mirror", "rebuild", "nowhere")
    still.table.storage.delete(".hoodie/hoodie.properties")
    with pytest.raises(CommandError, match=r"no table here.*its rows are unchanged"):
        call_command("mirror", "rebuild", still.row.slug)
    assert InstantRecord.objects.exists()


def test_nothing_is_forgotten_by_who_lost_the_turn(still: Lake) -> None:
    before = rows()
    turn = take_turn(still.row)
    assert turn is not None
    SyncMark.objects.update(running_until=None)

    assert not read_anew(turn, ["instants"]).is_applied
    assert not look(turn).changed

    assert rows() == before


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kinds", [KINDS, ["files", "file_totals"]], ids=["all", "files"])
def test_storage_is_read_before_the_transaction_that_writes(
    still: Lake, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite the transaction would lock the database for as long as storage takes."""
    before, calls = rows(), list[str]()

    def watch(call: str, path: str) -> None:
        assert not connection.in_atomic_block, f"{call} of {path} within a transaction"
        calls.append(call)

    storage = WatchedStorage(Path(still.row.location), before=watch)
    monkeypatch.setattr(sync, "engine_table", lambda row: open_(storage, system_ports()))
    turn = take_turn(still.row)
    assert turn is not None

    with given_back(turn):
        assert read_anew(turn, kinds).is_applied

    assert "read" in calls
    assert rows() == before
