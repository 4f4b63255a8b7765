"""What a failed Spark job meant, and how to be sure that nothing of it runs any more."""

from __future__ import annotations

import logging
import re
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from workers import errors
from workers.clock import Clock
from workers.errors import LakehouseError
from workers.spark.process import TASK_KILL_WINDOW_S

_OUR_ERROR = re.compile(r"workers\.errors\.(\w+): ([^\n]*)")
_log = logging.getLogger(__name__)


def stop_tasks(spark: SparkSession, tag: str, clock: Clock) -> None:
    """End what the failed job still runs, so that the rollback's listing sees everything."""
    try:
        spark.interruptTag(tag)
    except PySparkException as error:
        _log.warning("could not interrupt the failed job: tag=%s error=%s", tag, error)
    clock.sleep(TASK_KILL_WINDOW_S)


def ours_of(error: PySparkException) -> LakehouseError | None:
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
