"""What a driver program does: rounds of one source into one table, with reports and an ending.

A round that others rolled back, or that lost, is written again where the source can repeat it; of
others a conflict that no retry is left for, and an outcome that nobody knows, end the write.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_never

from pyspark.sql import SparkSession

from workers.clock import InstantTime
from workers.concurrency.outcome import (
    CommitOutcome,
    Committed,
    Conflicted,
    RolledBack,
    Unknown,
    describe_outcome,
    load_outcome,
)
from workers.errors import InstantRolledBack, InvalidInput, LockTimeout
from workers.jobs import WriteJob
from workers.options.node_options import reject_connection_options
from workers.options.write_options import WriteOptions, driver_options, write_options
from workers.ports import Ports
from workers.reporting import OperationReport, Progress, Reporter, ReportState, StageProgress
from workers.spark.cluster import is_submitted
from workers.spark.inputs import Source, open_source
from workers.spark.session import classic_session, connect_session
from workers.spark.stage_reports import StageReports
from workers.spark.write import write_dataframe
from workers.storage.roots import storage_under_root
from workers.table.schema_history import read_instant
from workers.table.table import Table, open_
from workers.table_services.inline import write_with_services
from workers.timeline.extra_metadata import POSITION_KEY, Position
from workers.timeline.metadata import STREAM_KEY
from workers.write.retry import RetryPolicy, with_retries

_WRITINGS_MAX = 4
"""Of a round that can be repeated: so many times the attempts that the options allow."""
_SETTLE_WAIT_S = 10.0
_POLL_S = 0.2
_COMMITS_LOOKED_AT = 1_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a driver ended, as its report and its `ending.json` say it."""

    state: ReportState
    message: str
    instant: InstantTime | None = None
    outcome: Mapping[str, Any] | None = None
    is_refusal: bool = False
    """The job itself was wrong; trying again is pointless."""

    def as_report(self, operation_id: str) -> OperationReport:
        """The last report of the operation. `is_refusal` is not part of it."""
        return OperationReport(
            operation_id=operation_id,
            state=self.state,
            message=self.message,
            instant=self.instant,
            outcome=self.outcome,
        )

    def to_json(self) -> dict[str, Any]:
        """The body of `ending.json`, which `workers.spark.load.read_ending` reads."""
        return {
            "state": self.state.value,
            "message": self.message,
            "instant": self.instant,
            "outcome": self.outcome,
        }


