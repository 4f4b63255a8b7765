"""Lost writes in the mirror and through the API: what real losers left in their decision objects,
and what old records do not say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.sync import forget_mirror, sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from controlplane.writers.conflicts import ConflictDetail, conflict_detail, conflicts_page
from tests.support.lost_writes import SCHEMA, LostWrites, copied
from tests.support.rows_seen import ALL_ROWS
from tests.support.table_services import run
from workers.lakehouse import open_table
from workers.timeline import decisions

OPTIMISTIC = "OPTIMISTIC_CONCURRENCY_CONTROL"


@pytest.fixture
def lost(root: Path, lost_writes_once: LostWrites) -> LostWrites:
    return copied(lost_writes_once, root / "contested")


@pytest.fixture
def contested(lost: LostWrites, admin: User) -> Table:
    table = do_register_table(
        location=str(lost.location), slug="contested", name="contested", by=admin
    )
    sync_table(table)
    table.refresh_from_db()
    return table


def detail_of(table: Table, loser: str) -> ConflictDetail:
    detail = conflict_detail(table, ALL_ROWS, loser)
    assert detail is not None
    return detail


def test_write_refused_at_its_commit_is_told_with_both_sides_and_its_cost(
    contested: Table, lost: LostWrites
) -> None:
    detail = detail_of(contested, lost.write)

    row, winner, loser = detail.row, detail.winner, detail.loser
    assert (row.kind, row.detected, row.overlap_count) == ("write", "commit", 8)
    assert {partition for partition, _ in row.overlap} == {"bergen", "narvik"}
    assert (winner.writer, winner.ending, winner.mode) == ("fares-ingest", "committed", OPTIMISTIC)
    assert (loser.writer, loser.operation, loser.mode) == ("nightly-backfill", "upsert", OPTIMISTIC)
    assert loser.host == winner.host != ""
    assert {partition for partition, _ in loser.elsewhere} == {"oslo", "tromso"}
    assert (winner.elsewhere_count, loser.elsewhere_count) == (0, 8)
    assert row.wasted_files == 16
    assert row.wasted_bytes > 0
    assert loser.began_ms is not None
    assert winner.began_ms is not None
    assert winner.ended_ms is not None
    assert loser.began_ms < winner.began_ms < winner.ended_ms < row.verdict_ms
    assert detail.markers_left == 0


def test_write_stopped_early_names_the_strategy_and_the_older_writer(
    contested: Table, lost: LostWrites
) -> None:
    detail = detail_of(contested, lost.early)

    assert detail.row.detected == "early"
    assert detail.row.strategy.endswith("DirectMarkerBasedDetectionStrategy")
    assert detail.winner.began_ms is not None
    assert detail.winner.ended_ms is not None
    assert (
        detail.winner.began_ms
        < detail.row.began_ms
        < detail.row.verdict_ms
        < detail.winner.ended_ms
    )
    assert {partition for partition, _ in detail.loser.elsewhere} == {"bergen"}


def test_schema_conflict_keeps_the_three_schemas(contested: Table, lost: LostWrites) -> None:
    row = detail_of(contested, lost.schema).row

    assert row.kind == "schema"
    assert row.schemas is not None
    names = {
        key: [one["name"] for one in json.loads(row.schemas[key])["fields"]]
        for key in ("at_start", "at_validation", "writer")
    }
    assert "tip" not in names["at_start"]
    assert "tip" in names["at_validation"]
    assert {"tip", "device"} <= set(names["writer"])


def test_winner_that_is_a_table_service_is_told_as_one(contested: Table, lost: LostWrites) -> None:
    winner = detail_of(contested, lost.service).winner

    assert winner.operation.upper() == "COMPACT"


def test_conflicts_outlast_the_archived_timeline(contested: Table, lost: LostWrites) -> None:
    """Who looks the next morning finds them, also in a mirror that was made anew."""
    losers = (lost.write, lost.early, lost.schema, lost.service)
    before = [detail_of(contested, loser).row for loser in losers]
    archive(lost.location)
    assert not any(
        loser in decisions.list_decided_instants(open_table(lost.location).table.storage)
        for loser in losers
    )

    sync_table(contested)
    assert [detail_of(contested, loser).row for loser in losers] == before

    forget_mirror(contested)
    sync_table(contested)
    assert [detail_of(contested, loser).row for loser in losers] == before


def archive(location: Path) -> None:
    """All but commits that are made first."""
    for ride in range(2):
        row = {"ride": ride, "city": "bergen", "paid_at": 99, "amount": 1.0}
        batch = pa.Table.from_pylist([row], schema=SCHEMA)
        open_table(location).write(batch, options={"hoodie.write.markers.type": "direct"})
    table = open_table(location).table
    run(table, "compaction")
    run(table, "clean", commits="1")
    run(table, "archive", min_commits="1", max_commits="1")


def test_mirror_that_was_emptied_has_the_same_conflicts_again(
    contested: Table, lost: LostWrites
) -> None:
    losers = (lost.write, lost.early, lost.schema, lost.service)
    before = [detail_of(contested, loser) for loser in losers]

    forget_mirror(contested)
    assert conflict_detail(contested, ALL_ROWS, lost.write) is None
    sync_table(contested)

    assert [detail_of(contested, loser) for loser in losers] == before


def test_record_of_an_older_writer_is_shown_with_what_it_has(lost: LostWrites, admin: User) -> None:
    path = lost.location / ".hoodie/.sluice/decision" / lost.write
    body = json.loads(path.read_bytes())
    kept = ("kind", "message", "rival", "rival_writer", "file_groups", "writer", "schemas", "case")
    body["conflict"] = {key: body["conflict"][key] for key in kept}
    path.write_text(json.dumps(body))
    table = do_register_table(
        location=str(lost.location), slug="contested", name="contested", by=admin
    )

    sync_table(table)

    detail = detail_of(table, lost.write)
    assert (detail.row.detected, detail.row.lasted_ms, detail.row.overlap_count) == (
        "commit",
        None,
        8,
    )
    assert (detail.loser.host, detail.loser.elsewhere_count) == ("", None)
    assert detail.row.verdict_ms == int(detail.row.decided_at.timestamp() * 1000)


def test_api_filters_conflicts_and_tells_one_whole(
    contested: Table, lost: LostWrites, client: Client, viewer: User
) -> None:
    client.force_login(viewer)
    base = "/api/v1/tables/contested/conflicts/"

    def losers(**query: Any) -> list[str]:
        return [row["loser_instant"] for row in client.get(base, query).json()["results"]]

    assert losers() == [lost.service, lost.schema, lost.early, lost.write]
    assert losers(kind="schema") == [lost.schema]
    assert losers(detected="early") == [lost.early]
    assert losers(writer="TIPS") == [lost.schema]
    detail = client.get(f"{base}{lost.write}/").json()
    assert detail["winner"]["writer"] == "fares-ingest"
    assert detail["row"]["overlap_count"] == len(detail["row"]["overlap"]) == 8
    assert client.get(f"{base}20200101000000000/").status_code == 404


def test_conflicts_come_in_pages_newest_first(contested: Table, lost: LostWrites) -> None:
    first = conflicts_page(contested, ALL_ROWS, limit=3)
    second = conflicts_page(contested, ALL_ROWS, limit=3, cursor=first.next_cursor)

    assert [row.loser_instant for row in first.rows] == [lost.service, lost.schema, lost.early]
    assert [row.loser_instant for row in second.rows] == [lost.write]
    assert second.next_cursor is None
