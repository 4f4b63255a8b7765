"""Rows that tasks stage for the commit of a write through the data source.

Spark offers no redistribution of rows to a Python source, so rows of one file group may come from
any task. They are staged as Arrow files, and only those of attempts that succeeded are read back.
What a dead driver left in the staging place is swept a day later by the next write through the
source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from workers.clock import SystemClock
from workers.errors import LakehouseError
from workers.files.arrow_streams import arrow_stream
from workers.ports import RandomIds
from workers.storage.base import Storage
from workers.storage.opener import open_storage
from workers.table_layout import STAGED_FRAMES

_SWEPT_AFTER_MS = 24 * 3600 * 1000
Messages = Sequence[WriterCommitMessage | None]
"""Of tasks; None for one that failed."""


@dataclass
class Staged(WriterCommitMessage):
    """A task's answer to the driver: the place of its rows, relative to the table."""

    path: str | None
    """None when the task had no rows."""
    query: str = ""
    """The streaming query that the task belongs to."""


def new_place() -> str:
    """A staging directory that no other write has."""
    return STAGED_FRAMES.file(RandomIds().token())


def stage(location: str, place: str, batches: Iterator[pa.RecordBatch]) -> str | None:
    """On executors: the task's rows in a file of this attempt's own; None without rows."""
    wanted = (batch for batch in batches if batch.num_rows)
    first = next(wanted, None)
    if first is None:
        return None
    path = f"{place}/{RandomIds().token()}.arrow"
    with (
        open_storage(location).create_data(path, STAGED_FRAMES.durability) as stream,
        pa.ipc.new_stream(_file(stream), first.schema) as sink,
    ):
        sink.write_batch(first)
        for batch in wanted:
            sink.write_batch(batch)
    return path


def staged_rows(storage: Storage, schema: pa.Schema, messages: Messages) -> pa.Table:
    """The rows of all tasks, under `schema`."""
    tables = [schema.empty_table()]
    for path in _paths(messages):
        with storage.open_data(path) as stream:
            staged = arrow_stream(stream).read_all()
        tables.append(staged.cast(schema))
    return pa.concat_tables(tables)


def tidy(storage: Storage, messages: Messages, place: str | None = None) -> None:
    """Delete `place`, the places of these tasks, and what others left a day ago."""
    places = {path.rpartition("/")[0] for path in _paths(messages)}
    for staged in places | ({place} if place else set()):
        storage.delete_tree(staged)
    oldest_ms = SystemClock().now_ms() - _SWEPT_AFTER_MS
    for file in storage.list_tree(STAGED_FRAMES.path):
        if file.modified_ms < oldest_ms:
            with suppress(LakehouseError):
                storage.delete(file.path, STAGED_FRAMES.durability)


def _paths(messages: Messages) -> list[str]:
    return [one.path for one in messages if isinstance(one, Staged) and one.path is not None]


def _file(stream: IO[bytes]) -> Any:
    """Arrow takes any Python file, its types do not."""
    return stream
