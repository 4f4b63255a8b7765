"""Errors of ours leave the source as one sentence: what Spark shows of a Python process that fails
is its whole traceback, unless that process is told to hide it.

The process ends with the error, so nobody else's traceback is hidden.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from workers.errors import LakehouseError

_HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""PySpark looks at it when it tells of an error."""


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """A block whose errors go on as they are, those of ours without what led to them."""
    try:
        yield
    except LakehouseError as error:
        if _is_process_of_spark():
            os.environ[_HIDE] = "true"
        raise error from None


def _is_process_of_spark() -> bool:
    """One that Spark started to plan or run Python; a user's own program keeps its tracebacks."""
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    return started is not None and str(started.name).startswith("pyspark.")