class Driver:
    """One write job in this process; `remote` is Spark's address, empty where none is set. `run` is
    called once.
    """

    def __init__(
        self,
        *,
        job: WriteJob,
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
        self._is_stopping = False
        self._rounds_done = 0
        self._rounds_total = 0
        self._stage_reports = StageReports(job.operation_id, reporter, ports, self._tasks_done)

    def ask_to_stop(self) -> None:
        """End after the round at hand; safe to call from a signal handler."""
        self._is_stopping = True

    def run(self) -> Ending:
        """Write round by round, until the source or somebody ends it. Raises what a write raises;
        everything begun is rolled back then.
        """
        job = self._job
        reject_connection_options(
            job.options
        )  # The job may be older than the check at its request.
        table = open_(storage_under_root(job.table, self._environment), self._ports)
        writer = job.options.get("sluice.writer.name", "")
        source = open_source(
            job.source,
            table=table,
            writer=writer,
            environment=self._environment,
            scratch=Path(job.run_dir),
        )
        if source.settled:
            self._report_settled(source.settled)
        first = _next_round(table, job, source)
        self._rounds_total = source.rounds
        self._report_rounds(first, f"starts with round {first + 1} of {source.rounds}")
        if first >= source.rounds:
            return Ending(ReportState.SUCCEEDED, "everything was written before")
        spark = self._session()
        try:
            with self._stage_reports.listening(spark):
                return self._rounds(table, source, spark, first)
        finally:
            spark.stop()

    def _session(self) -> SparkSession:
        job = self._job
        if is_submitted(self._environment):
            name = f"sluice-{job.operation_id}"
            return classic_session(app_name=name, settings=job.spark_conf)
        if not self._remote:
            raise InvalidInput("no Spark address is set", variable="SLUICE_SPARK_REMOTE")
        return connect_session(
            self._remote,
            session_id=job.session_id,
            user_id=job.user_id,
            settings=job.spark_conf,
        )

    def _rounds(self, table: Table, source: Source, spark: SparkSession, first: int) -> Ending:
        clock = self._ports.clock
        rows = 0
        last: Committed | None = None
        for number in range(first, source.rounds):
            if self._is_stopping:
                done = f"stopped after {number} of {source.rounds} rounds"
                return Ending(ReportState.CANCELLED, done, last.instant if last else None)
            started_s = clock.monotonic_s()
            if number < _next_round(table, self._job, source):
                continue  # Another driver of the same stream was here.
            outcome = self._round(table, source, spark, number)
            match outcome:
                case Committed():
                    last = outcome
                    rows += outcome.rows
                    self._report_rounds(number + 1, describe_outcome(outcome), outcome.instant)
                case Conflicted() | RolledBack() | Unknown():
                    return _unhappy(outcome)
                case _:
                    assert_never(outcome)
            if number + 1 < source.rounds:
                self._wait_until(started_s + source.pace_s)
        if last is None:
            return Ending(ReportState.SUCCEEDED, "everything was written by another driver")
        completed = {"completed_at": last.completed_at, "rows": rows}
        return Ending(ReportState.SUCCEEDED, describe_outcome(last), last.instant, completed)

    def _round(
        self, table: Table, source: Source, spark: SparkSession, number: int
    ) -> CommitOutcome:
        job = self._job
        options = {**driver_options(job.options), "sluice.operation.id": job.operation_id}

        def before_commit(instant: InstantTime) -> None:
            self._report_rounds(number, f"files of {instant} are written", instant)
            source.before_commit(instant)

        def write(own: Mapping[str, str]) -> CommitOutcome:
            typed = write_options(own, table.config.get_mode(job.operation))
            again, frame = _again(source, typed), source.frame(spark, number)

            def attempt(attempts: int) -> CommitOutcome:
                outcome = write_dataframe(
                    table,
                    frame,
                    operation=job.operation,
                    stream=job.stream,
                    options=own,
                    extra={POSITION_KEY: Position(source.run, number).encode()},
                    attempt=attempts,
                    attempts_max=again.attempts_max,
                    before_commit=before_commit,
                    replaces=job.replaces,
                )
                return self._settled(table, outcome)

            return with_retries(table, typed, attempt, again)

        return write_with_services(table, options, write)

    def _settled(self, table: Table, outcome: CommitOutcome) -> CommitOutcome:
        """An unknown outcome may be known a moment later; nothing is deleted meanwhile."""
        clock = self._ports.clock
        deadline_s = clock.monotonic_s() + _SETTLE_WAIT_S
        while isinstance(outcome, Unknown) and clock.monotonic_s() < deadline_s:
            clock.sleep(_POLL_S)
            outcome = load_outcome(table, outcome.instant)
        return outcome

    def _wait_until(self, moment_s: float) -> None:
        clock = self._ports.clock
        while not self._is_stopping and (left_s := moment_s - clock.monotonic_s()) > 0:
            clock.sleep(min(left_s, _POLL_S))

    def _report_rounds(self, done: int, message: str, instant: InstantTime | None = None) -> None:
        self._rounds_done = done
        self._report_progress(Progress(done, self._rounds_total, "rounds"), message, instant)

    def _report_settled(self, settled: Mapping[str, str]) -> None:
        self._reporter.send(
            OperationReport(
                operation_id=self._job.operation_id,
                state=ReportState.PROGRESS,
                message="its source has settled what it reads",
                settled=settled,
            )
        )

    def _tasks_done(self, stages: Sequence[StageProgress]) -> Progress | None:
        """Of the job at hand; only where rounds say nothing."""
        done, total = sum(stage.done for stage in stages), sum(stage.tasks for stage in stages)
        if self._rounds_total != 1 or self._rounds_done or not total:
            return None
        return Progress(min(done, total), total, "tasks")

    def _report_progress(
        self, progress: Progress, message: str, instant: InstantTime | None = None
    ) -> None:
        report = OperationReport(
            operation_id=self._job.operation_id,
            state=ReportState.PROGRESS,
            message=message,
            progress=progress,
            instant=instant,
            stages=self._stage_reports.board.stages(),
        )
        self._reporter.send(report)


def _again(source: Source, options: WriteOptions) -> RetryPolicy:
    """How often a round is tried, and after what: one that can be repeated also when others rolled
    it back, or held the lock for too long.
    """
    attempts = options.conflict_retries + 1
    if not source.is_repeatable:
        return RetryPolicy(attempts)
    return RetryPolicy(_WRITINGS_MAX * attempts, (RolledBack,), (InstantRolledBack, LockTimeout))


def _next_round(table: Table, job: WriteJob, source: Source) -> int:
    """The round behind the last one that this run of the source has committed."""
    if not source.is_repeatable:
        return 0
    for instant in reversed(table.timeline().list_completed_writes()[-_COMMITS_LOOKED_AT:]):
        extra = read_instant(table, instant).extra_metadata
        position = Position.decode(extra.get(POSITION_KEY, ""))
        if position and extra.get(STREAM_KEY) == job.stream and position.run == source.run:
            return position.round + 1
    return 0


def _unhappy(outcome: Conflicted | RolledBack | Unknown) -> Ending:
    message = describe_outcome(outcome)
    match outcome:
        case Conflicted(instant=instant, conflict=conflict):
            return Ending(ReportState.CONFLICTED, message, instant, conflict.to_json())
        case RolledBack(instant=instant, by=by, reason=reason):
            undone = {"by": by, "reason": reason}
            return Ending(ReportState.ROLLED_BACK, message, instant, undone)
        case Unknown(instant=instant):
            return Ending(ReportState.UNKNOWN, message, instant)
        case _:
            assert_never(outcome)
