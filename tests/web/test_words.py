"""How the dashboard writes ages, sizes and shares."""

from __future__ import annotations

import pytest
from django.template import Context, Template
from django.test import RequestFactory

from web.sparkline import sparkline
from web.templatetags import lake


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (7_500, "2 h 5 min"),
     (266_400, "3 d 2 h"), (-5, "-5 s"), (None, "never")],
)  # fmt: skip
def test_age(seconds: float | None, expected: str) -> None:
    assert lake.age(seconds) == expected


@pytest.mark.parametrize("style", ["time", "full", "ago"])
def test_comma_may_follow_a_moment_without_a_space(style: str) -> None:
    text = Template("as of {% moment at style %}, by ada").render(
        Context({"at": 1_700_000_000_000, "style": style})
    )

    assert "</time>, by ada" in text


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(75.0, "1 min 15 s"), (0.4, "0 s"), (-0.4, "0 s"), (-42.9, "42 s ahead")],
)
def test_lag_of_events_from_the_future_is_said_in_words(seconds: float, expected: str) -> None:
    assert lake.lag(seconds) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (4_100, "4.1 kB"), (1_300_000_000, "1.3 GB")],
)
def test_size(size: int | None, expected: str) -> None:
    assert lake.size(size) == expected


def test_one_missing_row_in_a_million_is_not_rounded_away() -> None:
    assert lake.percent(99.9999) == "99.9%"
    assert lake.percent(100.0) == "100%"


def test_an_instant_is_shown_in_utc_with_its_milliseconds() -> None:
    shown = Template("{% moment '20261120140322123' 'full' %}").render(Context())

    assert "20 Nov 2026, 14:03:22<small>.123 UTC" in shown
    assert 'datetime="2026-11-20T14:03:22.123Z"' in shown


def test_what_is_no_instant_is_never() -> None:
    assert "never" in Template("{% moment '2026112014032x' %}").render(Context())


def test_query_keeps_the_rest_of_the_address() -> None:
    request = RequestFactory().get("/?by=writer&sel=1&range=1h")

    shown = Template("{% query sel='' range='6h' %}").render(Context({"request": request}))

    assert shown == "?by=writer&amp;range=6h"


def test_unknown_state_still_gets_a_word_and_an_icon() -> None:
    shown = Template("{% status 'operation' 'melted' %}").render(Context())

    assert "melted" in shown
    assert "#suspect" in shown


def test_sparkline_leaves_a_mark_where_nobody_answered() -> None:
    line = sparkline([0, 4, None, 2], width=300, height=44)

    assert line.peak == 4
    assert line.points.split() == ["0.0,42.0", "100.0,2.0", "300.0,22.0"]
    assert line.gaps == ("200.0",)
