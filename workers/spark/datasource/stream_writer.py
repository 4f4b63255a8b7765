"""Writing a stream through the data source: one commit for each epoch that has rows.

Spark makes a writer anew for tasks and for each commit, and tells the commit the epoch's number and
not whose it is. The tasks know: Spark gives them the query's id, which its checkpoint keeps over
restarts, and their messages carry it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from workers.merge.mergers import Merger, install_mergers
from workers.schema.from_arrow import optional
from workers.spark.datasource.options import opened
from workers.spark.datasource.refusing import in_one_sentence
from workers.spark.datasource.staging import Messages, Staged, new_place, stage, staged_rows, tidy
from workers.spark.datasource.writer import check_committed
from workers.spark.types import to_arrow
from workers.storage.opener import open_storage
from workers.write.epochs import Epoch, write_epoch

_QUERY_ID: Final = "sql.streaming.queryId"
"""A local property of the jobs of a streaming query."""


class SluiceStreamWriter(DataSourceStreamArrowWriter):
    """The epochs of the stream `stream`; with `replaces` each takes the place of all rows."""

    def __init__(
        self,
        location: str,
        stream: str,
        operation: str,
        options: dict[str, str],
        schema: StructType,
        mergers: Mapping[str, Merger],
        *,
        replaces: bool,
    ) -> None:
        self._location = location
        self._stream = stream
        self._operation = operation
        self._write_options = options
        self._schema = optional(to_arrow(schema))
        self._mergers = mergers
        self._replaces = replaces
        self._place = new_place()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """On executors: the task's rows in a file of this attempt's own."""
        with in_one_sentence():
            return Staged(stage(self._location, self._place, iterator), _query_id())

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 (Spark's)
        """Commit the epoch, unless the table holds it already or it has no rows. Raises
        NotCommitted, InvalidInput, LockTimeout; the staged rows are gone then, and Spark sends the
        epoch again when the query is started again.
        """
        with in_one_sentence():
            storage = open_storage(self._location)
            install_mergers(self._mergers)
            try:
                rows = staged_rows(storage, self._schema, messages)
                if rows.num_rows or self._replaces:
                    self._write(rows, Epoch(self._stream, batchId, _query_of(messages)))
            finally:
                tidy(storage, messages)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 (Spark's)
        """Delete what the tasks staged. Spark asks for it after a commit that failed as well, whose
        outcome stands as it is.
        """
        tidy(open_storage(self._location), messages)

    def _write(self, rows: pa.Table, epoch: Epoch) -> None:
        table, options = opened(self._location), self._write_options
        outcome = write_epoch(table, rows, epoch, self._operation, options)  # type: ignore[arg-type]
        if outcome is not None:
            check_committed(outcome)


def _query_id() -> str:
    task = TaskContext.get()
    return (task.getLocalProperty(_QUERY_ID) or "") if task else ""


def _query_of(messages: Messages) -> str:
    return next((one.query for one in messages if isinstance(one, Staged) and one.query), "")
