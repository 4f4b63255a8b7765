"""On executors: a task of a write that is in vain keeps its slot until its job is cancelled.

It must not fail, which Spark would answer with a retry, nor end, which would start the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

from workers.clock import InstantTime, SystemClock
from workers.errors import LakehouseError
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.timeline.decision_lookup import is_gone
from workers.write.context import WriteContext

_HELD_S: Final = 30.0
_log = logging.getLogger(__name__)


@contextmanager
def keeping_slot(is_in_vain: Callable[[], bool]) -> Iterator[None]:
    """Whatever fails in the block once the work is in vain fails because of that: its markers are
    refused, and what was staged is gone. Raises it when nobody cancelled the task.
    """
    try:
        yield
    except (LakehouseError, OSError):
        if is_in_vain():
            await_cancelling()
        raise


def keeping_slot_of(context: WriteContext) -> AbstractContextManager[None]:
    """For a task of a write, which is in vain once its instant is rolled back."""
    return keeping_slot(partial(is_rolled_back, open_storage(context.location), context.instant))


def await_cancelling() -> None:
    """Not for ever: the driver may have died."""
    SystemClock().sleep(_HELD_S)


def is_rolled_back(storage: Storage, instant: InstantTime) -> bool:
    """Whether that is decided; also False when storage does not tell."""
    try:
        return is_gone(storage, instant)
    except (OSError, LakehouseError) as error:
        _log.warning(
            "the decision of the instant cannot be checked: instant=%s error=%s", instant, error
        )
        return False
