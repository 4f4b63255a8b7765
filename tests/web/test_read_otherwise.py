"""Keys that other engines read otherwise, on the table's page and among its health checks."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from controlplane.mirror.health_check import Check
from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from workers import create_table
from workers.concurrency.outcome import Committed
from workers.lakehouse import LakehouseTable

DIRECT = {"hoodie.write.markers.type": "direct"}
TYPES: dict[str, pa.DataType] = {"id": pa.int64(), "ts": pa.int64(), "city": pa.string()}


def rows(ts: int, *keys: int) -> pa.Table:
    return pa.table({"id": list(keys), "ts": [ts] * len(keys), "city": ["Oslo"] * len(keys)})


def with_rows_older_than_what_was_deleted(root: Path) -> LakehouseTable:
    table = create_table(
        root / "ours",
        name="ours",
        schema=pa.schema(TYPES),
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    table.write(rows(5, 1, 2, 3), options=DIRECT)
    table.delete(pa.table({"id": [1, 2]}), options=DIRECT)
    outcome = table.write(rows(4, 1, 2), options=DIRECT)
    assert isinstance(outcome, Committed), outcome
    assert outcome.divergent_keys == 2
    return table


def mirrored() -> Table:
    row = Table.objects.get(slug="ours")
    sync_table(row)
    row.refresh_from_db()
    return row


def check_of(table: Table) -> Check:
    [check] = [one for one in health_checks(table, timezone.now()) if one.name == "read-alike"]
    return check


def page_of(client: Client) -> str:
    return client.get(reverse("overview", args=["ours"])).content.decode()


def test_page_and_check_say_how_many_until_the_table_is_compacted(
    root: Path, as_viewer: Client
) -> None:
    table = with_rows_older_than_what_was_deleted(root)
    do_register_table(location=table.location, slug="ours", by=None)

    before, page = check_of(mirrored()), page_of(as_viewer)
    table.compact()
    after, then = check_of(mirrored()), page_of(as_viewer)

    assert (before.verdict, before.remedy) == ("warn", "compaction")
    assert before.sentence == "Apache Hudi and hudi-rs read 2 keys of 1 file group differently"
    assert "Reader divergence" in page
    assert page.count(before.sentence) == 2
    assert (after.verdict, after.remedy) == ("good", "")
    assert "Reader divergence" not in then


def test_a_commit_that_ends_it_turns_the_check_good(root: Path, db: None) -> None:
    table = with_rows_older_than_what_was_deleted(root)
    do_register_table(location=table.location, slug="ours", by=None)
    instant = check_of(mirrored()).instant

    table.write(rows(6, 1), options=DIRECT)
    one_left = check_of(mirrored())
    table.write(rows(6, 2), options=DIRECT)

    assert one_left.sentence == "Apache Hudi and hudi-rs read 1 key of 1 file group differently"
    assert one_left.instant > instant
    assert check_of(mirrored()).verdict == "good"


def test_a_rollback_of_the_commit_takes_its_count_back(root: Path, db: None) -> None:
    table = with_rows_older_than_what_was_deleted(root)
    do_register_table(location=table.location, slug="ours", by=None)
    newest = table.table.timeline().list_completed_writes()[-1].requested_at

    table.rollback(newest, dry_run=False)

    assert check_of(mirrored()).verdict == "good"


def test_mirror_that_was_emptied_says_the_same_again(root: Path, db: None) -> None:
    table = with_rows_older_than_what_was_deleted(root)
    do_register_table(location=table.location, slug="ours", by=None)
    first = check_of(mirrored())

    Table.objects.all().delete()
    do_register_table(location=table.location, slug="ours", by=None)

    assert check_of(mirrored()) == first
