"""Streams over time, out of what their commits told: how fresh each was at a stated moment, how
fast it came, and how long it had been silent. Pure; SVG traces only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.mirror.group_rows import GroupCommitRow
from web.chart_marks import Figure
from web.stream_figures import by_arrival, lag_lines, stream_line, utc_text

BINS = 40
_WHOLE_MS = 1_000
"""A stretch has whole seconds."""


@dataclass(frozen=True, slots=True)
class StreamMoment:
    """One stream as it was at a moment."""

    stream: str
    instant: str
    """Of its newest commit then; empty where none is known that is as old."""
    arrived_ms: int | None
    event_ms: int | None
    """Its newest event by then; None where its ordering is no time."""
    processing_lag_s: float | None
    event_lag_s: float | None
    rows: int
    """Of its commits until then, as far as they are known."""


@dataclass(frozen=True, slots=True)
class RateBin:
    start_ms: int
    rows: tuple[int, ...]
    """By stream."""


@dataclass(frozen=True, slots=True)
class Rates:
    width_ms: int
    bins: tuple[RateBin, ...]
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class Silence:
    """How long a stream had brought nothing when a commit of it came."""

    stream: str
    instant: str
    arrived_ms: int
    lasted_ms: int


def parsed_moment(text: str) -> int | None:
    """Epoch ms of a date and time in UTC; None for what is none."""
    try:
        moment = datetime.fromisoformat(text.strip()[:32])
    except ValueError:
        return None
    at = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(at.timestamp() * 1000)


def moments(
    arrivals: Sequence[GroupCommitRow], streams: Sequence[str], at_ms: int
) -> list[StreamMoment]:
    """How fresh each stream was at `at_ms`; `arrivals` are oldest first."""
    until = [one for one in arrivals if one.arrived_ms <= at_ms]
    return [_moment(name, [one for one in until if one.group == name], at_ms) for name in streams]


def _moment(stream: str, own: Sequence[GroupCommitRow], at_ms: int) -> StreamMoment:
    if not own:
        return StreamMoment(stream, "", None, None, None, None, 0)
    event_ms = max((one.greatest_ms for one in own if one.greatest_ms is not None), default=None)
    return StreamMoment(
        stream=stream,
        instant=own[-1].instant,
        arrived_ms=own[-1].arrived_ms,
        event_ms=event_ms,
        processing_lag_s=(at_ms - own[-1].arrived_ms) / 1000,
        event_lag_s=None if event_ms is None else (at_ms - event_ms) / 1000,
        rows=sum(one.rows for one in own),
    )


def rates(arrivals: Sequence[GroupCommitRow], streams: Sequence[str]) -> Rates | None:
    """Rows that came in each of some equal stretches; None with fewer than two commits."""
    if len(arrivals) < 2 or arrivals[-1].arrived_ms == arrivals[0].arrived_ms:
        return None
    first_ms = arrivals[0].arrived_ms
    span_ms = arrivals[-1].arrived_ms - first_ms + 1
    width_ms = -(-span_ms // (BINS * _WHOLE_MS)) * _WHOLE_MS
    count = (arrivals[-1].arrived_ms - first_ms) // width_ms + 1
    places = {name: at for at, name in enumerate(streams)}
    counts = [[0] * len(streams) for _ in range(count)]
    for arrival in arrivals:
        if arrival.group in places:
            counts[(arrival.arrived_ms - first_ms) // width_ms][places[arrival.group]] += (
                arrival.rows
            )
    bins = (RateBin(first_ms + at * width_ms, tuple(own)) for at, own in enumerate(counts))
    return Rates(width_ms, tuple(bins))


def rate_figure(counted: Rates | None, streams: Sequence[str]) -> Figure | None:
    """Rows per second of each stream."""
    if counted is None:
        return None
    width_s = counted.width_ms / 1000
    x = [utc_text(one.start_ms + counted.width_ms // 2) for one in counted.bins]
    data = [
        stream_line(
            number,
            name,
            x,
            [round(one.rows[number] / width_s, 3) for one in counted.bins],
            "%{x}<br>%{y} rows/s",
        )
        for number, name in enumerate(streams)
        if any(one.rows[number] for one in counted.bins)
    ]
    return by_arrival(data, "rows/s") if data else None


def silences(arrivals: Sequence[GroupCommitRow]) -> list[Silence]:
    """Before each commit that is not the first known one of its stream, oldest first."""
    last: dict[str, int] = {}
    every = []
    for arrival in arrivals:
        if arrival.group in last:
            lasted_ms = arrival.arrived_ms - last[arrival.group]
            every.append(Silence(arrival.group, arrival.instant, arrival.arrived_ms, lasted_ms))
        last[arrival.group] = arrival.arrived_ms
    return every


def silence_figure(
    arrivals: Sequence[GroupCommitRow], streams: Sequence[str], now_ms: int
) -> Figure | None:
    """Processing lag over time: it rises with the clock and falls to nothing with each commit."""
    teeth = {name: _teeth(arrivals, name, now_ms) for name in streams}
    if not any(lag > 0 for own in teeth.values() for _, lag in own):
        return None
    return lag_lines(teeth, streams, "since its last commit")


def _teeth(arrivals: Sequence[GroupCommitRow], stream: str, now_ms: int) -> list[tuple[int, float]]:
    points: list[tuple[int, float]] = []
    last_ms: int | None = None
    for at_ms in [one.arrived_ms for one in arrivals if one.group == stream]:
        if last_ms is not None:
            points.append((at_ms, (at_ms - last_ms) / 1000))
        points.append((at_ms, 0.0))
        last_ms = at_ms
    if last_ms is not None:
        points.append((max(now_ms, last_ms), max(0, now_ms - last_ms) / 1000))
    return points
