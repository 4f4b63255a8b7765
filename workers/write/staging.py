"""Rows on their way from the task that has them to the task that writes their file group.

A staged file is an Arrow IPC file with a record batch per file group. It lies beside the instant's
markers, so whoever takes these away takes it away too, after a commit, a rollback or a crash.
Nothing of it need outlive a power loss.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import MalformedTable
from workers.markers.marker import markers_directory
from workers.storage.base import Storage
from workers.write.groups import RowGroup, row_groups

_DIRECTORY = "staged"


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of one file group in one staged file."""

    partition: str
    slot: int
    bytes: int
    """In memory."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    path: str
    """Relative to the table."""
    batches: tuple[StagedRows, ...]

    def to_json(self) -> str:
        listed = [[one.partition, one.slot, one.bytes] for one in self.batches]
        return json.dumps({"path": self.path, "batches": listed})

    @classmethod
    def from_json(cls, text: str) -> StagedFile:
        body = json.loads(text)
        return cls(body["path"], tuple(StagedRows(*one) for one in body["batches"]))


@dataclass(frozen=True, slots=True)
class StagedGroup:
    """All rows of one file group: which batch of which files, in the order of arrival."""

    partition: str
    slot: int
    pieces: tuple[tuple[str, int], ...]
    bytes: int


def stage(prepared: pa.Table, storage: Storage, instant: InstantTime, attempt: str) -> StagedFile:
    """Write rows as `prepare` made them to a file that is named after the attempt.

    Raises InvalidInput when the attempt has staged under this name before.
    """
    path = f"{markers_directory(instant)}/{_DIRECTORY}/{attempt}.arrow"
    batches = []
    with storage.create_data(path) as stream, ExitStack() as stack:
        writer = None
        for group in row_groups(prepared):
            (batch,) = group.rows.combine_chunks().to_batches()
            if writer is None:
                sink: Any = stream
                writer = stack.enter_context(pa.ipc.new_file(sink, batch.schema))
            writer.write_batch(batch)
            batches.append(StagedRows(group.partition, group.slot, batch.nbytes))
    return StagedFile(path, tuple(batches))


def by_file_group(files: Iterable[StagedFile]) -> list[StagedGroup]:
    """Each file group once, with what all files hold of it."""
    found: dict[tuple[str, int], list[tuple[str, int, int]]] = {}
    for file in files:
        for number, one in enumerate(file.batches):
            piece = (file.path, number, one.bytes)
            found.setdefault((one.partition, one.slot), []).append(piece)
    return [
        StagedGroup(
            partition,
            slot,
            tuple((path, number) for path, number, _ in pieces),
            sum(size for _, _, size in pieces),
        )
        for (partition, slot), pieces in found.items()
    ]


def read_staged(groups: Sequence[StagedGroup], storage: Storage) -> Iterator[RowGroup]:
    """Raises NotFound when the instant was rolled back meanwhile, MalformedTable."""
    with ExitStack() as stack:
        files: dict[str, pa.RecordBatchFileReader] = {}
        first_row = 0
        for group in groups:
            batches = []
            for path, number in group.pieces:
                if path not in files:
                    stream = stack.enter_context(storage.open_data(path))
                    files[path] = _opened(stream, path)
                batches.append(files[path].get_batch(number))
            rows = pa.Table.from_batches(batches).combine_chunks()
            yield RowGroup(group.partition, group.slot, rows, first_row)
            first_row += rows.num_rows


def _opened(stream: Any, path: str) -> pa.RecordBatchFileReader:
    try:
        return pa.ipc.open_file(stream)
    except pa.ArrowException as error:
        raise MalformedTable("staged rows are damaged", path=path) from error
