"""Numbers and ages in health checks."""

from __future__ import annotations

from datetime import datetime, timedelta

from workers.clock import InstantTime, parse_instant


def age_of(instant: InstantTime, now: datetime) -> float:
    return now.timestamp() - parse_instant(instant) / 1000


def ago(instant: InstantTime, now: datetime) -> str:
    return f"{spoken(age_of(instant, now))} ago"


def many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def spoken(seconds: float) -> str:
    """One unit is enough to judge by: `4 s`, `12 min`, `3 h`, `9 d`."""
    span = timedelta(seconds=max(0.0, seconds))
    if span < timedelta(minutes=1):
        return f"{int(span.total_seconds())} s"
    if span < timedelta(hours=1):
        return f"{int(span.total_seconds() // 60)} min"
    if span < timedelta(days=1):
        return f"{int(span.total_seconds() // 3600)} h"
    return f"{span.days} d"
