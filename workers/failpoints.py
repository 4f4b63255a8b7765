"""Failpoints: named places where a test may pause, kill or fail a process; see docs/stop-points.md.

Works only in a process started with SLUICE_ALLOW_STOP_POINTS=1, despite all other settings.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from workers.clock import SystemClock
from workers.errors import InvalidInput, StopPointRaised

POINTS = frozenset(
    {
        "after_start",
        "after_data",
        "before_validate",
        "before_publish",
        "after_decision",
        "after_publish",
        "marker_after_flush",
        "rollback_after_decision",
        "rollback_after_delete",
    }
)
_ACTIONS = frozenset({"pause", "kill", "raise"})
_POLL_S = 0.02
_PAUSE_MAX_S = 600.0


def hit_failpoint(point: str, *, writer: str | None = None) -> None:
    """Execute the instruction in SLUICE_STOP_POINTS for this point and writer; almost always
    nothing.

    Raises InvalidInput on a malformed instruction, StopPointRaised where the instruction is
    `raise`.
    """
    assert point in POINTS, point
    if os.environ.get("SLUICE_ALLOW_STOP_POINTS") != "1":
        return
    for order in _orders(os.environ.get("SLUICE_STOP_POINTS", "")):
        if order["point"] == point and order.get("writer") in (None, writer):
            _obey(order, point, writer)


def _orders(text: str) -> list[dict[str, str]]:
    if not text:
        return []
    try:
        orders = json.loads(text)
    except ValueError as error:
        raise InvalidInput("SLUICE_STOP_POINTS is not JSON", text=text) from error
    for order in orders:
        if order.get("point") not in POINTS or order.get("action") not in _ACTIONS:
            raise InvalidInput("unknown stop point or action", order=order, points=sorted(POINTS))
        if order["action"] == "pause" and not order.get("release"):
            raise InvalidInput("a pause needs a release file", order=order)
    return list(orders)


def _obey(order: dict[str, str], point: str, writer: str | None) -> None:
    match order["action"]:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise StopPointRaised("stopped by order", point=point, writer=writer)
        case _:
            _pause(Path(order["release"]), point)


def _pause(release: Path, point: str) -> None:
    """Wait for the release file; `<release>.reached` signals the test that the process is here."""
    release.with_name(release.name + ".reached").write_text(point)
    clock = SystemClock()
    deadline = clock.monotonic_s() + _PAUSE_MAX_S
    while not release.exists():
        if clock.monotonic_s() > deadline:
            raise StopPointRaised("the pause was not released", point=point, release=str(release))
        clock.sleep(_POLL_S)
