"""The sink as a Spark job: one long stage whose tasks are the sink's workers.

A task that dies is started again by Spark, and the whole job by the driver when Spark gives up;
either way the coordinator that comes up next has a higher epoch and goes on where the table stands.
The driver itself holds nothing: it watches, and carries out the table services that the coordinator
planned. Nothing ends a participant but a stop or another launch, so a sink is to be a Spark
application of its own, or it takes slots from others for ever.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from workers.errors import InvalidInput, LakehouseError
from workers.options.sink_keys import SINK_OPTIONS
from workers.ports import system_ports
from workers.sink.config import SinkConfig, sink_config
from workers.sink.epoch import read_epoch
from workers.sink.kafka.allowed_brokers import select_environment
from workers.sink.kafka.client_config import connection_settings
from workers.sink.kafka.topics import Topics
from workers.sink.runtime.launch import Launch, WorkerEnded, to_run_id
from workers.sink.runtime.service_plans import build_write_options, run_pending_plans
from workers.sink.runtime.worker import SinkWorker
from workers.sink.stop_request import StopKind, clear_stop, read_stop
from workers.sink.tables import KEYS_BY_NAME, check_sink_table, has_keys_by_topic_name
from workers.spark.engine_archive import is_local_master
from workers.spark.failures import interrupt, is_gone, ours_of, stop_tasks, tagged
from workers.spark.job_names import job_named
from workers.spark.remote_packages import SINK_PACKAGE, count_slots, prepare_executors
from workers.spark.task_process import spare_next_task, task_ids
from workers.storage.opener import open_storage
from workers.table.table import Table, open_

_ENDED_SCHEMA: Final = "reason string, is_error boolean, is_fenced boolean"
_WATCH_S = 1.0
_HARD_S = 20.0
"""How long a hard stop may take before the tasks are killed."""
_PLANS_S = 5.0
_RESTARTS_MAX = 20
"""In a row, each of less than a minute."""
_LASTED_S = 60.0
_BACKOFF_MAX_S = 30.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SinkEnded:
    """Why the sink ended; neither failed nor fenced after a stop that somebody asked for."""

    reason: str
    is_failed: bool = False
    is_fenced: bool = False
    """Another launch has taken it over."""


def run_sink(
    table: Table,
    spark: SparkSession,
    options: Mapping[str, str],
    *,
    secret: bytes,
    operation_id: str = "",
    wanted_at_ms: int | None = None,
) -> SinkEnded:
    """Run the sink until it is stopped (`workers.sink.stop_request`), fails for good or is taken
    over by another launch.

    `options` are those of the sink (`workers.sink.config`), of writes and of table services.
    `secret` signs the control messages. A stop that was asked for before `wanted_at_ms`, when this
    launch was wished for, is of an earlier one; it is now when absent. Raises InvalidInput,
    UnsupportedTable, KafkaFailed and NotFound before anything is begun.
    """
    if wanted_at_ms is None:
        wanted_at_ms = table.ports.clock.now_ms()
    sink = _Sink(table, spark, options, secret, operation_id, wanted_at_ms)
    return sink.run()


class _Sink:
    def __init__(
        self,
        table: Table,
        spark: SparkSession,
        options: Mapping[str, str],
        secret: bytes,
        operation_id: str,
        wanted_at_ms: int,
    ) -> None:
        self._table, self._spark = table, spark
        self._wanted_at_ms = wanted_at_ms
        own = {key: value for key, value in options.items() if key in SINK_OPTIONS}
        others = {key: value for key, value in options.items() if key not in SINK_OPTIONS}
        if operation_id:
            others["sluice.operation.id"] = operation_id
        config = sink_config(own)
        check_sink_table(table, config)
        if has_keys_by_topic_name(table.config):
            _log.warning("%s: table=%s", KEYS_BY_NAME, table.config.name)
        build_write_options(config, table.storage.location, others)
        settings = connection_settings(config, os.environ)
        facts = Topics(settings, clock=table.ports.clock).facts(config.topic)
        prepare_executors(spark, table.storage.location, SINK_PACKAGE)
        is_local = is_local_master(spark.conf.get("spark.master") or "")
        slots = count_slots(spark)
        workers = _workers(config, len(facts.watermarks), slots, is_local=is_local)
        epoch = read_epoch(table.storage, config.sink_id)
        password = dict(config.client).get("sasl.password.env", "")
        self._launch = Launch(
            config=config,
            run_id=to_run_id(operation_id) or table.ports.ids.token(),
            secret=secret,
            workers=workers,
            epoch_before=epoch.number if epoch else 0,
            options=others,
            environment=select_environment(password, os.environ),
        )
        self._tag = f"sluice-sink-{self._launch.run_id}"

    def run(self) -> SinkEnded:
        clock = self._table.ports.clock
        storage, sink_id = self._table.storage, self._launch.config.sink_id
        clear_stop(storage, sink_id, requested_before_ms=self._wanted_at_ms)
        quick_failures = 0
        while True:
            started_s = clock.monotonic_s()
            try:
                return self._attempt()
            except LakehouseError as error:
                return SinkEnded(f"{error.code}: {error}", is_failed=True)
            except (PySparkException, Py4JError, ConnectionError) as error:
                reason = _first_line(error)
                if self._is_stopping():
                    return SinkEnded("stopped before its transaction had ended")
                if is_gone(self._spark):  # Whoever launched us makes another.
                    return SinkEnded(f"Spark is gone: {reason}", is_failed=True)
            lasted = clock.monotonic_s() - started_s >= _LASTED_S
            quick_failures = 0 if lasted else quick_failures + 1
            if quick_failures > _RESTARTS_MAX:
                return SinkEnded(f"the job fails again and again: {reason}", is_failed=True)
            _log.warning("the sink's Spark job is restarted: %s", reason)
            clock.sleep(min(0.5 * 2**quick_failures, _BACKOFF_MAX_S))

    def _attempt(self) -> SinkEnded:
        """One job. Raises what ended it, in our terms where it was an error of ours."""
        with ThreadPoolExecutor(1, "sink-job") as pool:
            job = pool.submit(self._job)
            try:
                self._watch(job)
            finally:
                if not job.done():
                    stop_tasks(self._spark, self._tag, self._table.ports.clock)
        try:
            ended = job.result()
        except (PySparkException, Py4JError) as error:
            ours = ours_of(error)
            if isinstance(ours, InvalidInput):
                raise ours from error
            raise
        worst = max(ended, key=lambda outcome: (outcome.is_error, outcome.is_fenced))
        is_fenced = worst.is_fenced and not worst.is_error
        return SinkEnded(worst.reason, is_failed=worst.is_error, is_fenced=is_fenced)

    def _job(self) -> list[WorkerEnded]:
        run = partial(_run_workers, self._table.storage.location, self._launch)
        count = self._launch.workers
        with tagged(self._spark, self._tag), job_named("the sink's workers"):
            numbers = self._spark.range(0, count, 1, count)
            rows = numbers.mapInArrow(run, _ENDED_SCHEMA).collect()
        return [WorkerEnded(row.reason, row.is_error, row.is_fenced) for row in rows]

    def _watch(self, job: Future[list[WorkerEnded]]) -> None:
        """Until the job is done, or has to be ended because it does not end by itself."""
        clock = self._table.ports.clock
        plans_at = clock.monotonic_s() + _PLANS_S
        kill_at: float | None = None
        while True:
            try:
                job.result(_WATCH_S)
            except StillRunning:
                pass
            except BaseException:  # noqa: BLE001 # The caller raises it.
                return
            else:
                return
            now = clock.monotonic_s()
            if kill_at is None:
                kill_at = self._ends_at(now)
            elif now >= kill_at:
                _log.warning("the sink did not stop in time; its tasks are killed")
                interrupt(self._spark, self._tag)
                kill_at = now + _HARD_S
            if now >= plans_at:
                self._carry_out_plans()
                plans_at = clock.monotonic_s() + _PLANS_S

    def _carry_out_plans(self) -> None:
        try:
            run_pending_plans(self._table, self._launch.config, self._launch.options)
        except LakehouseError as error:
            _log.warning("due table services cannot be determined: %s", error)

    def _ends_at(self, now_s: float) -> float | None:
        """When the tasks are to be killed; None while the sink is to run."""
        storage, config = self._table.storage, self._launch.config
        try:
            stop, epoch = read_stop(storage, config.sink_id), read_epoch(storage, config.sink_id)
        except LakehouseError as error:
            _log.warning("the sink's files cannot be read: %s", error)
            return None
        if epoch is not None and self._launch.is_after(epoch):
            return now_s + _HARD_S
        if stop is None:
            return None
        waits_s = config.graceful_timeout_s if stop.kind is StopKind.GRACEFUL else _HARD_S
        return now_s + waits_s

    def _is_stopping(self) -> bool:
        return read_stop(self._table.storage, self._launch.config.sink_id) is not None


def _workers(config: SinkConfig, partitions: int, slots: int, *, is_local: bool) -> int:
    """How many tasks share the partitions. Raises InvalidInput when not all of them would run at
    once: a participant that is not there lets every transaction time out.
    """
    each = config.partitions_per_task
    if not each:
        # Slots of a local master may be more than the machine has processors.
        return min(partitions, slots, os.cpu_count() or 1) if is_local else min(partitions, slots)
    tasks = -(-partitions // each)
    if tasks > slots:
        raise InvalidInput(
            "the sink needs more tasks at once than Spark runs; raise "
            "hoodie.kafka.partitions.per.task, or give it more slots",
            tasks=tasks,
            slots=slots,
        )
    return tasks


def _run_workers(
    location: str, launch: Launch, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On executors: each number is a worker."""
    spare_next_task()
    ids = task_ids()
    for batch in batches:
        for number in batch.column("id").to_numpy().tolist():
            table = open_(open_storage(location), system_ports())
            worker = SinkWorker(table, launch, number, f"{ids.stage}.{ids.attempt}")
            yield _ended_batch(worker.run())


def _ended_batch(ended: WorkerEnded) -> pa.RecordBatch:
    columns: list[pa.Array[Any]] = [
        pa.array([ended.reason]),
        pa.array([ended.is_error]),
        pa.array([ended.is_fenced]),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["reason", "is_error", "is_fenced"])


def _first_line(error: BaseException) -> str:
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
