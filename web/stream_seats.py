"""How many live streams may be open: of one user, and of all together.

Each holds a connection of the web process and one to Redis until it ends. A node has one web
process, so the count is this process's own. A seat is free when its stream ended, or when nobody
holds it any more, so that a request that was broken off half-way keeps none.
"""

from __future__ import annotations

from weakref import WeakSet, finalize

from controlplane.instruments import LIVE_STREAMS

OF_USER_MAX = 20
OF_NODE_MAX = 400


class NoSeat(Exception):
    """The text says whose streams are too many, and what happens instead."""

    def __init__(self, message: str, *, is_of_node: bool) -> None:
        super().__init__(message)
        self.is_of_node = is_of_node


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


def take_seat(user: object) -> Seat:
    """For the user of this key. Raises NoSeat."""
    instead = "close one; until then this page asks every few seconds"
    if len(_taken) >= OF_NODE_MAX:
        text = f"{OF_NODE_MAX} live streams are open on this node, which is all it has; {instead}"
        raise NoSeat(text, is_of_node=True)
    if sum(1 for seat in _taken if seat.user == user) >= OF_USER_MAX:
        text = f"{OF_USER_MAX} live streams of this user are open, which is the most; {instead}"
        raise NoSeat(text, is_of_node=False)
    seat = Seat(user)
    _taken.add(seat)
    return seat


def free_seat(seat: Seat) -> None:
    _taken.discard(seat)
    seat.end()
