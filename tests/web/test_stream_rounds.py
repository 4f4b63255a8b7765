"""A stream between its rounds, as the pages show it: it waits, falls silent, or has ended."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.mirror.models import HeartbeatRecord, InstantRecord, StreamStatus
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.web.conftest import instant


@pytest.fixture
def ads(admin: User) -> Table:
    return Table.objects.create(slug="ads", name="ads", location="/lake/ads", registered_by=admin)


def written(table: Table, *, state: str, ago: float, now: datetime) -> None:
    """A stream with a round every eight seconds; the last one is so long ago."""
    committed = now - timedelta(seconds=ago)
    operation = Operation.objects.create(
        table=table, kind="write", state=state,
        parameters={"stream": "click", "job": {"source": {"pace_s": 8.0}}},
    )  # fmt: skip
    Operation.objects.update(
        requested_at=now - timedelta(hours=1),
        changed_at=committed,
        finished_at=committed if state == "succeeded" else None,
    )
    requested, completed = instant(committed, seconds=1), instant(committed, seconds=0)
    InstantRecord.objects.create(
        table=table, requested_at=requested, completed_at=completed, action="deltacommit",
        state="completed", stream="click", operation_ref=str(operation.pk),
    )  # fmt: skip
    HeartbeatRecord.objects.create(
        table=table, instant=requested, beat_at=committed, last_seen=committed, is_gone=True,
        interval_ms=2_000, tolerable_misses=5, writer_name="click-writer", stream="click",
        operation_ref=str(operation.pk),
    )  # fmt: skip
    StreamStatus.objects.create(
        table=table, stream="click", columns=["x"], rows_with=1, rows_without=1,
        last_commit_at=completed, sampled_at=committed,
    )  # fmt: skip


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    ("state", "ago", "phase", "words"),
    [
        ("running", 20, "waiting", "last batch"),
        ("running", 24, "silent", "last update"),
        ("running", 600, "silent", "last update"),
        ("succeeded", 20, "ended", "succeeded"),
    ],
)
def test_pages_and_api_say_one_word_of_a_stream_between_rounds(
    as_viewer: Client, ads: Table, state: str, ago: float, phase: str, words: str
) -> None:
    now = timezone.now()
    written(ads, state=state, ago=ago, now=now)

    [round_shown] = as_viewer.get("/api/v1/tables/ads/streams/rounds/").json()
    page = as_viewer.get("/t/ads/live").content.decode()
    writers = as_viewer.get("/t/ads/live/writers").content.decode()
    joined = as_viewer.get("/t/ads/live/streams").content.decode()
    board = as_viewer.get("/t/ads/streams/parts/board").content.decode()
    cards = as_viewer.get("/t/ads/writers").content.decode()

    assert round_shown["phase"] == phase
    due_ms = int((now - timedelta(seconds=ago) + timedelta(seconds=24)).timestamp() * 1000)
    for shown in (joined, board):
        assert f'data-state="{phase}"' in shown
        assert (f'data-due="{due_ms}"' in shown) is (phase == "waiting"), "asked again then"
    assert words in board
    assert (words in joined) is (phase != "waiting"), "its commits are as of the count"
    if phase == "ended":
        assert 'data-state="committed"' in writers, "it stays for two minutes"
        assert 'data-key="stream click"' not in page + writers
        assert "is-ended" in cards
    else:
        for shown in (page, writers):
            assert 'data-key="stream click"' in shown
            assert f'data-state="{phase}"' in shown
            assert 'data-state="committed"' not in shown
            assert "is-ended" not in shown
        if ago < 120:
            assert f'data-state="{phase}"' in cards
        assert "is-ended" not in cards


def test_what_wrote_once_and_what_was_silent_for_long_is_not_missed_among_the_writers(
    as_viewer: Client, ads: Table
) -> None:
    written(ads, state="running", ago=90_000, now=timezone.now())
    assert 'data-key="stream click"' not in as_viewer.get("/t/ads/live/writers").content.decode()

    Operation.objects.all().delete()
    InstantRecord.objects.update(completed_at=instant(timezone.now(), seconds=60))

    assert 'data-key="stream click"' not in as_viewer.get("/t/ads/live/writers").content.decode()
    [round_shown] = as_viewer.get("/api/v1/tables/ads/streams/rounds/").json()
    assert round_shown["phase"] == "silent"
