"""What the Spark job at hand is for, in the words that its stages are shown with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

current_job_name: Final[ContextVar[str]] = ContextVar("current_job_name", default="")
"""Of the thread that runs the job; the same one hears of a Connect server's progress."""


@contextmanager
def job_named(name: str) -> Iterator[None]:
    """Jobs that this thread runs in the block are for that."""
    token = current_job_name.set(name)
    try:
        yield
    finally:
        current_job_name.reset(token)
