"""Spark sessions: a Connect session whose id was chosen beforehand, its takeover, a classic one.

Tasks outlive a killed driver program. So whoever starts a write chooses session and user id first
and keeps them; whoever takes the write over calls `interrupt` with them from a client of its own.
That ends the session's running tasks within about two seconds and closes the session for good: what
the old driver, should it still live, sends afterwards is refused by the server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from pyspark.sql import SparkSession

from workers.clock import Clock, SystemClock
from workers.errors import InvalidInput, LakehouseError
from workers.spark.cluster import Cluster, is_submitted
from workers.spark.connect_server import MASTER, PROJECT_ROOT, is_listening
from workers.spark.engine_archive import ship_engine
from workers.spark.settings import checked_settings

TASKS_MAX: Final = 64

_RETRIES_MAX = 5
"""Delays grow fourfold from 50 ms: about 17 s, where Spark's own default waits ten minutes."""


class SparkUnreachable(LakehouseError):
    """Nobody answers at the Spark address. Start the server, or correct the address."""

    code = "spark_unreachable"


_RELEASE_ATTEMPTS_MAX = 20
_RELEASE_RETRY_S = 0.5
_never_collected: list[SparkSession] = []
"""When a session is collected, PySpark takes a lock of the pool that all sessions share. A thread
in which that happens while it hands the pool a task would wait for itself for ever.
"""


def connect_session(
    remote: str,
    *,
    session_id: str,
    user_id: str,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a new session on a Connect server, under exactly these ids, with the engine shipped
    where the server may lack it.

    Raises InvalidInput for a setting outside the allow-list, SparkUnreachable.
    """
    chosen = checked_settings(settings or {})
    if not is_listening(remote):
        raise SparkUnreachable("spark connect server does not answer", remote=remote)
    address = _address(remote, session_id=session_id, user_id=user_id)
    spark = SparkSession.builder.remote(address).create()
    _never_collected.append(spark)
    _limit_retries(spark.client)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    for key, value in chosen.items():
        spark.conf.set(key, value)
    ship_engine(spark)
    return spark


def interrupt(
    remote: str, *, session_id: str, user_id: str, clock: Clock | None = None
) -> tuple[str, ...]:
    """End everything that this session runs and close it; the ids of the interrupted operations.

    A session that the server does not know has nothing to end. Raises SparkUnreachable.
    """
    from pyspark.errors import PySparkException
    from pyspark.errors.exceptions.connect import UnknownException
    from pyspark.sql.connect.client import SparkConnectClient

    if not is_listening(remote):
        raise SparkUnreachable("spark connect server does not answer", remote=remote)
    clock = clock or SystemClock()
    client = SparkConnectClient(_address(remote, session_id=session_id, user_id=user_id))
    _limit_retries(client)
    interrupted: tuple[str, ...] = ()
    try:
        for _ in range(_RELEASE_ATTEMPTS_MAX):
            interrupted += tuple(client.interrupt_all() or ())
            try:
                client.release_session()
            except UnknownException:
                # An operation is still on its way from running to cancelled.
                clock.sleep(_RELEASE_RETRY_S)
            else:
                return interrupted
        raise SparkUnreachable("spark session would not close", remote=remote, session=session_id)
    except PySparkException as error:
        if "INVALID_HANDLE" not in str(error):
            raise SparkUnreachable("spark did not take the interrupt", remote=remote) from error
        return interrupted
    finally:
        client.close()


def classic_session(
    *,
    app_name: str = "sluice",
    settings: Mapping[str, str] | None = None,
    heap: str = "1g",
    cluster: Cluster | None = None,
) -> SparkSession:
    """Return a session of this process, on the cluster if there is one, else embedded. The program
    of a `spark-submit` gets the master and the settings of that. Executors of a cluster get the
    engine.

    Python workers of an embedded session run this very Python, unless PYSPARK_PYTHON names another.
    `heap` is Java's at most, where this process has not started Java before.
    """
    chosen = checked_settings(settings or {})
    builder = SparkSession.builder.appName(app_name)
    for key, value in {**_session_settings(cluster, heap), **chosen}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    ship_engine(spark)
    return spark


def _session_settings(cluster: Cluster | None, heap: str) -> dict[str, str]:
    if is_submitted(os.environ):
        return {"spark.sql.session.timeZone": "UTC"}
    if cluster is not None:
        os.environ["PYSPARK_PYTHON"] = cluster.python
        return {"spark.master": cluster.master, **cluster.driver_settings()}
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return {
        "spark.master": MASTER,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": heap,
        "spark.executorEnv.PYTHONPATH": str(PROJECT_ROOT),
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }


def task_count(spark: SparkSession, *, at_most: int = TASKS_MAX) -> int:
    """How many tasks share the file groups: an idle Python task costs more than it saves."""
    partitions_text = spark.conf.get("spark.sql.shuffle.partitions")
    return max(1, min(int(partitions_text or TASKS_MAX), TASKS_MAX, at_most))


def _address(remote: str, *, session_id: str, user_id: str) -> str:
    if not remote.startswith("sc://") or "/" in remote.removeprefix("sc://").rstrip("/"):
        raise InvalidInput("spark address is not sc://host:port", remote=remote)
    return f"{remote.rstrip('/')}/;user_id={quote(user_id, safe='')};session_id={session_id}"


def _limit_retries(client: object) -> None:
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.client.retries import DefaultPolicy

    assert isinstance(client, SparkConnectClient), client
    client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES_MAX)])
