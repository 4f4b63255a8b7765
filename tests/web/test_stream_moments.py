"""Streams over time: what was known at a moment, how fast rows came, how long nothing did."""

from __future__ import annotations

from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import pytest

from controlplane.mirror.group_rows import GroupCommitRow
from web.stream_moments import (
    BINS,
    moments,
    parsed_moment,
    rate_figure,
    rates,
    silence_figure,
    silences,
)

NOON_MS = int(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp() * 1000)
STREAMS = ["shop", "ship"]


def arrival(stream: str, at_s: float, event_s: float | None, rows: int = 1) -> GroupCommitRow:
    """A commit of one stream that many seconds after noon, and the newest event that it brought."""
    event_ms = None if event_s is None else NOON_MS + int(event_s * 1000)
    return GroupCommitRow(
        group=stream, instant=f"{stream}{at_s}", arrived_ms=NOON_MS + int(at_s * 1000),
        greatest_ms=event_ms, least_ms=event_ms, rows=rows, late=0,
    )  # fmt: skip


def test_later_commits_say_nothing_of_an_earlier_moment() -> None:
    arrivals = [arrival("shop", 0, -60, 5), arrival("shop", 100, 90, 7), arrival("ship", 50, 40)]

    shop, ship = moments(sorted(arrivals, key=attrgetter("arrived_ms")), STREAMS, NOON_MS + 30_000)

    assert (shop.instant, shop.rows) == ("shop0", 5)
    assert (shop.processing_lag_s, shop.event_lag_s) == (30.0, 90.0)
    assert (ship.instant, ship.processing_lag_s, ship.event_lag_s) == ("", None, None)


def test_older_event_that_came_last_does_not_take_the_freshness_back() -> None:
    arrivals = [arrival("shop", 0, -1), arrival("shop", 10, -3_600)]

    shop, _ = moments(arrivals, STREAMS, NOON_MS + 10_000)

    assert (shop.event_lag_s, shop.processing_lag_s) == (11.0, 0.0)


def test_stream_without_event_times_has_a_processing_lag_alone() -> None:
    shop, _ = moments([arrival("shop", 0, None)], STREAMS, NOON_MS + 1_000)

    assert (shop.event_lag_s, shop.processing_lag_s) == (None, 1.0)


@pytest.mark.parametrize(
    ("text", "after_noon_ms"),
    [
        ("2026-05-01T12:00:00", 0),
        ("2026-05-01 12:00:01", 1_000),
        ("2026-05-01T14:00:00+02:00", 0),
        ("yesterday", None),
        ("", None),
    ],
)
def test_moment_is_utc_unless_it_says_otherwise(text: str, after_noon_ms: int | None) -> None:
    at_ms = parsed_moment(text)

    assert (None if at_ms is None else at_ms - NOON_MS) == after_noon_ms


def test_rows_are_counted_once_each_in_stretches_of_one_length() -> None:
    arrivals = [arrival("shop" if at % 3 else "ship", at, at, 2) for at in range(200)]

    counted = rates(arrivals, STREAMS)

    assert counted is not None
    assert len(counted.bins) <= BINS
    assert sum(one.rows[0] for one in counted.bins) == 2 * 133
    assert sum(one.rows[1] for one in counted.bins) == 2 * 67
    figure: Any = rate_figure(counted, STREAMS)
    assert [trace["name"] for trace in figure["data"]] == STREAMS
    assert figure["data"][0]["y"][0] == pytest.approx(counted.bins[0].rows[0] / 5)


def test_one_commit_is_no_rate() -> None:
    assert rates([arrival("shop", 0, 0)], STREAMS) is None
    assert rate_figure(None, STREAMS) is None


def test_processing_lag_rises_until_a_commit_comes_and_up_to_now() -> None:
    arrivals = [arrival("shop", 0, 0), arrival("shop", 60, 0), arrival("ship", 90, 0)]

    figure: Any = silence_figure(arrivals, STREAMS, NOON_MS + 100_000)

    shop, ship = figure["data"]
    assert shop["y"] == [0.0, 60.0, 0.0, 40.0]
    assert ship["y"] == [0.0, 10.0]
    assert [(one.stream, one.lasted_ms) for one in silences(arrivals)] == [("shop", 60_000)]
    assert silence_figure([], STREAMS, NOON_MS) is None
