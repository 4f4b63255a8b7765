"""Writing through the data source: tasks stage their rows, and the commit writes them as one batch.

Spark offers no redistribution of rows to a Python source, so rows of one file group may come from
any task. They are staged as Arrow files, and only those of attempts that succeeded are read back.
The commit is an ordinary write of the whole batch in one process: its memory is the batch's. What a
dead driver left in the staging place is swept a day later by the next write through this door.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from workers.clock import SystemClock
from workers.concurrency.outcome import Committed
from workers.errors import LakehouseError
from workers.files.arrow_streams import arrow_stream
from workers.merge.mergers import Merger, adopt_mergers
from workers.ports import RandomIds
from workers.schema.from_arrow import optional
from workers.spark.datasource.options import opened
from workers.spark.datasource.refusing import in_one_sentence
from workers.spark.types import to_arrow
from workers.storage.base import Storage
from workers.storage.opening import open_storage
from workers.table_layout import STAGED_FRAMES
from workers.write.local import write_arrow
from workers.write.request import WriteRequest

_SWEPT_AFTER_MS = 24 * 3600 * 1000


class NotCommitted(LakehouseError):
    """The write ended without a commit: another writer won, or somebody rolled it back."""

    code = "not_committed"


@dataclass
class Staged(WriterCommitMessage):
    """A task's answer to the driver: the place of its rows, relative to the table."""

    path: str | None
    """None when the task had no rows."""


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
        self._place = STAGED_FRAMES.file(RandomIds().token())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """On executors: the task's rows in a file of this attempt's own."""
        batches = (batch for batch in iterator if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return Staged(None)
        path = f"{self._place}/{RandomIds().token()}.arrow"
        with (
            in_one_sentence(),
            open_storage(self._location).create_data(path, STAGED_FRAMES.durability) as stream,
            pa.ipc.new_stream(_file(stream), first.schema) as sink,
        ):
            sink.write_batch(first)
            for batch in batches:
                sink.write_batch(batch)
        return Staged(path)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the rows that the tasks have staged. Raises NotCommitted, InvalidInput,
        LockTimeout; the staged rows are gone then.
        """
        with in_one_sentence():
            storage = open_storage(self._location)
            adopt_mergers(self._mergers)
            try:
                batch = self._batch(storage, messages)
                request = WriteRequest(self._operation)  # type: ignore[arg-type]  # begin() refuses
                outcome = write_arrow(opened(self._location), batch, request, self._write_options)
            finally:
                self._tidy(storage)
            if not isinstance(outcome, Committed):
                raise NotCommitted("the write was not committed", outcome=outcome)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what the tasks staged; nothing was written to the table yet."""
        self._tidy(open_storage(self._location))

    def _batch(self, storage: Storage, messages: Sequence[WriterCommitMessage | None]) -> pa.Table:
        tables = [self._schema.empty_table()]
        for message in messages:
            if isinstance(message, Staged) and message.path is not None:
                with storage.open_data(message.path) as stream:
                    staged = arrow_stream(stream).read_all()
                tables.append(staged.cast(self._schema))
        return pa.concat_tables(tables)

    def _tidy(self, storage: Storage) -> None:
        storage.delete_tree(self._place)
        oldest_ms = SystemClock().now_ms() - _SWEPT_AFTER_MS
        for file in storage.list_tree(STAGED_FRAMES.path):
            if file.modified_ms < oldest_ms:
                with suppress(LakehouseError):
                    storage.delete(file.path, STAGED_FRAMES.durability)


def _file(stream: IO[bytes]) -> Any:
    """Arrow takes any Python file, its types do not."""
    return stream
