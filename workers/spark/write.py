"""Write a Spark DataFrame: the driver begins and commits, tasks place rows and write file groups.

A first job lays the rows out by file group (`placement`); where keys are looked up, two more do
(`tagging`). The last one writes them: each task gets its share of the file groups, reads their
staged rows by path and answers with statuses. What is small is written by the driver, which then
holds all of it already. No task reads the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from workers.clock import InstantTime
from workers.concurrency.outcome import CommitOutcome
from workers.errors import EarlyConflict, InvalidInput, LakehouseError
from workers.options.lock_options import PROVIDER, LockProvider
from workers.options.write_options import WriteOptions, write_options
from workers.spark.doom_watch import DoomWatch, is_doomed
from workers.spark.failures import await_losers, ours_of, stop_tasks
from workers.spark.holding import is_rolled_back
from workers.spark.remote_packages import prepare_executors
from workers.spark.row_jobs import Written, write_rows
from workers.spark.types import to_arrow
from workers.table.table import Table
from workers.write.client import Transaction, WriteClient, WriteRequest
from workers.write.context import WriteContext
from workers.write.replacement import check_replaced
from workers.write.retry import with_retries

JobRun = Callable[[str, DoomWatch], Written]
"""Runs the jobs of a write under a tag, by which they are cancelled."""


def write_frame(
    table: Table,
    df: DataFrame,
    operation: str,
    stream: str | None,
    options: Mapping[str, str],
) -> CommitOutcome:
    """As `write_dataframe`, and again after a lost conflict as often as the options say."""

    def attempt(number: int) -> CommitOutcome:
        return write_dataframe(
            table, df, operation=operation, stream=stream, options=options, attempt=number
        )

    typed = write_options(options, table.config.get_mode(operation))
    return with_retries(table, typed, attempt)


def write_dataframe(
    table: Table,
    df: DataFrame,
    *,
    operation: str = "upsert",
    stream: str | None = None,
    options: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
    attempt: int = 1,
    attempts_max: int | None = None,
    before_commit: Callable[[InstantTime], None] | None = None,
    replaces: str = "",
) -> CommitOutcome:
    """Write and commit the frame as one instant. `extra` goes into the commit's metadata, and
    `attempt` when it is not the first one, of `attempts_max` or as many as the options say;
    `before_commit` is called with the instant when all its files are written. `replaces` is the
    digest of the files that are there (`digest_slices`), where others must not be overwritten.

    Raises InvalidInput before anything is written or with everything rolled back, MarkerRefused,
    LockTimeout, PlanChanged, and Spark's own exception when the job failed.
    """
    request = WriteRequest(
        operation,  # type: ignore[arg-type] # begin() refuses an operation that it does not know.
        stream,
        tuple(sorted((extra or {}).items())),
        attempts_max=attempts_max,
        is_inferred=True,
    ).for_attempt(attempt)
    typed = write_options(options or {}, table.config.get_mode(operation))
    schema, spark = to_arrow(df.schema), df.sparkSession

    def find(context: WriteContext) -> DataFrame:
        if replaces:
            check_replaced(context.slices.values(), replaces)
        return df

    return write_rows_from(table, spark, schema, request, typed, find, before_commit)


def write_rows_from(
    table: Table,
    spark: SparkSession,
    schema: pa.Schema,
    request: WriteRequest,
    options: WriteOptions,
    find: Callable[[WriteContext], DataFrame],
    before_commit: Callable[[InstantTime], None] | None = None,
) -> CommitOutcome:
    """Write the frame that `find` makes of the snapshot which the write starts from, under
    `schema`. Raises as `write_dataframe`, and as `find` with everything rolled back.
    """
    if options.lock.provider is LockProvider.IN_PROCESS:
        raise InvalidInput(
            "tasks of Spark are processes of their own, and an in-process lock keeps out threads "
            "only",
            write=f"{PROVIDER}={LockProvider.STORAGE}",
        )
    prepare_executors(spark, table.storage.location)
    transaction = WriteClient(table, options).begin(schema, request)

    def run(tag: str, watch: DoomWatch) -> Written:
        return write_rows(find(transaction.context), transaction.context, tag, watch)

    return carry_out(table, transaction, spark, run, before_commit)


def carry_out(
    table: Table,
    transaction: Transaction,
    spark: SparkSession,
    run: JobRun,
    before_commit: Callable[[InstantTime], None] | None = None,
) -> CommitOutcome:
    """From the begun transaction to its outcome; raises as `write_dataframe`."""
    tag = f"sluice-{transaction.instant}"
    try:
        with DoomWatch(table, transaction.context, spark, tag) as watch:
            statuses, letters, reads = run(tag, watch)
        transaction.declare_reads(reads)
        await_losers(table, transaction.instant, [status.stat.path for status in statuses])
        if before_commit is not None:
            before_commit(transaction.instant)
    except BaseException as error:
        ours = ours_of(error) if isinstance(error, PySparkException) else None
        stop_tasks(spark, tag, table.ports.clock)
        if _is_undone(table, transaction.instant, ours or error):
            return transaction.end_undone()
        if ours is None and _is_lost(table, transaction.context, error):
            return transaction.lose_early()
        transaction.abort(str(ours) if ours else _in_one_line(error))
        if ours is not None:
            raise ours from error
        raise
    return transaction.commit(statuses, letters)


def _is_undone(table: Table, instant: InstantTime, error: BaseException) -> bool:
    """Whether the write ended because others rolled it back, and not for its rows."""
    can_be = isinstance(error, PySparkException | Py4JError | LakehouseError)
    is_of_rows = isinstance(error, InvalidInput)
    return can_be and not is_of_rows and is_rolled_back(table.storage, instant)


def _is_lost(table: Table, context: WriteContext, error: BaseException) -> bool:
    """Whether the write ended because of a rival. A cancelled job says nothing of why."""
    is_of_spark = isinstance(error, PySparkException | Py4JError)
    return isinstance(error, EarlyConflict) or (is_of_spark and is_doomed(table, context))


def _in_one_line(error: BaseException) -> str:
    first, *_ = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {first}"
