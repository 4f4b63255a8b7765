"""How far a stream is behind: in event time, and in processing time. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.mirror.models import StreamStatus
from workers.clock import InstantTime, parse_instant


def event_of(status: StreamStatus) -> datetime | None:
    """Where the lag that was measured counts from; None where the ordering is no time."""
    if status.lag_s is None:
        return None
    return status.sampled_at - timedelta(seconds=status.lag_s)


def processing_lag_s(last_at: InstantTime | None, now: datetime) -> float | None:
    """From the newest commit to now."""
    return now.timestamp() - parse_instant(last_at) / 1000 if last_at else None
