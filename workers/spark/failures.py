"""What a failed Spark job meant, and how to be sure that nothing of it runs any more."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from workers import errors
from workers.clock import Clock, InstantTime
from workers.errors import LakehouseError
from workers.markers.store import read_markers
from workers.spark.process import TASK_KILL_WINDOW_S
from workers.table.table import Table

_OUR_ERROR = re.compile(r"workers\.errors\.(\w+): ([^\n]*)")
_log = logging.getLogger(__name__)


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """What runs in the block bears the tag, by which `stop_tasks` finds it."""
    spark.addTag(tag)
    try:
        yield
    finally:
        with suppress(PySparkException):
            spark.removeTag(tag)


def stop_tasks(spark: SparkSession, tag: str, clock: Clock) -> None:
    """End what the failed job still runs, so that the rollback's listing sees everything."""
    try:
        spark.interruptTag(tag)
    except PySparkException as error:
        _log.warning("could not interrupt the failed job: tag=%s error=%s", tag, error)
    clock.sleep(TASK_KILL_WINDOW_S)


def await_losers(table: Table, instant: InstantTime, kept: Collection[str]) -> None:
    """Let attempts die that Spark did not take, so that their files are dropped for good.

    Spark kills a speculative attempt's rival when one of the two has succeeded, but its Python
    worker lives on for a moment and may have its marker and not its file yet. `kept` are the paths
    of the attempts that were taken.
    """
    markers = read_markers(table.storage, instant)
    if any(marker.data_path not in kept for marker in markers):
        table.ports.clock.sleep(TASK_KILL_WINDOW_S)


def ours_of(error: PySparkException | Py4JError) -> LakehouseError | None:
    """The engine's own exception behind a failed task, of which Spark kept only the text."""
    found = _OUR_ERROR.findall(str(error))
    if not found:
        return None
    name, message = found[-1]
    kind: Any = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, LakehouseError)):
        return None
    ours = kind(message)
    assert isinstance(ours, LakehouseError)
    return ours
