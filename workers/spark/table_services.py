"""Rewrites file groups on Spark's executors: one task each, nothing but statuses comes back.

Once the attempt is out, rolled back or taken over, the driver ends the whole job; a task that meets
it first keeps its slot until then, so that none is tried again and those that wait never start.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from workers.errors import InstantRolledBack, InvalidInput, LakehouseError, ServiceBusy
from workers.spark.failures import await_losers, ours_of, stop_tasks, tagged
from workers.spark.holding import keeping_slot
from workers.spark.job_watch import FENCE_PERIOD_S, JobWatch
from workers.spark.remote_packages import prepare_executors
from workers.spark.task_process import spare_next_task, task_ids
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.table.table import Table
from workers.table_services.execution import confirm_attempt
from workers.table_services.local_runner import Runner
from workers.table_services.rewrite_context import GroupRewrite, RewriteContext
from workers.table_services.rewrite_execution import RunnerMaker
from workers.table_services.rewrite_slice import rewrite_group
from workers.timeline.metadata import WriteStat

GroupWrite = Callable[[RewriteContext, GroupRewrite, Storage, int], WriteStat]
"""(context, group, storage, attempt of the task) -> what was written; on executors."""
_STATUS_SCHEMA = "status string"
_log = logging.getLogger(__name__)


def write_group(
    context: RewriteContext, group: GroupRewrite, storage: Storage, task_attempt: int
) -> WriteStat:
    """`rewrite_group` as a task of Spark calls it. Raises as that does."""
    return rewrite_group(context, group, storage, task_attempt=task_attempt)


def spark_runner(spark: SparkSession, write: GroupWrite = write_group) -> RunnerMaker:
    """What `carry_out` takes as its `make_runner`; how many run at once is the session's affair.

    Raises InvalidInput before a plan is made, which would wait for somebody to carry it out.
    """
    if not hasattr(spark, "createDataFrame"):  # Sessions of Spark Connect have no context.
        raise InvalidInput(
            "not a Spark session; parameters are given by name, as in parameters={...}",
            type=type(spark).__name__,
        )

    def make(table: Table, _sizes: Sequence[int], _threads: int | None) -> Runner:
        prepare_executors(spark, table.storage.location)
        return _SparkRunner(spark, table, write)

    return make


class _SparkRunner:
    def __init__(self, spark: SparkSession, table: Table, write: GroupWrite) -> None:
        self._spark = spark
        self._table = table
        self._write = write

    def __call__(
        self,
        context: RewriteContext,
        groups: Sequence[GroupRewrite],
        on_done: Callable[[int], None],
    ) -> list[WriteStat]:
        """Raises ServiceBusy, InstantRolledBack, and what a task raised, when nothing of the job
        runs any more.
        """
        tag = f"sluice-{context.instant}"
        storage = self._table.storage
        run = partial(rewrite_numbered, context, tuple(groups), self._write)
        try:
            with (
                tagged(self._spark, tag),
                JobWatch(self._spark, tag, self._table.ports.scheduler) as watch,
            ):
                watch.ask_every(FENCE_PERIOD_S, partial(_is_out, context, storage))
                numbers = self._spark.range(0, len(groups), 1, len(groups))
                rewritten = numbers.mapInArrow(run, _STATUS_SCHEMA).collect()
        except (PySparkException, Py4JError) as error:
            stop_tasks(self._spark, tag, self._table.ports.clock)
            # A job that was cancelled says nothing of why.
            if (out := _why_out(context, storage)) is not None:
                raise out from error
            if (ours := ours_of(error)) is not None:
                raise ours from error
            raise
        on_done(len(rewritten))
        stats = [WriteStat(**json.loads(row.status)) for row in rewritten]
        await_losers(self._table, context.instant, [stat.path for stat in stats])
        return stats


def rewrite_numbered(
    context: RewriteContext,
    groups: Sequence[GroupRewrite],
    write: GroupWrite,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Rewrite the groups whose numbers come in; on executors."""
    spare_next_task()
    storage = open_storage(context.location)
    attempt = task_ids().attempt
    for batch in batches:
        with keeping_slot(partial(_is_out, context, storage)):
            stats = [
                write(context, groups[int(number)], storage, attempt)
                for number in batch.column("id").to_numpy()
            ]
        texts = pa.array([json.dumps(asdict(stat)) for stat in stats], pa.string())
        yield pa.RecordBatch.from_arrays([texts], names=["status"])


def _is_out(context: RewriteContext, storage: Storage) -> bool:
    return _why_out(context, storage) is not None


def _why_out(context: RewriteContext, storage: Storage) -> ServiceBusy | InstantRolledBack | None:
    """What says that the attempt does not stand any more; also None when storage does not tell."""
    try:
        confirm_attempt(storage, context.instant, context.attempt)
    except (ServiceBusy, InstantRolledBack) as out:
        return out
    except (OSError, LakehouseError) as error:
        _log.warning(
            "the state of the attempt cannot be checked: instant=%s error=%s",
            context.instant,
            error,
        )
    return None
