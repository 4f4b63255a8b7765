"""Charts are pure: rows in, a Plotly figure out, valid and of bounded size."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import pytest

from web.charts import MARKS_MAX, SUB_LANES_MAX, Cell, LaneBy, bin_width_ms, cells, density, gantt
from web.windows import to_instant

NOON = 1_790_000_000_000


@dataclass(frozen=True, slots=True)
class Bar:
    """A stand-in for a timeline row."""

    began_ms: int
    ended_ms: int | None
    action: str = "deltacommit"
    operation_type: str = "UPSERT"
    writer: str | None = "ingest"
    stream: str | None = None
    rows: int | None = 5
    is_archived: bool = False
    told_state: str = ""
    keeps: str = ""
    undone_by: str | None = None

    @property
    def requested_at(self) -> str:
        return self.keeps or to_instant(self.began_ms)

    @property
    def state(self) -> str:
        return self.told_state or ("completed" if self.ended_ms else "inflight")

    @property
    def is_point(self) -> bool:
        return bool(self.keeps)

    @property
    def is_undone(self) -> bool:
        return self.state in ("rolled_back", "conflicted")


def draw(*bars: Bar, by: LaneBy = LaneBy.ACTION) -> dict[str, object]:
    return gantt(bars, lane_by=by, since_ms=NOON, until_ms=NOON + 600_000, now_ms=NOON + 600_000)


def traces(figure: dict[str, object]) -> dict[str, dict[str, list[object]]]:
    return {trace["name"]: trace for trace in figure["data"]}  # type: ignore[attr-defined]


def test_bar_reaches_from_requested_to_completed_in_utc_text() -> None:
    figure = draw(Bar(NOON, NOON + 4_000))

    done = traces(figure)["completed"]

    # Text and not a number, because Plotly would show a number in the reader's time zone.
    assert done["base"] == ["2026-09-21 14:13:20.000"]
    assert done["x"] == [4_000]


def test_pending_bar_reaches_to_now_and_is_hatched() -> None:
    pending = traces(draw(Bar(NOON + 100_000, None)))["inflight"]

    assert pending["x"] == [500_000]
    assert pending["marker"]["pattern"]["shape"] == "/"  # type: ignore[call-overload]


def test_savepoint_is_a_flag_when_it_was_made_tied_to_its_commit() -> None:
    """It was a bar from the commit's time, which is its instant time, to when it was made."""
    commit = Bar(NOON, NOON + 4_000)
    kept = Bar(NOON + 90_000, NOON + 90_000, action="savepoint", keeps=commit.requested_at)

    figure = draw(commit, kept)

    kinds = [(name, str(trace["type"])) for name, trace in traces(figure).items()]
    assert kinds == [("completed", "bar"), ("savepoint", "scatter")]
    flag = traces(figure)["savepoint"]
    assert flag["x"] == ["2026-09-21 14:14:50.000"]
    assert flag["customdata"][0][0] == commit.requested_at  # type: ignore[index]
    [tie] = [shape for shape in figure["layout"]["shapes"] if shape["name"] == "tie"]  # type: ignore[index]
    assert (tie["x0"], tie["x1"]) == ("2026-09-21 14:13:24.000", "2026-09-21 14:14:50.000")


@pytest.mark.parametrize(
    ("state", "symbol"), [("conflicted", "x"), ("rolled_back", "triangle-left")]
)
def test_what_was_taken_back_ends_in_a_mark_of_its_own(state: str, symbol: str) -> None:
    figure: dict[str, Any] = draw(
        Bar(NOON, NOON + 9_000, told_state=state, undone_by="20260921141330000")
    )

    bar, end = figure["data"]

    assert bar["type"] == "bar"
    assert bar["marker"]["pattern"]["shape"]
    assert (end["marker"]["symbol"], end["x"]) == (symbol, ["2026-09-21 14:13:29.000"])
    assert "by 20260921141330000" in end["customdata"][0][3]


def test_bars_that_overlap_in_a_lane_lie_above_each_other_and_others_share_a_row() -> None:
    figure = draw(
        Bar(NOON, NOON + 9_000), Bar(NOON + 2_000, NOON + 5_000), Bar(NOON + 20_000, NOON + 21_000)
    )

    assert traces(figure)["completed"]["y"] == [0, 1, 0]


def test_lane_is_never_higher_than_its_bound() -> None:
    figure = draw(*(Bar(NOON + at, NOON + 60_000) for at in range(40)))

    assert max(traces(figure)["completed"]["y"]) == SUB_LANES_MAX - 1  # type: ignore[type-var]


def test_lanes_follow_the_chosen_property_and_nameless_come_last() -> None:
    figure = draw(
        Bar(NOON, NOON + 1, writer=None), Bar(NOON, NOON + 1, writer="b"), Bar(NOON, NOON + 1),
        by=LaneBy.WRITER,
    )  # fmt: skip

    assert figure["layout"]["yaxis"]["ticktext"] == ["b", "ingest", "unnamed writer"]  # type: ignore[index]


def test_names_from_a_table_are_escaped_before_plotly_reads_them_as_markup() -> None:
    figure = draw(Bar(NOON, NOON + 1, writer="<b>x</b><a href='javascript:1'>"), by=LaneBy.WRITER)

    shown = json.dumps(figure)
    assert "<a href" not in shown
    assert "<b>x" not in shown


@pytest.mark.parametrize("by", list(LaneBy))
def test_figures_are_valid_for_plotly(by: LaneBy) -> None:
    bars = [
        Bar(NOON, NOON + 4_000),
        Bar(NOON + 50, None, action="clean", stream="click"),
        Bar(NOON + 60, NOON + 70, told_state="conflicted"),
        Bar(NOON + 90, NOON + 90, action="savepoint", keeps=to_instant(NOON)),
    ]

    go.Figure(draw(*bars, by=by))
    go.Figure(
        density(
            cells(bars, lane_by=by, bin_ms=1_000),
            lane_by=by,
            since_ms=NOON,
            until_ms=NOON + 60_000,
            now_ms=NOON,
            bin_ms=1_000,
        )
    )


def test_as_many_bars_as_a_window_may_hold_stay_under_a_megabyte() -> None:
    figure = draw(*(Bar(NOON + at * 190, NOON + at * 190 + 900) for at in range(MARKS_MAX)))

    assert len(json.dumps(figure)) < 600_000


def test_heatmap_counts_per_lane_and_bin() -> None:
    figure = density(
        [Cell("commit", NOON, 4, 1), Cell("rollback", NOON + 1_000, 2, 0)],
        lane_by=LaneBy.ACTION, since_ms=NOON, until_ms=NOON + 2_000, now_ms=NOON, bin_ms=1_000,
    )  # fmt: skip

    assert figure["data"][0]["z"] == [[4, None], [None, 2]]


@pytest.mark.parametrize(
    ("window_ms", "expected_ms"),
    [
        (60_000, 1_000),
        (3_600_000, 15_000),
        (86_400_000, 300_000),
        (86_400_000 * 3, 3_600_000),
        (86_400_000 * 30, 10_800_000),
        (86_400_000 * 90, 86_400_000),
    ],
)
def test_bins_are_round(window_ms: int, expected_ms: int) -> None:
    assert bin_width_ms(NOON, NOON + window_ms) == expected_ms
