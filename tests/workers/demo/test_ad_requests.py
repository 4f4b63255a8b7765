"""The demo's events are repeatable and agree between streams; odd parameters are refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.demo.ad_requests import (
    CLOCKS,
    IS_DELETED,
    KEY,
    OWN_FIELDS,
    PARTITION,
    REGIONS,
    STREAMS,
    AdRequests,
    Stream,
)
from workers.demo.streams import DemoStream
from workers.errors import InvalidInput
from workers.spark.inputs.source import JobSource

RUN = AdRequests(seed=7, run=1_767_225_600, rounds=12)


def delivered(requests: AdRequests, stream: Stream) -> list[dict[str, Any]]:
    return [row for n in range(requests.rounds) for row in requests.events(stream, n).to_pylist()]


@pytest.mark.parametrize("stream", STREAMS)
def test_round_is_the_same_whoever_makes_it_again(stream: Stream) -> None:
    again = AdRequests(seed=7, run=1_767_225_600, rounds=12)
    for number in (0, 5, 11):
        assert RUN.events(stream, number).equals(again.events(stream, number))
    assert not RUN.events(stream, 5).equals(
        AdRequests(seed=8, run=RUN.run, rounds=12).events(stream, 5)
    )


def test_streams_agree_on_the_region_of_a_request_and_have_clocks_of_their_own() -> None:
    seen: dict[str, Any] = {}
    for stream in STREAMS:
        for row in delivered(RUN, stream):
            assert seen.setdefault(row[KEY], row[PARTITION]) == row[PARTITION]
            assert row[CLOCKS[stream]] is not None
            assert not set(row) & {clock for one, clock in CLOCKS.items() if one != stream}
    assert set(seen.values()) == set(REGIONS)


def test_every_impression_arrives_and_only_some_requests_go_on() -> None:
    impressions, clicks, conversions = (
        {row[KEY] for row in delivered(RUN, stream)} for stream in STREAMS
    )

    assert len(impressions) == RUN.rounds * RUN.requests_per_round
    assert clicks < impressions
    assert conversions < impressions
    assert 0.3 < len(clicks) / len(impressions) < 0.5
    assert 0.05 < len(conversions) / len(impressions) < 0.35
    assert conversions - clicks


def test_events_are_late_out_of_order_and_sometimes_repeated() -> None:
    rows = delivered(RUN, "impression")
    times = [row["requested_at"] for row in rows]
    counts = Counter((row[KEY], row["requested_at"]) for row in rows)

    assert times != sorted(times)
    assert max(counts.values()) == 2
    first = RUN.events("impression", 0).num_rows
    assert first < RUN.requests_per_round


def test_repeated_event_carries_the_same_values() -> None:
    seen: dict[tuple[str, Any], dict[str, Any]] = {}
    for row in delivered(RUN, "click"):
        assert seen.setdefault((row[KEY], row["clicked_at"]), row) == row


@pytest.mark.parametrize("stream", STREAMS)
def test_corrections_are_later_by_the_streams_clock_and_some_come_first(stream: Stream) -> None:
    times: dict[str, list[Any]] = {}
    for row in delivered(RUN, stream):
        times.setdefault(row[KEY], []).append(row[CLOCKS[stream]])
    corrected = [found for found in times.values() if len(set(found)) == 2]

    assert corrected
    assert all(len(set(found)) <= 2 for found in times.values())
    assert any(found[0] > found[-1] for found in corrected) or stream == "conversion"


def test_some_conversions_are_taken_back() -> None:
    marks = Counter(row[IS_DELETED] for row in delivered(RUN, "conversion"))

    assert marks[True] > 0
    assert marks[False] > marks[True]


def test_stream_holds_its_own_columns_and_no_others() -> None:
    own = [{field.name for field in OWN_FIELDS[stream]} for stream in STREAMS]
    assert not own[0] & own[1]
    assert not own[1] & own[2]
    for stream, columns in zip(STREAMS, own, strict=True):
        mark = {IS_DELETED} if stream == "conversion" else set()
        assert set(RUN.events(stream, 3).column_names) == {KEY, PARTITION} | columns | mark


def test_round_outside_the_run_is_refused() -> None:
    for number in (-1, RUN.rounds):
        with pytest.raises(InvalidInput):
            RUN.events("click", number)


@given(
    seed=st.integers(0, 2**31),
    rounds=st.integers(1, 6),
    requests=st.integers(1, 30),
    stream=st.sampled_from(STREAMS),
)
@settings(max_examples=40, deadline=None)
def test_nothing_is_lost_whatever_the_size(
    seed: int, rounds: int, requests: int, stream: Stream
) -> None:
    run = AdRequests(seed=seed, run=0, rounds=rounds, requests_per_round=requests)
    keys = {row[KEY] for row in delivered(run, stream)}
    if stream == "impression":
        assert len(keys) == rounds * requests
    assert keys <= {row[KEY] for row in delivered(run, "impression")}


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "demo_stream", "stream": "view"},
        {"kind": "demo_stream"},
        {"kind": "demo_stream", "stream": "click", "rounds": 0},
        {"kind": "demo_stream", "stream": "click", "rounds": True},
        {"kind": "demo_stream", "stream": "click", "rounds": "40"},
        {"kind": "demo_stream", "stream": "click", "pace_s": -1},
        {"kind": "demo_stream", "stream": "click", "pace": 5},
    ],
)
def test_demo_stream_with_a_wrong_parameter_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        DemoStream.from_job(JobSource(source))
