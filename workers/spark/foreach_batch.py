"""Structured Streaming on a Connect server: whether a function of `foreachBatch` finds the engine.

The server starts the Python process of `foreachBatch` itself, and the artifacts of a session do not
reach it. So the engine must be installed on the server's host.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from workers.errors import InvalidInput
from workers.spark.engine_archive import engine_digest, ensure_archive, is_connect, needs_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWER: Final = re.compile(r"sluice-engine=\[([0-9a-f]*)\]")
"""The digest only: a traceback from this host has the line of source that raises, too."""
_WAIT_S: Final = 60
_STARTS_MAX: Final = 3
_NO_PYTHON: Final = "waiting for the Python worker to connect back"
"""A server waits ten seconds for that Python, which may lack packages or be late."""


def check_foreach_batch(spark: SparkSession) -> None:
    """Check that a function of `foreachBatch` can write tables. It runs in this process unless the
    session is one of a Connect server; that server is checked by a query of one batch.

    Raises InvalidInput where the server lacks the engine or has another one.
    """
    if not is_connect(spark) or not needs_engine(spark):
        return
    answer = _fetch_engine(spark)
    if answer != engine_digest():
        fault = (
            "has another package workers than this driver" if answer else "has no package workers"
        )
        raise InvalidInput(
            f"foreachBatch cannot write tables here: the Python on the host of the Connect server "
            f"{fault}, and Spark does not pass it what a session ships; start the server with the "
            "engine's zip on PYTHONPATH, or run the query in a classic session",
            zip=ensure_archive().path,
        )


def _fetch_engine(spark: SparkSession) -> str:
    """Return the digest of the engine that the server's Python imports; empty without one."""
    from pyspark.errors import PySparkException

    # It is pickled whole, because the server may lack this module.
    def report(batch: object, number: int) -> None:
        del batch, number
        digest = ""
        try:
            from workers.spark.engine_archive import engine_digest as digest_there

            digest = digest_there()
        except ImportError:
            pass
        raise RuntimeError(f"sluice-engine=[{digest}]")

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    for start in range(_STARTS_MAX):
        try:
            query = rows.writeStream.foreachBatch(report).trigger(availableNow=True).start()
            query.awaitTermination(_WAIT_S)
        except PySparkException as error:
            if match := _ANSWER.search(str(error)):
                return match[1]
            if _NO_PYTHON not in str(error):
                raise
            if start + 1 == _STARTS_MAX:
                raise InvalidInput(
                    "foreachBatch cannot be used here: the Connect server started its Python "
                    f"{_STARTS_MAX} times, and it never answered within Spark's ten seconds; the "
                    "host is too busy, or the Python that PYSPARK_PYTHON names there lacks the "
                    "engine or pyspark[connect]"
                ) from error
    raise InvalidInput("the Connect server ran no batch of a query", waited_s=_WAIT_S)
