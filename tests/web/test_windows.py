"""The address of a timeline is its only state, and whatever stands there shows something."""

from __future__ import annotations

import pytest

from web.charts import LaneBy
from web.windows import bounds, fitted, parse_query, to_instant

NOW = 1_790_000_000_000


def test_a_fixed_window_stands_still() -> None:
    query = parse_query({"from": to_instant(NOW - 5_000_000), "to": to_instant(NOW - 1_000_000)})

    assert not query.is_following
    assert bounds(query, now_ms=NOW) == (NOW - 5_000_000, NOW - 1_000_000)


def test_a_named_range_follows_the_clock() -> None:
    query = parse_query({"range": "1h"})

    since_ms, until_ms = bounds(query, now_ms=NOW)
    assert query.is_following
    assert since_ms == NOW - 3_600_000
    assert until_ms > NOW


@pytest.mark.parametrize(
    "address",
    [
        {"from": "20260101000000000"},
        {"from": "20260101000000000", "to": "20250101000000000"},
        {"from": "99999999999999999", "to": "x"},
        {"range": "all"},
        {"by": "colour", "action": "drop table", "state": "<b>", "sel": "../etc"},
    ],
)
def test_nonsense_falls_back_on_the_last_day(address: dict[str, str]) -> None:
    query = parse_query(address)

    assert bounds(query, now_ms=NOW)[0] == NOW - 86_400_000
    assert (query.lane_by, query.action, query.state, query.selected) == (LaneBy.ACTION, "", "", "")


def test_a_young_table_fills_the_default_window() -> None:
    since_ms, until_ms = fitted(
        [NOW - 60_000, NOW - 30_000], since_ms=NOW - 86_400_000, until_ms=NOW, now_ms=NOW
    )

    assert since_ms == NOW - 62_000
    assert until_ms == NOW + 2_000


def test_a_pending_instant_from_long_ago_does_not_stretch_the_window() -> None:
    since_ms, _ = fitted([1, NOW - 10], since_ms=NOW - 86_400_000, until_ms=NOW, now_ms=NOW)

    assert since_ms == NOW - 86_400_000 - 86_400_000 // 30
