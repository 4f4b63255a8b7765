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
from workers.spark.engine_archive import is_connect
from workers.spark.process import TASK_KILL_WINDOW_S
from workers.table.table import Table

_OUR_ERROR = re.compile(r"workers\.errors\.(\w+): ([^\n]*)")
_log = logging.getLogger(__name__)


@contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """What runs in the block, in this thread, bears the tag, by which `interrupt` finds it."""
    # Without Spark Connect a session knows only its own thread's tags by name: others, such as
    # the one that watches the job, would interrupt nothing. The context's are known to all.
    add, remove = (
        (spark.addTag, spark.removeTag)
        if is_connect(spark)
        else (spark.sparkContext.addJobTag, spark.sparkContext.removeJobTag)
    )
    add(tag)
    try:
        yield
    finally:
        with suppress(PySparkException):
            remove(tag)


def interrupt(spark: SparkSession, tag: str) -> None:
    """End what runs under the tag now, whichever thread began it; it takes a moment to die."""
    try:
        if is_connect(spark):
            spark.interruptTag(tag)
        else:
            spark.sparkContext.cancelJobsWithTag(tag)
    except (PySparkException, Py4JError, ConnectionError) as error:
        _log.warning("the Spark job cannot be interrupted: tag=%s error=%s", tag, error)


def is_gone(spark: SparkSession) -> bool:
    """Whether no job of this session can succeed any more: its JVM died, its context was stopped,
    or its server has forgotten it.
    """
    try:
        if is_connect(spark):
            return not spark.version
        context: Any = spark.sparkContext
        return bool(context._jsc is None or context._jsc.sc().isStopped())
    except (PySparkException, Py4JError, ConnectionError):
        return True


def stop_tasks(spark: SparkSession, tag: str, clock: Clock) -> None:
    """End what the failed job still runs, so that the rollback's listing sees everything."""
    interrupt(spark, tag)
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
    mentions = _OUR_ERROR.findall(str(error))
    if not mentions:
        return None
    name, message = mentions[-1]
    kind: Any = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, LakehouseError)):
        return None
    ours = kind(message)
    assert isinstance(ours, LakehouseError)
    return ours
