"""One `up` or `down` of a node at a time: a second one is told so at once."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from controlplane.node.places import Places


class NotMyTurn(Exception):
    """Another `up` or `down` of this node is running."""


@contextmanager
def turn(places: Places) -> Iterator[None]:
    """Held until the block ends or the process dies. Raises NotMyTurn."""
    places.create()
    with (places.run / "turn.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotMyTurn(
                "another `up` or `down` of this node is running: wait until it ends"
            ) from error
        yield
