"""The driver of a compaction or a clustering whose file groups are rewritten by Spark's tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from workers.errors import InvalidInput
from workers.jobs import ServiceJob
from workers.options.write_options import SHORT_LIVED, write_options
from workers.ports import Ports
from workers.reporting import OperationReport, Progress, Reporter, ReportState
from workers.spark.driver import Ending
from workers.spark.session import classic_session
from workers.spark.table_services import spark_runner
from workers.storage.roots import storage_under_root
from workers.table.table import open_
from workers.table_services.clustering.service import ClusteringService
from workers.table_services.compaction.service import CompactionService
from workers.table_services.rewrite_execution import RunnerMaker
from workers.table_services.service import Service, ServiceRequest

_IN_TASKS: Final[Mapping[str, Callable[[RunnerMaker], Service]]] = {
    "compaction": CompactionService,
    "clustering": ClusteringService,
}


class ServiceDriver:
    """One service job in this process, which `spark-submit` started. `run` is called once.

    Raises InvalidInput for a service that has no tasks.
    """

    def __init__(
        self,
        *,
        job: ServiceJob,
        reporter: Reporter,
        ports: Ports,
        environment: Mapping[str, str],
    ) -> None:
        if job.service not in _IN_TASKS:
            raise InvalidInput(
                "this service runs in one process and needs no cluster",
                service=job.service,
                expected=sorted(_IN_TASKS),
            )
        self._job = job
        self._reporter = reporter
        self._table = open_(storage_under_root(job.table, environment), ports)
        self._is_stopping = False

    def ask_to_stop(self) -> None:
        """Prevent the start of the service. A service that has begun is finished."""
        self._is_stopping = True

    def run(self) -> Ending:
        """Carry the service out. Raises as the service does."""
        job = self._job
        spark = classic_session(app_name=f"sluice-{job.service}")
        try:
            if self._is_stopping:
                return Ending(ReportState.CANCELLED, "cancelled before it began")
            service = _IN_TASKS[job.service](spark_runner(spark))
            request = ServiceRequest(
                by=job.by,
                reason=job.reason,
                parameters=job.parameters,
                expected_plan_hash=job.plan_hash,
            )
            options = write_options(
                {
                    **SHORT_LIVED,
                    "sluice.operation.id": job.operation_id,
                    "sluice.writer.name": f"{job.service} by {job.by}",
                }
            )
            outcome = service.run(self._table, request, options, self._report)
        finally:
            spark.stop()
        message = "; ".join([outcome.summary, *outcome.warnings])
        figures = {"figures": dict(outcome.figures)}
        return Ending(ReportState.SUCCEEDED, message, outcome.instant, figures)

    def _report(self, done: int, total: int) -> None:
        self._reporter.send(
            OperationReport(
                operation_id=self._job.operation_id,
                state=ReportState.PROGRESS,
                message=self._job.service,
                progress=Progress(done, total, "items"),
            )
        )
