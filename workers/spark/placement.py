"""Which rows belong together: every task prepares its own rows and lays them out by file group.

Whole rows cross from the JVM to Python once, here. A few rows are answered with as they are; more
are staged in the table's storage, where whoever writes their file group finds them. So nothing is
shuffled by the JVM, and no row returns to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col

from workers.files.arrow_streams import arrow_stream
from workers.files.meta_columns import PARTITION_PATH
from workers.spark.holding import keeping_slot_of
from workers.spark.task_process import spare_next_task, task_ids
from workers.spark.types import to_arrow
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.write.context import WriteContext
from workers.write.groups import row_groups, rows_by_share
from workers.write.prepare import SLOT, build_prepared_schema, prepare
from workers.write.row_validation import split_bad_rows
from workers.write.staging import StagedFile, stage
from workers.write.status import DeadLetterFile

_FIELDS: Final[dict[str, pa.DataType]] = {
    "staged": pa.string(),
    "rows": pa.binary(),
    "letters": pa.string(),
}
_ANSWER: Final = pa.schema(_FIELDS)
_ANSWER_SPARK: Final = "staged string, rows binary, letters string"
_ANSWERED_BYTES_MAX: Final = 64 << 10
"""Of rows that a task answers with; ten thousand tasks still fit into the driver."""
_STAGED_BYTES: Final = 48 << 20
"""Held by a task before they are staged, in memory three times over for a moment."""


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """What the first job made of a frame: rows that tasks staged, and the few that came back."""

    staged: tuple[StagedFile, ...]
    here: pa.Table
    """As `prepare` made them; not among the staged ones."""
    letters: tuple[DeadLetterFile, ...] = ()
    """What the attempts that were taken put beside the table."""


def place_rows(df: DataFrame, context: WriteContext) -> PlacedRows:
    """Run the frame. Raises InvalidInput for columns that the table cannot hold, before; Spark's
    own exception, which holds InvalidInput for rows that it cannot hold.
    """
    prepare(context, to_arrow(df.schema).empty_table())
    if context.operation == "delete":
        df = df.select(*map(_quoted, context.columns))
    answers = df.mapInArrow(partial(_placed, context), _ANSWER_SPARK).collect()
    staged = (StagedFile.from_json(one.staged) for one in answers if one.staged is not None)
    rows = [arrow_stream(bytes(one.rows)).read_all() for one in answers if one.rows is not None]
    letters = (DeadLetterFile.from_json(one.letters) for one in answers if one.letters is not None)
    return PlacedRows(
        tuple(staged),
        pa.concat_tables([build_prepared_schema(context).empty_table(), *rows]),
        tuple(letters),
    )


def stage_prepared(
    context: WriteContext, prepared: pa.Table, storage: Storage, attempt: str
) -> StagedFile:
    """By file group; where these are not known before keys were looked up, by shares of keys."""
    if not context.looks_up:
        return stage(row_groups(prepared), storage, context.instant, attempt)
    shares = rows_by_share(prepared, prepared.column(SLOT).to_numpy())
    named: list[Any] = prepared.column(PARTITION_PATH).unique().to_pylist()
    return stage(shares, storage, context.instant, attempt, partitions=named)


def _quoted(name: str) -> Column:
    return col("`" + name.replace("`", "``") + "`")


def _placed(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On executors."""
    spare_next_task()
    with keeping_slot_of(context):
        yield from _laid_out(context, batches)


def _laid_out(context: WriteContext, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    storage = open_storage(context.location)
    ids = task_ids()
    held: list[pa.RecordBatch] = []
    size = staged = 0

    def prepared() -> tuple[pa.Table, str | None]:
        """The rows held, and what says of those that were put beside the table."""
        sifted = split_bad_rows(context, pa.Table.from_batches(held))
        held.clear()
        letters = sifted.write_dead_letters(context, ids, storage, part=staged)
        return sifted.prepared, next((one.to_json() for one in letters), None)

    def staged_file() -> pa.RecordBatch:
        rows, letters = prepared()
        file = stage_prepared(context, rows, storage, f"{ids.stage}-{ids.attempt}-{staged}")
        return pa.record_batch([[file.to_json()], [None], [letters]], schema=_ANSWER)

    for batch in batches:
        if batch.num_rows == 0:
            continue
        held.append(batch)
        size += batch.nbytes
        if size >= _STAGED_BYTES:
            yield staged_file()
            size, staged = 0, staged + 1
    if held and (staged or size > _ANSWERED_BYTES_MAX):
        yield staged_file()
    elif held:
        rows, letters = prepared()
        yield pa.record_batch([[None], [_encoded(rows)], [letters]], schema=_ANSWER)


def _encoded(prepared: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, prepared.schema) as writer:
        writer.write_table(prepared)
    return sink.getvalue().to_pybytes()
