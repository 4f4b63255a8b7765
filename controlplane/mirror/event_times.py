"""Ordering values of commits as times, where they can be."""

from __future__ import annotations

from datetime import UTC, datetime


def event_time_text(ordering: str | None) -> str | None:
    """An ordering value as a person reads it: a time where it can be one, else as it stands."""
    found = event_time(ordering)
    return found.isoformat(timespec="milliseconds") if found else ordering


def event_time(ordering: str | None) -> datetime | None:
    """Epoch seconds, milliseconds or microseconds by their size; ISO text; else None."""
    if not ordering:
        return None
    try:
        number = float(ordering)
    except ValueError:
        return _iso(ordering)
    for unit in (1, 1_000, 1_000_000):
        if 1e8 <= number / unit < 1e10:
            return datetime.fromtimestamp(number / unit, tz=UTC)
    return None


def is_later(one: str, other: str) -> bool:
    try:
        return float(one) > float(other)
    except ValueError:
        return one > other


def _iso(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
