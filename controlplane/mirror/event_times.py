"""Ordering values of commits as times, where they are: by the column's type, which makes them text,
or by the unit that the table declares for its numbers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from workers.options.time_units import AHEAD_MAX_MS, TimeUnit

AHEAD_MAX = timedelta(milliseconds=AHEAD_MAX_MS)


def event_time_text(ordering: str | None, unit: TimeUnit | None = None) -> str | None:
    """An ordering value as a person reads it: a time where it is one, else as it stands."""
    event = event_time(ordering, unit)
    return event.isoformat(timespec="milliseconds") if event else ordering


def event_time(ordering: str | None, unit: TimeUnit | None = None) -> datetime | None:
    """ISO text, or a number of a column with a unit; else None."""
    if not ordering:
        return None
    try:
        number = float(ordering)
    except ValueError:
        return _iso(ordering)
    if unit is None:
        return None
    try:
        return datetime.fromtimestamp(number / unit.per_s, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return None


def bounded(event: datetime | None, arrived: datetime) -> datetime | None:
    """The event's time, or that of its arrival where it claims to be of much later: one clock that
    is a year ahead would else make every lag nonsense.
    """
    if event is None or event <= arrived + AHEAD_MAX:
        return event
    return arrived


def ahead_s(event: datetime | None, now: datetime) -> float:
    """How far an event is ahead of the clock; 0 where it is not."""
    return max(0.0, (event - now).total_seconds()) if event is not None else 0.0


def is_later(ordering: str, other: str) -> bool:
    try:
        return float(ordering) > float(other)
    except ValueError:
        return ordering > other


def _iso(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
