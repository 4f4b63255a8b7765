"""Limit the live streams of this web process: of one user, and of all together.

Each holds a connection of the process until it ends. Another web process of the node has a count of
its own, so the limits of a node grow with its web processes. A seat is free when its stream ended,
or when nothing refers to it: an interrupted request keeps none.
"""

from __future__ import annotations

from threading import Lock
from weakref import WeakSet, finalize

from django.conf import settings

from controlplane.errors import ControlPlaneError
from controlplane.instruments import LIVE_STREAMS

OF_USER_MAX = 20


RETRY_AFTER_S = 10


class NoStream(ControlPlaneError):
    """This node has none to give now; the text says why. Ask every few seconds instead."""

    code = "no_live_stream"


class NoSeat(ControlPlaneError):
    """This person has as many as one may have."""

    code = "too_many_streams"


class Seat:
    """Belongs to one open stream."""

    __slots__ = ("__weakref__", "end", "user")

    def __init__(self, user: object) -> None:
        self.user = user
        LIVE_STREAMS.inc()
        self.end = finalize(self, LIVE_STREAMS.dec)
        """Takes it out of the count: once, by whoever comes first."""
        self.end.atexit = False


_taken: WeakSet[Seat] = WeakSet()
_counting = Lock()


def take_seat(user: object) -> Seat:
    """For the user of this key. Raises NoStream, NoSeat."""
    with _counting:
        return _take_seat(user)


def _take_seat(user: object) -> Seat:
    instead = "close one; until then this page asks every few seconds"
    most = settings.SLUICE_LIVE_STREAMS_MAX
    if len(_taken) >= most:
        text = f"{most} live streams are open in this web process, its maximum; {instead}"
        raise NoStream(text)
    if sum(1 for seat in _taken if seat.user == user) >= OF_USER_MAX:
        text = f"{OF_USER_MAX} live streams of this user are open here, the maximum; {instead}"
        raise NoSeat(text)
    seat = Seat(user)
    _taken.add(seat)
    return seat


def free_seat(seat: Seat) -> None:
    _taken.discard(seat)
    seat.end()
