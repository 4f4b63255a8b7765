"""The health check of hosts' clocks: differences that commits report of the holders of the lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import ago
from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime, format_instant
from workers.json_text import read_json
from workers.timeline.metadata import LOCK_KEY

TITLE: Final = "Clocks of the writers' hosts agree"
COMMITS_READ: Final = 200
SEEN_WITHIN: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one commit reports."""

    instant: InstantTime
    completed_at: InstantTime
    host: str
    ahead_ms: int
    """How far the clock of the other holder is ahead of `host`."""
    other: str
    """Its host where that is known, else its writer."""


def host_clock_checks(table: Table, now: datetime) -> list[Check]:
    """Name the hosts of the greatest difference that the newest commits of the last day report; no
    check where no commit of a day says under which lock it was decided.
    """
    since = format_instant(int((now - SEEN_WITHIN).timestamp() * 1000))
    commits = (
        InstantRecord.objects.filter(
            table=table, state="completed", action__in=DATA_ACTIONS, completed_at__gte=since
        )
        .order_by("-completed_at")
        .values_list("requested_at", "completed_at", "metadata__process", "metadata__extra")
    )
    rows = [
        (instant, completed_at or instant, _host_of(process), lock)
        for instant, completed_at, process, extra in commits[:COMMITS_READ]
        if (lock := _lock_of(extra))
    ]
    if not rows:
        return []
    hosts = {instant: host for instant, _, host, _ in rows}
    seen = [skew for row in rows if (skew := _seen(*row, hosts)) is not None]
    return [_check(max(seen, key=lambda skew: abs(skew.ahead_ms), default=None), now)]


def _check(worst: _Seen | None, now: datetime) -> Check:
    if worst is None:
        sentence = "no commit of the last day found clocks more than 2 s apart"
        return Check(name="host-clocks", title=TITLE, verdict="good", sentence=sentence)
    side = "ahead of" if worst.ahead_ms > 0 else "behind"
    return Check(
        name="host-clocks",
        title=TITLE,
        verdict="warn",
        sentence=f"the clock of {worst.other} is {abs(worst.ahead_ms):,} ms {side} that of "
        f"{worst.host or 'the writer'}, as a commit {ago(worst.completed_at, now)} reports",
        advice="Writes stay correct, but commit times are not comparable. Synchronize the clocks "
        "of all writing hosts by NTP.",
        instant=worst.instant,
    )


def _lock_of(extra: object) -> Mapping[str, Any]:
    if not isinstance(extra, dict):
        return {}
    try:
        lock = read_json(str(extra.get(LOCK_KEY) or "{}"))
    except ValueError:
        return {}
    return lock if isinstance(lock, dict) else {}


def _host_of(process: object) -> str:
    return str(process.get("host") or "") if isinstance(process, dict) else ""


def _seen(
    instant: InstantTime,
    completed_at: InstantTime,
    host: str,
    lock: Mapping[str, Any],
    hosts: Mapping[InstantTime, str],
) -> _Seen | None:
    skew = lock.get("skew")
    ahead_ms = skew.get("ahead_ms") if isinstance(skew, dict) else None
    if not isinstance(skew, dict) or type(ahead_ms) is not int:
        return None
    writer = str(skew.get("writer") or "")
    other = hosts.get(str(skew.get("instant"))) or (f"writer {writer}" if writer else "its rival")
    return _Seen(instant, completed_at, host, ahead_ms, other)
