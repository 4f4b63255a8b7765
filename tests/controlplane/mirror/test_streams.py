"""Join status: measured from the table's rows, per stream, and never on a page load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.mirror.event_times import event_time
from controlplane.mirror.measuring import measure_round
from controlplane.mirror.models import JoinMeasure
from controlplane.mirror.queries.health import health_checks
from controlplane.mirror.queries.streams import streams_board
from controlplane.mirror.queries.table_details import join_status
from controlplane.mirror.streams import measure, rest_after
from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from tests.controlplane.lake import Lake
from tests.support.markup import compact
from tests.support.rows_seen import ALL_ROWS
from workers import create_table
from workers.options.time_units import TimeUnit

NOW_MS = int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.fixture
def ads(root: Path, admin: User) -> Lake:
    """Two streams write their own columns of one table without locks."""
    columns: list[pa.Field[Any]] = [
        pa.field("id", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("price", pa.float64()),
        pa.field("clicks", pa.int64()),
    ]
    created = create_table(
        root / "ads",
        name="ads",
        schema=pa.schema(columns),
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
        options={
            "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS",
            "sluice.event.time.unit": "ms",
        },
    )
    row = do_register_table(location=str(root / "ads"), slug="ads", by=admin)
    return Lake(created.table, row)


def impression(number: int, ms: int = NOW_MS) -> dict[str, Any]:
    return {"id": str(number), "ts": ms, "price": 1.5}


def click(number: int, ms: int = NOW_MS) -> dict[str, Any]:
    return {"id": str(number), "ts": ms, "clicks": 1}


def write(lake: Lake, stream: str, *rows: dict[str, Any]) -> str:
    mode: Any = "NON_BLOCKING_CONCURRENCY_CONTROL"
    return lake.commit(*rows, writer=stream, stream=stream, mode=mode)


def test_rows_with_and_without_each_streams_columns(ads: Lake) -> None:
    write(ads, "impressions", impression(1), impression(2), impression(3))
    write(ads, "clicks", click(2), click(9))
    sync_table(ads.row)

    assert measure(ads.row)

    status = join_status(ads.row, ALL_ROWS)
    streams = {row.stream: row for row in status.streams}
    assert status.total_rows == 4
    assert (streams["impressions"].rows_with, streams["impressions"].rows_without) == (3, 1)
    assert (streams["clicks"].rows_with, streams["clicks"].rows_without) == (2, 2)
    assert streams["clicks"].columns == ["clicks"]
    assert streams["clicks"].coverage_pct == 50.0


def test_a_round_measures_streams_that_commits_name(ads: Lake) -> None:
    write(ads, "clicks", click(1))
    sync_table(ads.row)

    assert measure_round().measured == 1
    assert [row.stream for row in join_status(ads.row, ALL_ROWS).streams] == ["clicks"]
    assert measure_round().measured == 0


def test_the_newest_event_counts_even_when_late_ones_come_after_it(ads: Lake) -> None:
    write(ads, "clicks", click(1, NOW_MS))
    write(ads, "clicks", click(2, NOW_MS - 60_000))
    sync_table(ads.row)

    measure(ads.row)

    (row,) = join_status(ads.row, ALL_ROWS).streams
    assert row.last_event_time == "2026-05-01T12:00:00.000+00:00"


def test_a_table_that_did_not_move_is_not_read_again_and_its_lag_grows(ads: Lake) -> None:
    write(ads, "clicks", click(1))
    sync_table(ads.row)
    early = timezone.now() - timedelta(minutes=1)
    measure(ads.row, now=early)

    assert not measure(ads.row)
    (row,) = join_status(ads.row, ALL_ROWS).streams
    assert row.lag_s is not None
    newest = datetime.fromtimestamp(NOW_MS / 1000, tz=UTC)
    assert abs(row.lag_s - (timezone.now() - newest).total_seconds()) < 5


def test_a_busy_table_is_read_at_most_every_few_seconds(ads: Lake) -> None:
    write(ads, "clicks", click(1))
    sync_table(ads.row)
    measure(ads.row)
    write(ads, "clicks", click(2))
    sync_table(ads.row)

    assert not measure(ads.row)
    assert measure(ads.row, now=timezone.now() + timedelta(seconds=30))


def test_a_table_without_streams_has_no_join_status(lake: Lake) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    sync_table(lake.row)

    assert not measure(lake.row)
    assert join_status(lake.row, ALL_ROWS).streams == []


def test_a_page_reads_the_join_status_with_one_query(
    ads: Lake, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    write(ads, "clicks", click(1))
    sync_table(ads.row)
    measure(ads.row)

    with django_assert_max_num_queries(1):
        join_status(ads.row, ALL_ROWS)


@pytest.mark.parametrize(
    ("ordering", "unit", "expected"),
    [
        ("1777636800", "s", "2026-05-01T12:00:00+00:00"),
        ("1777636800000", "ms", "2026-05-01T12:00:00+00:00"),
        ("1777636800000000", "us", "2026-05-01T12:00:00+00:00"),
        ("1777636800000000000", "ns", "2026-05-01T12:00:00+00:00"),
        ("17", "s", "1970-01-01T00:00:17+00:00"),
        ("1777636800000", None, None),
        ("150000001", None, None),
        ("1e300", "s", None),
        ("nan", "s", None),
        ("2026-05-01T12:00:00+00:00", None, "2026-05-01T12:00:00+00:00"),
        ("2026-05-01 12:00:00", None, "2026-05-01T12:00:00+00:00"),
        ("abc", "s", None),
        ("", "s", None),
        (None, None, None),
    ],
)
def test_an_ordering_value_is_a_time_by_its_type_or_its_declared_unit(
    ordering: str | None, unit: str | None, expected: str | None
) -> None:
    time = event_time(ordering, TimeUnit(unit) if unit else None)

    assert (time.isoformat() if time else None) == expected


def test_numbers_without_a_unit_are_shown_as_they_stand_with_processing_lag_alone(
    root: Path, admin: User
) -> None:
    columns: list[pa.Field[Any]] = [pa.field("id", pa.string()), pa.field("seq", pa.int64())]
    columns.append(pa.field("clicks", pa.int64()))
    made = create_table(
        root / "seq",
        name="seq",
        schema=pa.schema(columns),
        record_key=["id"],
        ordering=["seq"],
        table_type="MERGE_ON_READ",
        options={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    )
    lake = Lake(made.table, do_register_table(location=str(root / "seq"), slug="seq", by=admin))
    write(lake, "clicks", {"id": "1", "seq": 150_000_001, "clicks": 1})
    sync_table(lake.row)
    measure(lake.row)

    (row,) = join_status(lake.row, ALL_ROWS).streams
    (shown,) = streams_board(lake.row, ALL_ROWS).streams

    assert (row.last_event_time, row.lag_s, row.event_at) == ("150000001", None, None)
    assert (shown.last_event, shown.lag_s) == ("150000001", None)
    assert row.processing_lag_s is not None
    assert shown.processing_lag_s is not None
    assert 0 <= row.processing_lag_s < 60
    assert 0 <= shown.processing_lag_s < 60


def test_an_event_a_year_ahead_is_said_and_spoils_no_lag(ads: Lake) -> None:
    now = datetime.now(UTC)
    ahead = now + timedelta(days=365)
    now_ms, ahead_ms = (int(at.timestamp() * 1000) for at in (now, ahead))
    write(ads, "clicks", click(1, now_ms - 60_000))
    write(ads, "clicks", click(2, ahead_ms))
    write(ads, "impressions", impression(1, now_ms + 2_000))
    sync_table(ads.row)
    ads.row.refresh_from_db()
    measure(ads.row)

    streams = {row.stream: row for row in join_status(ads.row, ALL_ROWS).streams}
    board = {row.name: row for row in streams_board(ads.row, ALL_ROWS).streams}
    checks = {check.name: check for check in health_checks(ads.row, timezone.now())}

    lag_s, shown_s = streams["clicks"].lag_s, board["clicks"].lag_s
    assert lag_s is not None
    assert shown_s is not None
    assert 0 <= lag_s < 60, "as of its arrival"
    assert abs(shown_s - lag_s) < 5
    assert streams["clicks"].ahead_s > 300 * 24 * 3600
    assert streams["clicks"].last_event_time is not None
    assert streams["clicks"].last_event_time.startswith(f"{ahead:%Y-%m-%dT%H:%M}")
    assert abs(board["impressions"].behind_s or 0) < 60
    assert streams["impressions"].ahead_s < 5, "clocks differ a little"
    assert checks["clocks"].verdict == "bad"
    assert "clicks" in checks["clocks"].sentence


def test_rows_that_moved_on_are_counted_again_soon_however_long_counting_takes(ads: Lake) -> None:
    assert [rest_after(ms).total_seconds() for ms in (0, 1_000, 5_000, 60_000)] == [8, 20, 30, 180]
    write(ads, "clicks", click(1))
    sync_table(ads.row)
    measure(ads.row)
    JoinMeasure.objects.update(took_ms=9_000)
    write(ads, "clicks", click(2))
    sync_table(ads.row)

    stale = join_status(ads.row, ALL_ROWS)
    measured = measure(ads.row, now=timezone.now() + timedelta(seconds=31))
    fresh = join_status(ads.row, ALL_ROWS)

    assert (stale.commits_since, stale.total_rows) == (1, 1)
    assert measured
    assert (fresh.commits_since, fresh.total_rows) == (0, 2)


def test_the_panel_is_of_one_moment_and_says_which(ads: Lake, viewer: User, client: Client) -> None:
    write(ads, "clicks", click(1, int(datetime.now(UTC).timestamp() * 1000)))
    sync_table(ads.row)
    measure(ads.row)
    before = join_status(ads.row, ALL_ROWS).streams[0].last_commit_at
    write(ads, "clicks", click(2))
    sync_table(ads.row)
    client.force_login(viewer)

    text = client.get(f"/t/{ads.row.slug}/live/streams").content.decode()

    assert join_status(ads.row, ALL_ROWS).streams[0].last_commit_at == before
    assert "as of <time" in compact(text)
    assert "1 commit since" in text
    assert text.count("data-ago") == 3, "when it was counted, the last commit, and the lag"
