"""What the driver program of a sink does: opens the table, makes Spark ready, runs the sink until
it has stopped, and says why it did.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from workers.errors import InvalidInput
from workers.jobs import SinkJob
from workers.options.node_options import reject_connection_options
from workers.options.sink_keys import SINK_OPTIONS
from workers.options.write_options import driver_options
from workers.ports import Ports
from workers.reporting import OperationReport, Reporter, ReportState
from workers.sink.config import sink_config
from workers.sink.stop_request import StopKind, StopRequest, read_stop, request_stop
from workers.spark.driver import Ending
from workers.spark.failures import is_gone
from workers.spark.session import classic_session, connect_session
from workers.spark.sink import run_sink
from workers.spark.stage_reports import StageReports
from workers.storage.roots import source_under_root, storage_under_root
from workers.table.table import Table, open_

_CONNECTS: Final = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
"""With one of these set, PySpark makes no application of its own."""
_OWN_HEAP: Final = "512m"
"""Rows never come into Java: they are read, decoded and written by the tasks' Python processes."""


class SinkDriver:
    """One sink job in this process; `remote` is Spark's address, empty where none is set.

    Making it opens the table: raises TableNotFound, MalformedTable, UnsupportedTable, and
    InvalidInput for options or a place that the node refuses.
    """

    def __init__(
        self,
        *,
        job: SinkJob,
        reporter: Reporter,
        ports: Ports,
        remote: str,
        environment: Mapping[str, str],
    ) -> None:
        self._job = job
        self._reporter = reporter
        self._ports = ports
        self._remote = remote
        self._environment = environment
        reject_connection_options(
            job.sink_options
        )  # The job may be older than the check at its request.
        self._table = open_(storage_under_root(job.table, environment), ports)
        own = {key: text for key, text in job.sink_options.items() if key in SINK_OPTIONS}
        config = sink_config(own)
        if config.schema_file:
            source_under_root(config.schema_file, environment)
        self._sink_id = config.sink_id
        self._stop_signals = 0
        self._began_ms = ports.clock.now_ms()

    def ask_to_stop(self) -> None:
        """After the transaction at hand; whoever asks again does not want to wait for it."""
        self._stop_signals += 1
        ask_to_stop(self._table, self._sink_id, by="a signal", is_hard=self._stop_signals > 1)

    def run(self) -> Ending:
        """Run the sink until it is stopped. Raises what the sink refuses before it begins."""
        job = self._job
        with spark_for(
            job.application,
            self._remote,
            session_id=job.session_id,
            user_id=job.user_id,
            settings=job.spark_conf,
        ) as spark:
            self._report_running(f"{self._sink_id} runs")
            with StageReports(job.operation_id, self._reporter, self._ports).listening(spark):
                ended = run_sink(
                    self._table,
                    spark,
                    driver_options(job.sink_options),
                    secret=launch_secret(self._ports),
                    operation_id=job.operation_id,
                    wanted_at_ms=job.wanted_at_ms or self._began_ms,
                )
        if ended.is_failed or ended.is_fenced:
            state = ReportState.FAILED if ended.is_failed else ReportState.FENCED
            return Ending(state, ended.reason)
        stop = read_stop(self._table.storage, self._sink_id)
        is_hard = stop is not None and stop.kind is StopKind.HARD
        return Ending(ReportState.CANCELLED if is_hard else ReportState.SUCCEEDED, ended.reason)

    def _report_running(self, message: str) -> None:
        self._reporter.send(
            OperationReport(
                operation_id=self._job.operation_id, state=ReportState.RUNNING, message=message
            )
        )


def ask_to_stop(table: Table, sink_id: str, *, by: str, is_hard: bool = False) -> None:
    """Put a request to stop beside the table, which the sink's launch looks for; returns at once.

    Raises MalformedTable where an older request is damaged.
    """
    kind = StopKind.HARD if is_hard else StopKind.GRACEFUL
    request_stop(table.storage, sink_id, StopRequest(kind, by, table.ports.clock.now_ms()))


def launch_secret(ports: Ports) -> bytes:
    """What signs the control messages of one launch: nobody else knows it, nobody keeps it."""
    return f"{ports.ids.token()}{ports.ids.token()}".encode()


@contextmanager
def spark_for(
    application: str,
    remote: str,
    *,
    session_id: str,
    user_id: str,
    settings: Mapping[str, str],
) -> Iterator[SparkSession]:
    """A Spark application of this process alone, or a session of the node's server.

    Raises InvalidInput, SparkUnreachable.
    """
    if application == "connect":
        if not remote:
            raise InvalidInput("no Spark address is set", variable="SLUICE_SPARK_REMOTE")
        spark = connect_session(remote, session_id=session_id, user_id=user_id, settings=settings)
    else:
        for variable in _CONNECTS:
            os.environ.pop(variable, None)
        spark = classic_session(
            app_name=f"sluice-sink-{session_id}", settings=settings, heap=_OWN_HEAP
        )
    try:
        yield spark
    finally:
        if not is_gone(spark):
            spark.stop()
