"""Writing through the data source: tasks stage their rows, and the commit writes them as one batch.

The commit is an ordinary write of the whole batch in one process: its memory is the batch's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from workers.concurrency.outcome import CommitOutcome, Committed
from workers.errors import LakehouseError
from workers.merge.mergers import Merger, install_mergers
from workers.schema.from_arrow import optional
from workers.spark.datasource.options import opened
from workers.spark.datasource.refusing import in_one_sentence
from workers.spark.datasource.staging import Messages, Staged, new_place, stage, staged_rows, tidy
from workers.spark.types import to_arrow
from workers.storage.opener import open_storage
from workers.write.local import write_arrow
from workers.write.request import WriteRequest


class NotCommitted(LakehouseError):
    """The write ended without a commit: another writer won, or somebody rolled it back."""

    code = "not_committed"


class SluiceWriter(DataSourceArrowWriter):
    """One write of a frame with `schema`: made in the driver's planner, shipped to tasks, committed
    or aborted once. Each has a staging directory of its own.
    """

    def __init__(
        self,
        location: str,
        operation: str,
        options: dict[str, str],
        schema: StructType,
        mergers: Mapping[str, Merger],
    ) -> None:
        self._location = location
        self._operation = operation
        self._write_options = options
        self._schema = optional(to_arrow(schema))
        self._mergers = mergers
        self._place = new_place()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """On executors: the task's rows in a file of this attempt's own."""
        with in_one_sentence():
            return Staged(stage(self._location, self._place, iterator))

    def commit(self, messages: Messages) -> None:
        """Commit the rows that the tasks have staged. Raises NotCommitted, InvalidInput,
        LockTimeout; the staged rows are gone then.
        """
        with in_one_sentence():
            storage = open_storage(self._location)
            install_mergers(self._mergers)
            try:
                batch = staged_rows(storage, self._schema, messages)
                request = WriteRequest(self._operation)  # type: ignore[arg-type]  # begin() refuses
                outcome = write_arrow(opened(self._location), batch, request, self._write_options)
            finally:
                tidy(storage, messages, self._place)
            check_committed(outcome)

    def abort(self, messages: Messages) -> None:
        """Delete what the tasks staged; nothing was written to the table yet."""
        tidy(open_storage(self._location), messages, self._place)


def check_committed(outcome: CommitOutcome) -> None:
    """Spark knows no outcome but success. Raises NotCommitted for every other one."""
    if not isinstance(outcome, Committed):
        raise NotCommitted("the write was not committed", outcome=outcome)
