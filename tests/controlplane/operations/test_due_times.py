"""When schedules are due: intervals, cron expressions, and days on which clocks are set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.errors import InvalidRequest
from controlplane.operations.scheduled.due_times import (
    Cron,
    Interval,
    checked_cron,
    checked_interval,
    missed_between,
    next_due,
)

FORWARD = datetime(2026, 3, 28, 12, tzinfo=UTC)
"""The day before clocks in Oslo skip the hour from two to three."""
BACK = datetime(2026, 10, 24, 12, tzinfo=UTC)
"""The day before they have the hour from two to three twice."""

# Expression in Oslo, seen from when, the next due times in UTC as day of the month and time.
DUE = """
30 2 * * *    forward  29 01:00   30 00:30   31 00:30
30 2 * * *    back     25 00:30   26 01:30   27 01:30
30 * * * *    back     24 12:30   24 13:30   24 14:30
0 */2 * * *   forward  28 13:00   28 15:00   28 17:00
15 3 * * *    forward  29 01:15   30 01:15   31 01:15
"""


@pytest.mark.parametrize("line", DUE.strip().splitlines())
def test_due_times_where_clocks_are_set(line: str) -> None:
    expression, rest = line[:14].strip(), line[14:].split()
    cron = checked_cron(expression, "Europe/Oslo")

    times = next_due(cron, FORWARD if "forward" in rest[0] else BACK, 3)

    assert " ".join(f"{time:%d %H:%M}" for time in times).split() == rest[1:]


def test_what_goes_by_the_hour_is_not_due_in_a_skipped_hour_and_twice_in_a_doubled_one() -> None:
    hourly = checked_cron("30 * * * *", "Europe/Oslo")

    skipped = next_due(hourly, datetime(2026, 3, 29, 0, tzinfo=UTC), 3)
    doubled = next_due(hourly, datetime(2026, 10, 25, 0, tzinfo=UTC), 3)

    assert [f"{time:%H:%M}" for time in skipped] == ["00:30", "01:30", "02:30"]
    assert [f"{time:%H:%M}" for time in doubled] == ["00:30", "01:30", "02:30"]


def test_an_interval_keeps_to_its_beginning_whenever_somebody_looks() -> None:
    begins_at = datetime(2026, 11, 1, 10, 0, 7, tzinfo=UTC)
    hourly = Interval(begins_at=begins_at, every_s=3600)

    late = begins_at + timedelta(hours=3, minutes=59)

    assert next_due(hourly, late, 2) == [begins_at + timedelta(hours=n) for n in (4, 5)]
    assert next_due(hourly, begins_at, 1) == [begins_at + timedelta(hours=1)]
    assert hourly.latest(late) == begins_at + timedelta(hours=3)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Oslo", "Australia/Lord_Howe", "Asia/Kathmandu"])
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/20 * * * *", "0 4 1 * *", "15 2 * * 0"])
def test_the_latest_due_time_is_the_last_one_that_has_come(zone: str, expression: str) -> None:
    cron = Cron(expression=expression, time_zone=zone)
    moments = [datetime(2026, month, 25, 1, 35, tzinfo=UTC) for month in (3, 4, 10, 11)]

    for moment in moments:
        latest = cron.latest(moment)
        assert latest <= moment
        assert next(cron.after(latest)) > moment
        assert next(cron.after(latest - timedelta(seconds=1))) == latest


def test_missed_due_times_are_counted() -> None:
    begins_at = datetime(2026, 11, 1, 10, tzinfo=UTC)
    hourly = Interval(begins_at=begins_at, every_s=3600)
    daily = checked_cron("0 10 * * *", "UTC")

    assert missed_between(hourly, begins_at, begins_at) == 0
    assert missed_between(hourly, begins_at, begins_at + timedelta(hours=5)) == 5
    assert missed_between(daily, begins_at, begins_at) == 0
    assert missed_between(daily, begins_at, begins_at + timedelta(days=3)) == 3


@pytest.mark.parametrize(
    ("expression", "zone", "words"),
    [
        ("* * * *", "UTC", "five fields"),
        ("* * * * * *", "UTC", "five fields"),
        ("61 * * * *", "UTC", "invalid cron expression"),
        ("0 0 30 2 *", "UTC", "invalid cron expression"),
        ("0 5 * * *", "Europe/Nowhere", "unknown time zone"),
        ("0 5 * * *", "../../etc/passwd", "unknown time zone"),
        (f"{'1,' * 80}1 * * * *", "UTC", "too long"),
    ],
)
def test_an_expression_that_is_none_is_refused(expression: str, zone: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        checked_cron(expression, zone)


@pytest.mark.parametrize("every_s", [0, 59, 366 * 86_400 + 1])
def test_an_interval_out_of_bounds_is_refused(every_s: int) -> None:
    with pytest.raises(InvalidRequest, match="out of bounds"):
        checked_interval(every_s)
