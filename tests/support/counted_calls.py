"""Counts function calls. The same work makes the same number of calls on every machine, fast or
slow, idle or busy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


class TooManyCalls(BaseException):
    """Not an Exception, so that no handler in the product catches it."""


def count_calls(work: Callable[[], T], *, calls_max: int | None = None) -> tuple[T, int]:
    """Run `work` in this thread. Return its result and the number of function calls it made.

    Functions written in C count, too. What they do inside does not.
    Raises TooManyCalls as soon as there are more than `calls_max`.
    """
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls_max is not None and calls > calls_max:
            raise TooManyCalls(f"more than {calls_max} calls")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        result = work()
    finally:
        sys.setprofile(before)
    return result, calls
