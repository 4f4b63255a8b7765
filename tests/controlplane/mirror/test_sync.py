"""The mirror converges on storage after any gap, forgets what is gone, and a rebuild gives the same
rows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.utils import timezone

from controlplane.mirror import observing
from controlplane.mirror.applying import apply_observed
from controlplane.mirror.models import (
    HeartbeatRecord,
    InstantRecord,
    SchemaRecord,
    SyncMark,
    UndoneRecord,
)
from controlplane.mirror.observing import observe
from controlplane.mirror.queries.table_details import pending_markers, schema_history
from controlplane.mirror.storage import engine_table
from controlplane.mirror.sync import forget_mirror, sync_table
from controlplane.mirror.timeline_rows import timeline_window
from controlplane.mirror.turns import Turn
from controlplane.tables.models import Table
from controlplane.tables.queries import table_row
from controlplane.writers.conflicts import conflict_row, recent_query
from controlplane.writers.models import Conflict
from controlplane.writers.queries import writers_board
from tests.controlplane.lake import OPTIMISTIC, Lake
from tests.support.rows_seen import ALL_ROWS
from workers.concurrency.heartbeat import heartbeat_path
from workers.concurrency.outcome import Conflicted
from workers.lakehouse import open_table
from workers.options.write_options import write_options
from workers.recovery.rollback import RollbackRequest, rollback
from workers.write.local import write_arrow
from workers.write.request import WriteRequest

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "1", "ts": 2, "city": "Bergen"}


def mirrored(table: Table) -> dict[str, list[dict[str, Any]]]:
    """Every row that is a projection of storage. Gone heartbeats are history, so not among them."""
    hidden = {"id", "table_id", "last_seen"}
    columns = ("requested_at", "action", "ended_at", "undone_by", "writer_name")
    undone = UndoneRecord.objects.filter(table=table).order_by("requested_at").values(*columns)
    querysets = {
        "instants": InstantRecord.objects.filter(table=table).order_by("requested_at", "action"),
        "schemas": SchemaRecord.objects.filter(table=table).order_by("instant"),
        "heartbeats": HeartbeatRecord.objects.filter(table=table, is_gone=False).order_by(
            "instant"
        ),
        "markers": table.marker_counts.order_by("instant", "kind"),
        "conflicts": Conflict.objects.filter(table=table).order_by("loser_instant"),
    }
    rows = {
        name: [{k: v for k, v in row.items() if k not in hidden} for row in found.values()]
        for name, found in querysets.items()
    }
    return {**rows, "undone": list(undone)}


def test_a_commit_is_mirrored_with_writer_rows_and_files(lake: Lake) -> None:
    instant = lake.commit(OSLO, {"id": "2", "ts": 1, "city": "Moss"}, writer="ingest")

    changed = sync_table(lake.row)

    record = InstantRecord.objects.get(table=lake.row, requested_at=instant)
    assert (record.state, record.writer_name, record.rows) == ("completed", "ingest", 2)
    assert record.files == len(record.metadata["file_groups"]) > 0
    assert record.metadata["partition_bytes"] == {"": record.bytes}
    assert changed is not None
    assert "instants" in changed
    lake.row.refresh_from_db()
    assert (lake.row.table_type, lake.row.table_version) == ("MERGE_ON_READ", 9)
    assert (lake.row.record_key, lake.row.ordering, lake.row.sync_error) == ("id", "ts", "")
    assert lake.row.lock_provider == "storage"


def test_lock_that_a_writer_named_is_mirrored(lake: Lake) -> None:
    named = {"hoodie.write.lock.provider": "filesystem", "sluice.lock.filesystem.pause_ms": "0"}
    open_table(lake.row.location).write(pa.Table.from_pylist([OSLO]), options=named)

    sync_table(lake.row)

    assert table_row(Table.objects.get(pk=lake.row.pk)).lock_provider == "filesystem"


def test_a_second_sync_of_an_unchanged_table_changes_nothing(lake: Lake) -> None:
    lake.commit(OSLO)
    sync_table(lake.row)
    before = mirrored(lake.row)

    changed = sync_table(lake.row)

    assert changed == frozenset()
    assert mirrored(lake.row) == before


def test_a_pending_write_shows_its_writer_heartbeat_and_markers(lake: Lake) -> None:
    write = lake.begin(OSLO, writer="slow", operation_id="op-1")

    sync_table(lake.row)

    record = InstantRecord.objects.get(table=lake.row, requested_at=write.instant)
    assert (record.state, record.writer_name, record.operation_ref) == ("inflight", "slow", "op-1")
    (writer,) = writers_board(lake.row, timezone.now())
    assert (writer.writer, writer.state, writer.instant) == ("slow", "alive", write.instant)
    (markers,) = pending_markers(lake.row)
    assert (markers.instant, markers.count, markers.writer) == (write.instant, 1, "slow")


def test_markers_that_nobody_waits_for_are_told_apart(lake: Lake) -> None:
    write = lake.begin(OSLO)
    lake.table.storage.put(
        ".hoodie/.temp/20260101000000000/a_1-0-1_20260101000000000.parquet.marker.CREATE", b""
    )

    sync_table(lake.row)

    orphans = {row.instant: row.is_orphan for row in pending_markers(lake.row)}
    assert orphans == {"20260101000000000": True, write.instant: False}


def test_after_the_commit_the_writer_is_gone_and_no_marker_is_left(lake: Lake) -> None:
    write = lake.begin(OSLO, writer="slow")
    sync_table(lake.row)
    write.commit()

    sync_table(lake.row)

    (writer,) = writers_board(lake.row, timezone.now())
    assert writer.state == "gone"
    assert pending_markers(lake.row) == []
    assert InstantRecord.objects.get(requested_at=write.instant).state == "completed"


def test_a_lost_conflict_names_both_writers_and_the_overlap(lake: Lake) -> None:
    backfill = lake.begin(OSLO, writer="backfill", mode=OPTIMISTIC)
    ingest = lake.begin(BERGEN, writer="ingest", mode=OPTIMISTIC)
    ingest.commit()
    outcome = backfill.commit()
    assert isinstance(outcome, Conflicted)

    sync_table(lake.row)

    (conflict,) = [conflict_row(row, ALL_ROWS) for row in recent_query(lake.row)]
    assert (conflict.loser_writer, conflict.loser_instant) == ("backfill", backfill.instant)
    assert (conflict.winner_writer, conflict.winner_instant) == ("ingest", ingest.instant)
    assert conflict.kind == "write"
    assert len(conflict.overlap) == 1
    assert (conflict.detected, conflict.strategy, conflict.wasted_files) == ("commit", "", 1)
    assert conflict.wasted_bytes > 0


def test_a_conflict_that_was_found_early_says_so_and_what_it_cost(lake: Lake) -> None:
    older = lake.begin(OSLO, writer="older", mode=OPTIMISTIC)
    enable = "hoodie.write.concurrency.early.conflict.detection.enable"
    options = {
        enable: "true",
        "hoodie.write.concurrency.mode": OPTIMISTIC,
        "hoodie.write.markers.type": "direct",
        "sluice.writer.name": "younger",
    }
    rows = pa.Table.from_pylist([BERGEN])
    outcome = write_arrow(lake.table, rows, WriteRequest("upsert"), options)
    assert isinstance(outcome, Conflicted)

    sync_table(lake.row)

    (conflict,) = [conflict_row(row, ALL_ROWS) for row in recent_query(lake.row)]
    assert (conflict.winner_writer, conflict.winner_instant) == ("older", older.instant)
    assert (conflict.detected, conflict.wasted_files, conflict.wasted_bytes) == ("early", 0, 0)
    assert conflict.strategy.endswith("SimpleTransactionDirectMarkerBasedDetectionStrategy")
    assert conflict.lasted_ms == outcome.conflict.lasted_ms


def test_a_rolled_back_instant_disappears_and_the_rollback_names_it(lake: Lake) -> None:
    kept = lake.commit(OSLO)
    undone = lake.commit(BERGEN)
    sync_table(lake.row)

    rollback(lake.table, RollbackRequest(undone, by="ada", reason="wrong"), write_options({}))
    sync_table(lake.row)

    assert not InstantRecord.objects.filter(requested_at=undone).exists()
    assert InstantRecord.objects.filter(requested_at=kept).exists()
    assert InstantRecord.objects.get(action="rollback").metadata["rolled_back"] == [undone]


def test_schemas_are_kept_where_they_change(lake: Lake) -> None:
    lake.commit(OSLO)
    lake.commit(BERGEN)
    wider = lake.commit({**BERGEN, "zip": "5003"}, writer="evolver")

    sync_table(lake.row)

    newest, oldest = schema_history(lake.row)
    assert (newest.instant, newest.columns, newest.writer) == (wider, 4, "evolver")
    assert [(change.name, change.kind) for change in newest.changes] == [("zip", "added")]
    assert oldest.columns == 3


def test_the_schema_of_a_rolled_back_commit_goes_with_it(lake: Lake) -> None:
    lake.commit(OSLO)
    wider = lake.commit({**BERGEN, "zip": "5003"})
    sync_table(lake.row)
    rollback(lake.table, RollbackRequest(wider, by="ada", reason="wrong"), write_options({}))

    sync_table(lake.row)

    assert [schema.columns for schema in schema_history(lake.row)] == [3]


def test_syncing_at_every_step_and_rebuilding_from_nothing_give_the_same_rows(lake: Lake) -> None:
    """Invariant MR4, over every kind of thing that the mirror holds."""
    _eventful_history(lake, after_each=lambda: sync_table(lake.row))
    sync_table(lake.row)
    incremental = mirrored(lake.row)

    forget_mirror(lake.row)
    sync_table(lake.row)

    assert mirrored(lake.row) == incremental
    assert all(incremental.values()), incremental


def test_one_sync_after_a_long_gap_sees_all_of_it(lake: Lake) -> None:
    _eventful_history(lake, after_each=lambda: None)

    sync_table(lake.row)
    once = mirrored(lake.row)
    forget_mirror(lake.row)
    sync_table(lake.row)

    assert mirrored(lake.row) == once
    assert len(once["conflicts"]) == 1


def test_a_long_timeline_is_read_over_several_passes_newest_first(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    instants = [lake.commit(OSLO) for _ in range(5)]
    monkeypatch.setattr(observing, "INSTANTS_PER_PASS_MAX", 2)

    sync_table(lake.row)
    first = [row.requested_at for row in timeline_window(lake.row).rows]
    sync_table(lake.row)
    sync_table(lake.row)

    assert first == instants[:-3:-1]
    assert len(timeline_window(lake.row).rows) == 6  # with the one that created the table
    assert sync_table(lake.row) == frozenset()


def test_a_table_that_is_not_there_is_an_error_on_its_row_and_not_an_exception(lake: Lake) -> None:
    lake.commit(OSLO)
    sync_table(lake.row)
    shutil.move(lake.row.location, lake.row.location + "-away")

    sync_table(lake.row)

    lake.row.refresh_from_db()
    assert "no table here" in lake.row.sync_error
    assert timeline_window(lake.row).rows

    shutil.move(lake.row.location + "-away", lake.row.location)
    sync_table(lake.row)
    lake.row.refresh_from_db()
    assert lake.row.sync_error == ""


def test_a_location_that_left_the_roots_through_a_link_is_refused(
    lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    shutil.move(lake.row.location, outside / "trips")
    Path(lake.row.location).symlink_to(outside / "trips")

    sync_table(lake.row)

    lake.row.refresh_from_db()
    assert "outside the configured table roots" in lake.row.sync_error


def test_while_one_process_syncs_another_leaves_the_table_alone(lake: Lake) -> None:
    SyncMark.objects.create(table=lake.row, running_until=timezone.now() + timedelta(seconds=30))

    assert sync_table(lake.row) is None


def test_a_sync_that_died_blocks_nobody_for_long(lake: Lake) -> None:
    SyncMark.objects.create(table=lake.row, running_until=timezone.now() - timedelta(seconds=1))

    assert sync_table(lake.row)


def test_turn_of_a_process_that_was_killed_is_free_at_once(lake: Lake) -> None:
    program = (
        "import json; from workers.processes import this_process; "
        "print(json.dumps(this_process().to_json()), flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as reader:
        assert reader.stdout is not None
        running_by = json.loads(reader.stdout.readline())
        until = timezone.now() + timedelta(seconds=60)
        SyncMark.objects.create(table=lake.row, running_until=until, running_by=running_by)

        while_it_lives = sync_table(lake.row)
        reader.kill()
        reader.wait()

        assert while_it_lives is None
        assert sync_table(lake.row)
    assert SyncMark.objects.get().running_until is None


def test_a_sync_that_lost_its_turn_applies_nothing(lake: Lake) -> None:
    """Invariant MR2: facts read earlier never overwrite facts read later."""
    SyncMark.objects.create(table=lake.row)
    lake.commit(OSLO)
    opened = engine_table(lake.row)
    stale = observe(lake.row, opened, SyncMark.objects.get(table=lake.row))
    lake.commit(BERGEN)
    sync_table(lake.row)
    before = mirrored(lake.row)

    now = timezone.now()

    changed = apply_observed(opened, stale, Turn(lake.row, now), "", now)

    assert changed is None
    assert mirrored(lake.row) == before


def test_a_damaged_commit_file_is_shown_as_damaged_and_hides_nothing_else(lake: Lake) -> None:
    good, bad = lake.commit(OSLO), lake.commit(BERGEN)
    timeline = lake.table.timeline()
    damaged = timeline.find(bad)
    assert damaged is not None
    lake.table.storage.put(lake.table.layout.path(damaged), b"not a commit")

    sync_table(lake.row)

    assert "error" in InstantRecord.objects.get(requested_at=bad).metadata
    assert InstantRecord.objects.get(requested_at=good).rows == 1


def test_a_heartbeat_that_stopped_turns_suspect_then_expired(lake: Lake) -> None:
    write = lake.begin(OSLO, writer="dying", heartbeat_ms=10_000)
    path = Path(lake.row.location) / heartbeat_path(write.instant)

    states = []
    for age_s in (1, 12, 25):
        beat = timezone.now().timestamp() - age_s
        os.utime(path, (beat, beat))
        sync_table(lake.row)
        states.append(writers_board(lake.row, timezone.now())[0].state)

    assert states == ["alive", "suspect", "expired"]


def _eventful_history(lake: Lake, after_each: Any) -> None:
    """Commits, a schema change, a conflict, a rollback, a writer that stays."""
    lake.commit(OSLO)
    after_each()
    lake.commit({**BERGEN, "zip": "5003"}, writer="evolver", stream=None)
    after_each()
    loser = lake.begin(OSLO, writer="backfill", mode=OPTIMISTIC)
    after_each()
    winner = lake.begin(BERGEN, writer="ingest", mode=OPTIMISTIC)
    after_each()
    winner.commit()
    after_each()
    loser.commit()
    after_each()
    wrong = lake.commit(OSLO)
    after_each()
    rollback(lake.table, RollbackRequest(wrong, by="ada", reason="wrong"), write_options({}))
    after_each()
    lake.begin({"id": "9", "ts": 1, "city": "Moss"}, writer="still-here", heartbeat_ms=3_600_000)
    after_each()
