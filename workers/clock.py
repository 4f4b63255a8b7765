"""Time as a port: the wall clock in milliseconds, a monotonic clock, and instant times.

An instant time is 17 digits, `yyyyMMddHHmmssSSS`, in UTC (format page 2.2). Nothing else in the
engine reads a clock.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Protocol

from workers.errors import MalformedTable

InstantTime = str
"""17 digits; comparing two as text compares them in time."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS_SECONDS = 14
_DIGITS_MILLIS = 17


class Clock(Protocol):
    """Time as the engine asks for it: a wall clock that may jump, and one that never goes back."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC; may jump."""

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never goes back; for the caller's own deadlines."""

    def sleep(self, seconds: float) -> None:
        """Sleep for at least this time."""

    def wait(self, event: Event, seconds: float) -> None:
        """Wait until the event is set by another thread, at most for this time."""


class SystemClock:
    """This machine's clocks."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC; jumps when the machine's clock is set."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return seconds since some time of this machine; compare only with others of this
        process.
        """
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for at least this time, unless a signal's handler raises."""
        time.sleep(seconds)

    def wait(self, event: Event, seconds: float) -> None:
        """Wait until the event is set, at most for this time; the event shows whether it was
        set.
        """
        event.wait(seconds)


def format_instant(milliseconds: int) -> InstantTime:
    """Format milliseconds since 1970 as 17 digits, UTC (format page 2.2); `parse_instant` is its
    inverse.
    """
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.strftime("%Y%m%d%H%M%S") + f"{milliseconds % 1000:03d}"


def parse_instant(instant: InstantTime) -> int:
    """Return milliseconds since 1970 of a 17-digit instant, or of an old-style one with 14.

    Raises MalformedTable when the text is neither.
    """
    if not (instant.isascii() and instant.isdigit()):
        raise MalformedTable("instant time is not a number", instant=instant)
    if len(instant) not in (_DIGITS_SECONDS, _DIGITS_MILLIS):
        raise MalformedTable("instant time has neither 14 nor 17 digits", instant=instant)
    try:
        # Ten times as fast as `strptime`, and each row of a list asks twice.
        moment = datetime.fromisoformat(f"{instant[:8]}T{instant[8:_DIGITS_SECONDS]}+00:00")
    except ValueError as error:
        raise MalformedTable("instant time is not a valid date", instant=instant) from error
    since = moment - _EPOCH
    seconds = since.days * 86_400 + since.seconds
    return seconds * 1000 + int(instant[_DIGITS_SECONDS:] or "0")


def next_instant(clock: Clock, last: InstantTime | None) -> InstantTime:
    """Return max(clock, last + 1): unique and increasing as long as the caller holds the table
    lock.
    """
    now = clock.now_ms()
    return format_instant(now if last is None else max(now, parse_instant(last) + 1))
