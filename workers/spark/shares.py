"""A job of tasks that each do one share of the work, found by its number: nothing is shuffled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from workers.errors import EarlyConflict
from workers.spark.doom_watch import DOOMED
from workers.spark.holding import await_cancelling, keeping_slot_of
from workers.spark.task_process import spare_next_task
from workers.write.context import WriteContext

Share = TypeVar("Share")
Work = Callable[[WriteContext, Share], list[str]]
"""On executors: the share done, and what the driver is told of it."""
_ANSWER_SCHEMA = "answer string"
_ANSWER_NAMES = ["answer"]


def in_tasks(
    spark: SparkSession, context: WriteContext, work: Work[Share], shares: Sequence[Share]
) -> list[str]:
    """The answers of the attempts that Spark took; others may have worked as well, or still do.

    Raises EarlyConflict, and Spark's own exception.
    """
    if not shares:
        return []
    # A range of n numbers in n tasks: each finds its share by its number.
    rows = (
        spark.range(0, len(shares), 1, len(shares))
        .mapInArrow(partial(_done, context, work, shares), _ANSWER_SCHEMA)
        .collect()
    )
    if any(row.answer == DOOMED for row in rows):
        raise EarlyConflict("a task heard of a writer that wins", instant=context.instant)
    return [row.answer for row in rows]


def dealt(works: Sequence[Share], weights: Sequence[int], tasks: int) -> list[list[Share]]:
    """The works dealt out to so many tasks, about as much to each."""
    shares: list[list[Share]] = [[] for _ in range(tasks)]
    loads = [0] * tasks
    for at in sorted(range(len(works)), key=weights.__getitem__, reverse=True):
        lightest = loads.index(min(loads))
        shares[lightest].append(works[at])
        loads[lightest] += weights[at]
    return shares


def _done(
    context: WriteContext,
    work: Work[Share],
    shares: Sequence[Share],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    spare_next_task()
    for batch in numbers:
        for number in batch.column("id").to_numpy():
            texts = _answers(context, work, shares[number])
            yield pa.record_batch([pa.array(texts, pa.string())], names=_ANSWER_NAMES)


def _answers(context: WriteContext, work: Work[Share], share: Share) -> list[str]:
    try:
        with keeping_slot_of(context):
            return work(context, share)
    except EarlyConflict:
        await_cancelling()
        return [DOOMED]
