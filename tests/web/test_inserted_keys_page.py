"""The conflict of two writers who inserted the same new keys, on its page and in the list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from controlplane.writers.conflicts import conflict_detail
from controlplane.writers.models import Conflict
from tests.scenarios.test_deletes_beside_inserts import Beside
from tests.support.keyed_streams import CLICK, SHOWN
from tests.support.keyed_streams import SCHEMA as KEYED
from tests.support.lost_writes import CITIES, SCHEMA, begin, rides
from tests.support.rows_seen import ALL_ROWS
from web.conflicts.story import Story, story
from workers import create_table, open_table
from workers.concurrency.outcome import Conflicted
from workers.sql.run import run_sql

NARROW = {
    "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}


@pytest.fixture
def lost(root: Path, admin: User) -> str:
    """The instant of the loser."""
    location = root / "looked-up"
    create_table(
        location,
        name="rides",
        schema=SCHEMA,
        record_key=["ride"],
        partition_by=["city"],
        table_type="MERGE_ON_READ",
        options={"hoodie.index.type": "GLOBAL_BLOOM"},
    )
    slow = begin(location, rides(0, 40), writer="nightly-backfill")
    begin(location, rides(20, 60), writer="fares-ingest").wins()
    instant = slow.loses()
    sync_table(do_register_table(location=str(location), slug="rides", name="rides", by=admin))
    return instant


def story_of(instant: str) -> Story:
    detail = conflict_detail(Table.objects.get(slug="rides"), ALL_ROWS, instant)
    assert detail is not None
    return story(detail)


def test_the_page_says_which_keys_and_offers_what_helps(lost: str) -> None:
    page = story_of(lost)

    assert "fares-ingest had inserted the same 20 new keys" in page.sentence
    assert page.rule.title == "A key belongs to one file group"
    assert page.keys is not None
    assert page.keys.named == tuple(str(key) for key in range(20, 30))
    assert (page.keys.count, page.keys.hidden) == (20, 10)
    assert {group.partition for group in page.overlap} == set(CITIES)
    assert "not keys" in page.early.words
    options = [option.partition("=")[0] for step in page.steps for option in step.options]
    assert options == ["hoodie.write.num.retries.on.conflict.failures"]


def test_keys_are_shown_as_text_whatever_they_hold(lost: str, as_viewer: Client) -> None:
    kept = Conflict.objects.get(loser_instant=lost)
    kept.details = {**kept.details, "keys": ["<b>bold</b>"], "key_count": 1}
    kept.save()

    page = as_viewer.get(f"/t/rides/conflicts/{lost}").content.decode()
    listed = as_viewer.get("/t/rides/conflicts").content.decode()

    assert "Both inserted 1 new key<" in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>bold" not in page + listed
    assert "1 new key inserted by both" in listed


def test_keys_that_could_not_be_read_are_not_counted(lost: str, as_viewer: Client) -> None:
    kept = Conflict.objects.get(loser_instant=lost)
    kept.details = {name: kept.details[name] for name in ("rule", "lost")}
    kept.save()

    page = as_viewer.get(f"/t/rides/conflicts/{lost}").content.decode()

    assert "files that no longer exist" in story_of(lost).sentence
    assert "A inserted keys that can no longer be read" in page


def test_keys_that_two_brought_to_different_partitions_are_told_as_such(
    root: Path, admin: User, as_viewer: Client
) -> None:
    location = root / "keyed"
    create_table(
        location,
        name="rides",
        schema=KEYED,
        record_key=["id"],
        partition_by=["day"],
        table_type="MERGE_ON_READ",
        options={"hoodie.multistream.groups": json.dumps([SHOWN, CLICK])},
    )
    rows = pa.table({"id": ["n"], "day": ["mon"], "shown_at": [1], "price": [1]})
    slow = begin(location, rows, writer="slow")
    day = rows.schema.get_field_index("day")
    begin(location, rows.set_column(day, "day", pa.array(["tue"])), writer="fast").wins()
    instant = slow.loses()
    sync_table(do_register_table(location=str(location), slug="rides", name="rides", by=admin))

    shown, page = story_of(instant), as_viewer.get(f"/t/rides/conflicts/{instant}").content.decode()

    assert "fast had written 1 key of this write to another partition" in shown.sentence
    assert shown.rule.title == "A key belongs to one partition"
    assert "Wrote 1 key to different partitions" in page
    listed = as_viewer.get("/t/rides/conflicts").content.decode()
    assert "1 key in two partitions" in listed


def test_rows_that_were_changed_after_they_were_read_are_told_as_such(
    root: Path, admin: User, as_viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = root / "narrow"
    fields: list[pa.Field[Any]] = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("city", pa.string(), nullable=False),
        pa.field("size", pa.int64()),
    ]
    create_table(
        location,
        name="rides",
        schema=pa.schema(fields),
        record_key=["id"],
        table_type="MERGE_ON_READ",
        options=NARROW,
    )
    rows = pa.table({"id": ["a", "b"], "city": ["Oslo", "Oslo"], "size": [1, 1]})
    begin(location, rows, writer="setup").wins()
    whole = begin(location, rows.slice(0, 1), writer="fares-ingest")
    options = {
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.markers.type": "direct",
        "sluice.writer.name": "slow",
    }
    Beside(monkeypatch)(whole.wins)
    outcome = run_sql("UPDATE t SET size = 2", tables={"t": open_table(location)}, options=options)
    assert isinstance(outcome, Conflicted), outcome
    sync_table(do_register_table(location=str(location), slug="rides", name="rides", by=admin))

    shown = story_of(outcome.instant)
    page = as_viewer.get(f"/t/rides/conflicts/{outcome.instant}").content.decode()
    listed = as_viewer.get("/t/rides/conflicts").content.decode()

    assert "slow read rows at" in shown.sentence
    assert "fares-ingest had changed or deleted one of them" in shown.sentence
    assert shown.rule.title == "Rows that were read must be unchanged"
    assert [step.title for step in shown.steps] == [
        "Rerun it",
        "Enable retries",
        "Or set every required column",
    ]
    assert "reads these rows again, with the values of fares-ingest" in shown.steps[0].words
    assert "A changed 1 row that B had read" in page
    assert "Stored in" in page
    assert "1 row changed after being read" in listed
