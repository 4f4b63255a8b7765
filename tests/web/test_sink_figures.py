"""Figures of the Sinks page: the sequence of messages, and how transactions ended."""

from __future__ import annotations

from typing import Any

from controlplane.mirror.queries.sinks import TraceRow, TransactionRow
from tests.support.sinks import NOW_MS
from web import sink_figures as figures


def message(kind: str, at_ms: int, instant: str = "i1", partition: int | None = None) -> TraceRow:
    return TraceRow(
        at_ms=NOW_MS + at_ms,
        kind=kind,
        sender="x",
        partition=partition,
        instant=instant,
        detail="<b>",
    )


def sequence(*trace: TraceRow, partitions: range = range(2), missing: tuple[int, ...] = ()) -> Any:
    return figures.sequence(
        trace, partitions, missing=missing, waits_for="WRITE_STATUS", now_ms=NOW_MS + 9
    )


def test_messages_of_the_coordinator_reach_every_lane_and_reports_one() -> None:
    figure = sequence(message("START_COMMIT", 0), message("WRITE_STATUS", 5, partition=1))

    start, status = figure["data"]
    assert (start["name"], start["y"]) == ("START_COMMIT", [0, 1, 2, None])
    assert (status["name"], status["y"]) == ("WRITE_STATUS", [2, 0, None])
    assert "&lt;b&gt;" in start["text"][0]
    assert {start["marker"]["symbol"], status["marker"]["symbol"]} == {
        "triangle-down",
        "triangle-up",
    }


def test_missing_participant_has_the_first_lane_and_says_what_it_owes() -> None:
    figure = sequence(message("END_COMMIT", 0), partitions=range(60), missing=(57,))

    assert figure["layout"]["yaxis"]["ticktext"][1] == "<b>p57 missing</b>"
    assert len(figure["layout"]["yaxis"]["ticktext"]) == figures.LANES_MAX + 1
    assert figure["data"][-1]["name"] == "no WRITE_STATUS yet"
    assert figure["data"][-1]["y"] == [1]


def test_only_the_newest_transactions_are_drawn_and_ready_is_not() -> None:
    trace = [message("START_COMMIT", at, f"i{at}") for at in range(5)]

    assert [one.instant for one in figures.newest(trace)] == ["i3", "i4"]
    assert figures.newest([message("READY", 0, partition=1)]) == []
    assert sequence() is None


def test_outcomes_have_a_bar_each_in_order_and_a_pattern_beside_the_colour() -> None:
    done = [
        TransactionRow(
            instant=f"2026010200000{at}000",
            outcome=outcome,
            started_ms=NOW_MS + at * 60_000,
            ended_ms=0,
            took_ms=1_500,
            rows=7,
            bad_rows=0,
            reason="",
        )
        for at, outcome in enumerate(("committed", "timed_out", "committed", "aborted"))
    ]

    figure = figures.outcomes(done[::-1], address="/t/orders/timeline")

    assert figure is not None
    assert [one["name"] for one in figure["data"]] == ["committed", "aborted", "timed out"]
    assert figure["layout"]["xaxis"]["categoryarray"] == [one.instant for one in done]
    assert figure["data"][0]["y"] == [1.5, 1.5]
    assert len({one["marker"]["pattern"]["shape"] for one in figure["data"]}) == 3
    assert figures.outcomes([], address="/") is None
