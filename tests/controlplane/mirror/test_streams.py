"""Join status: measured from the table's rows, per stream, and never on a page load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from controlplane.mirror.event_times import event_time
from controlplane.mirror.selectors import join_status
from controlplane.mirror.streams import measure
from controlplane.mirror.sync import sync_table
from controlplane.tables.services import register_table
from tests.controlplane.lake import Lake
from workers import create_table

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
        options={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    )
    row = register_table(location=str(root / "ads"), slug="ads", by=admin)
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

    status = join_status(ads.row)
    found = {row.stream: row for row in status.streams}
    assert status.total_rows == 4
    assert (found["impressions"].rows_with, found["impressions"].rows_without) == (3, 1)
    assert (found["clicks"].rows_with, found["clicks"].rows_without) == (2, 2)
    assert found["clicks"].columns == ["clicks"]
    assert found["clicks"].coverage_pct == 50.0


def test_the_newest_event_counts_even_when_late_ones_come_after_it(ads: Lake) -> None:
    write(ads, "clicks", click(1, NOW_MS))
    write(ads, "clicks", click(2, NOW_MS - 60_000))
    sync_table(ads.row)

    measure(ads.row)

    (row,) = join_status(ads.row).streams
    assert row.last_event_time == "2026-05-01T12:00:00.000+00:00"


def test_a_table_that_did_not_move_is_not_read_again_and_its_lag_grows(ads: Lake) -> None:
    write(ads, "clicks", click(1))
    sync_table(ads.row)
    early = timezone.now() - timedelta(minutes=1)
    measure(ads.row, now=early)

    assert not measure(ads.row)
    (row,) = join_status(ads.row).streams
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
    assert join_status(lake.row).streams == []


def test_a_page_reads_the_join_status_with_one_query(
    ads: Lake, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    write(ads, "clicks", click(1))
    sync_table(ads.row)
    measure(ads.row)

    with django_assert_max_num_queries(1):
        join_status(ads.row)


@pytest.mark.parametrize(
    ("ordering", "found"),
    [
        ("1777636800", "2026-05-01T12:00:00+00:00"),
        ("1777636800000", "2026-05-01T12:00:00+00:00"),
        ("1777636800000000", "2026-05-01T12:00:00+00:00"),
        ("2026-05-01T12:00:00+00:00", "2026-05-01T12:00:00+00:00"),
        ("2026-05-01 12:00:00", "2026-05-01T12:00:00+00:00"),
        ("17", None),
        ("abc", None),
        ("", None),
        (None, None),
    ],
)
def test_an_ordering_value_is_a_time_where_it_can_be_one(
    ordering: str | None, found: str | None
) -> None:
    time = event_time(ordering)

    assert (time.isoformat() if time else None) == found
