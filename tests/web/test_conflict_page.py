"""The page that answers why a write lost, over real losers: the sentence, the rule, what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from controlplane.writers.conflicts import conflict_detail
from controlplane.writers.models import Conflict
from tests.support.lost_writes import LostWrites, copied, retried_write
from tests.support.rows_seen import ALL_ROWS
from tests.web.test_pages import QUERIES_MAX
from web.conflicts.story import Story, story


@pytest.fixture
def lost(root: Path, admin: User, lost_writes_once: LostWrites) -> LostWrites:
    made = copied(lost_writes_once, root / "contested")
    sync_table(
        do_register_table(location=str(made.location), slug="contested", name="contested", by=admin)
    )
    return made


def story_of(loser: str) -> Story:
    detail = conflict_detail(Table.objects.get(slug="contested"), ALL_ROWS, loser)
    assert detail is not None
    return story(detail)


def options(of: Story) -> list[str]:
    return [option.partition("=")[0] for step in of.steps for option in step.options]


def test_write_that_lost_at_its_commit_says_who_was_first_and_offers_what_fits(
    lost: LostWrites,
) -> None:
    page = story_of(lost.write)

    assert "fares-ingest had completed a write of the same 8 file groups" in page.sentence
    assert "16 files" in page.state
    assert page.steps[0].title == "Rerun it"
    assert page.rule.title == "The first to complete wins"
    assert [group.partition for group in page.overlap] == ["bergen", "narvik"]
    assert [group.partition for group in page.only_loser] == ["oslo", "tromso"]
    assert options(page) == [
        "hoodie.write.num.retries.on.conflict.failures",
        "hoodie.write.concurrency.mode",
        "hoodie.write.concurrency.early.conflict.detection.enable",
        "hoodie.write.concurrency.early.conflict.check.commit.conflict",
    ]
    assert any(step.title.startswith("Split it") for step in page.steps)


def test_early_detection_is_said_to_have_caught_a_younger_winner_only_at_its_commit(
    lost: LostWrites,
) -> None:
    page = story_of(lost.write)

    assert page.early.at_ms == page.detail.winner.ended_ms
    assert "commits checked too" in page.early.words


def test_write_that_was_stopped_early_gives_way_to_the_older_and_is_not_told_to_detect_early(
    lost: LostWrites,
) -> None:
    page = story_of(lost.early)

    assert "was stopped at" in page.sentence
    assert page.rule.title == "The older of two active writers wins"
    assert not any("early" in option for option in options(page))


def test_schema_conflict_asks_to_agree_on_the_contradiction_first(lost: LostWrites) -> None:
    page = story_of(lost.schema)

    assert page.schema is not None
    assert (page.schema.scenario, page.schema.clashing) == (8, ("tip",))
    assert page.steps[0].title == "Agree on tip with tips-loader"
    assert page.early.at_ms is None
    assert "hoodie.write.concurrency.mode" not in options(page)


def test_winner_that_is_a_service_leads_to_its_schedule_and_not_to_another_mode(
    lost: LostWrites,
) -> None:
    page = story_of(lost.service)

    assert [step.page for step in page.steps if step.page] == ["compaction"]
    assert "hoodie.write.concurrency.mode" not in options(page)


def test_attempt_that_was_tried_again_by_itself_says_how_that_ended(lost: LostWrites) -> None:
    first, second = retried_write(lost.location)
    sync_table(Table.objects.get(slug="contested"))

    page = story_of(first)

    assert page.steps[0].title == "Nothing: its retry committed"
    assert page.steps[0].page == f"instant {second}"


def test_lanes_shade_exactly_what_both_shared(lost: LostWrites) -> None:
    lanes = story_of(lost.write).lanes

    assert lanes.shared == lanes.winner
    assert lanes.loser.width == 1000.0
    assert [moment.side for moment in lanes.moments[:3]] == ["b", "a", "a"]


def test_page_and_its_live_part_show_the_same_and_stay_within_their_queries(
    lost: LostWrites, as_viewer: Client
) -> None:
    with CaptureQueriesContext(connection) as queries:
        page = as_viewer.get(f"/t/contested/conflicts/{lost.write}").content.decode()
    part = as_viewer.get(f"/t/contested/conflicts/{lost.write}/part").content.decode()

    assert len(queries) <= QUERIES_MAX
    assert "Why nightly-backfill lost" in page
    assert [line for line in part.splitlines() if line.strip() and line not in page] == []


def test_instant_that_lost_nothing_has_no_page(lost: LostWrites, as_viewer: Client) -> None:
    assert as_viewer.get("/t/contested/conflicts/20200101000000000").status_code == 404


def test_list_filters_by_kind_time_of_finding_and_either_writer(
    lost: LostWrites, as_viewer: Client
) -> None:
    def rows(query: str) -> int:
        html = as_viewer.get(f"/t/contested/conflicts/rows?{query}").content.decode()
        return html.count("<tr data-key=")

    assert rows("") == 4
    assert rows("kind=schema") == 1
    assert rows("detected=early") == 1
    assert rows("writer=fares-ingest") == 2
    assert rows("writer=nobody") == 0
    assert b"No matching conflicts" in as_viewer.get("/t/contested/conflicts?writer=zz").content


def test_thousands_of_conflicts_come_fifty_at_a_time(lost: LostWrites, as_viewer: Client) -> None:
    conflict = Conflict.objects.get(loser_instant=lost.write)
    Conflict.objects.bulk_create(
        Conflict(
            table=conflict.table, loser_instant=f"2026010100{at:07d}", kind="write",
            decided_at=conflict.decided_at, file_groups=conflict.file_groups,
        )
        for at in range(3_000)
    )  # fmt: skip

    with CaptureQueriesContext(connection) as queries:
        html = as_viewer.get("/t/contested/conflicts").content.decode()

    listed = html.partition('id="rivals-title"')[0]
    assert listed.count("<tr data-key=") == 50
    assert len(queries) <= QUERIES_MAX
    assert "before=" in html


def test_live_page_leads_to_the_conflict(lost: LostWrites, as_viewer: Client) -> None:
    html = as_viewer.get("/t/contested/live/conflicts").content.decode()

    assert f'href="/t/contested/conflicts/{lost.early}"' in html
