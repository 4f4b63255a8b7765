"""When a schedule is due, computed from what it says alone: no database, no clock.

Cron expressions have five fields and the rules of Debian's cron where clocks are set forward or
back (`cronsim`). A time that the clocks skip is due right after the skip; a time that comes twice
is due the first time. Expressions whose minute or hour begins with `*` go by the time that passes:
nothing in a skipped hour, and twice in a doubled one. Intervals go by the time that passes, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from controlplane.errors import InvalidRequest

EVERY_S_MIN = 60
EVERY_S_MAX = 366 * 86_400
CRON_CHARS_MAX = 100
MISSED_COUNTED_MAX = 1_000
_STEP = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Due at `begins_at` and every `every_s` seconds after it, whatever each run takes."""

    begins_at: datetime
    every_s: int

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Due times later than `moment`, in UTC, without an end."""
        step = timedelta(seconds=self.every_s)
        passed = max(-1, (moment - self.begins_at) // step)
        due_at = (self.begins_at + (passed + 1) * step).astimezone(UTC)
        while True:
            yield due_at
            due_at += step

    def latest(self, moment: datetime) -> datetime:
        """The last due time that is not later than `moment`, which is not before `begins_at`."""
        step = timedelta(seconds=self.every_s)
        return (self.begins_at + (moment - self.begins_at) // step * step).astimezone(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Due when the expression says, by the clocks of a time zone."""

    expression: str
    time_zone: str

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Due times later than `moment`, in UTC; ends where none comes within fifty years."""
        local = moment.astimezone(ZoneInfo(self.time_zone))
        for due_at in CronSim(self.expression, local):
            yield due_at.astimezone(UTC)

    def latest(self, moment: datetime) -> datetime:
        """The last due time that is not later than `moment`, where there is one."""
        local = (moment + _STEP).astimezone(ZoneInfo(self.time_zone))
        earlier = (each.astimezone(UTC) for each in CronSim(self.expression, local, reverse=True))
        return next(due_at for due_at in earlier if due_at <= moment)

    @property
    def words(self) -> str:
        """The expression in English."""
        return CronSim(self.expression, datetime(2000, 1, 1, tzinfo=UTC)).explain()


DueTimes = Interval | Cron


def checked_interval(every_s: int) -> int:
    """Refuse, as InvalidRequest, one that is out of bounds."""
    if not EVERY_S_MIN <= every_s <= EVERY_S_MAX:
        raise InvalidRequest(
            "the interval is out of bounds", every_s=every_s, least=EVERY_S_MIN, most=EVERY_S_MAX
        )
    return every_s


def checked_cron(expression: str, time_zone: str) -> Cron:
    """Refuse, as InvalidRequest, an expression that is none or is never due, and a time zone
    that nobody knows.
    """
    if time_zone not in _time_zones():
        raise InvalidRequest("unknown time zone", time_zone=time_zone[:64])
    words = " ".join(expression.split())
    if len(words) > CRON_CHARS_MAX:
        raise InvalidRequest("the cron expression is too long", most=CRON_CHARS_MAX)
    if len(words.split()) != 5:
        raise InvalidRequest(
            "a cron expression must have five fields: minute, hour, day of the month, "
            "month, day of the week",
            cron=words,
        )
    cron = Cron(expression=words, time_zone=time_zone)
    try:
        first = next(cron.after(datetime(2000, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        raise InvalidRequest(f"invalid cron expression: {error}", cron=words) from error
    if first is None:
        raise InvalidRequest("this cron expression is never due", cron=words)
    return cron


def next_due(times: DueTimes, moment: datetime, count: int = 5) -> list[datetime]:
    """The next `count` due times after `moment`, in UTC."""
    return list(islice(times.after(moment), count))


def missed_between(times: DueTimes, first: datetime, last: datetime) -> int:
    """How many due times there are from `first` on and before `last`, both of them due times; at
    most `MISSED_COUNTED_MAX`.
    """
    if isinstance(times, Interval):
        passed = (last - first) // timedelta(seconds=times.every_s)
        return min(MISSED_COUNTED_MAX, passed)
    later = islice(times.after(first), MISSED_COUNTED_MAX)
    return (
        next(
            (number for number, due_at in enumerate(later, 1) if due_at >= last), MISSED_COUNTED_MAX
        )
        if first < last
        else 0
    )


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())
