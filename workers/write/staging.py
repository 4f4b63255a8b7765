"""Rows on their way from the task that has them to the task that writes their file group.

A staged file is an Arrow IPC file with a record batch per file group. It lies beside the instant's
markers, so whoever takes these away takes it away too, after a commit, a rollback or a crash.
Nothing of it need outlive a power loss.

Before keys were looked up rows have no file group yet: they are staged by shares of their keys
(`groups.rows_by_share`), in batches that keep their partition paths.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from workers.clock import InstantTime
from workers.errors import MalformedTable
from workers.markers.marker import markers_directory
from workers.storage.base import Storage
from workers.write.groups import RowGroup

_DIRECTORY = "staged"


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of one file group in one staged file."""

    partition: str
    slot: int
    bytes: int
    """In memory."""
    rows: int


@dataclass(frozen=True, slots=True)
class StagedFile:
    path: str
    """Relative to the table."""
    batches: tuple[StagedRows, ...]
    partitions: tuple[str, ...] = ()
    """Of rows that are staged by shares."""

    def to_json(self) -> str:
        listed = [[one.partition, one.slot, one.bytes, one.rows] for one in self.batches]
        body = {"path": self.path, "batches": listed, "partitions": self.partitions}
        return json.dumps(body)

    @classmethod
    def from_json(cls, text: str) -> StagedFile:
        body = json.loads(text)
        batches = tuple(StagedRows(*one) for one in body["batches"])
        return cls(body["path"], batches, tuple(body["partitions"]))


class Piece(NamedTuple):
    """Rows of one batch of a staged file."""

    path: str
    number: int
    start: int
    rows: int


@dataclass(frozen=True, slots=True)
class StagedGroup:
    """All rows of one file group: which rows of which files, in the order of arrival."""

    partition: str
    slot: int
    pieces: tuple[Piece, ...]
    bytes: int

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.pieces)


def stage(
    groups: Iterable[RowGroup],
    storage: Storage,
    instant: InstantTime,
    attempt: str,
    *,
    partitions: Collection[str] = (),
) -> StagedFile:
    """Write the rows of some file groups to a file that is named after the attempt.

    Raises InvalidInput when the attempt has staged under this name before.
    """
    path = f"{markers_directory(instant)}/{_DIRECTORY}/{attempt}.arrow"
    batches = []
    with storage.create_data(path) as stream, ExitStack() as stack:
        writer = None
        for group in groups:
            (batch,) = group.rows.combine_chunks().to_batches()
            if writer is None:
                sink: Any = stream
                writer = stack.enter_context(pa.ipc.new_file(sink, batch.schema))
            writer.write_batch(batch)
            batches.append(StagedRows(group.partition, group.slot, batch.nbytes, batch.num_rows))
    return StagedFile(path, tuple(batches), tuple(sorted(partitions)))


def by_file_group(files: Iterable[StagedFile]) -> list[StagedGroup]:
    """Each file group, or share, once, with what all files hold of it."""
    found: dict[tuple[str, int], list[tuple[Piece, int]]] = {}
    for file in files:
        for number, one in enumerate(file.batches):
            piece = Piece(file.path, number, 0, one.rows), one.bytes
            found.setdefault((one.partition, one.slot), []).append(piece)
    return [
        StagedGroup(
            partition,
            slot,
            tuple(piece for piece, _ in pieces),
            sum(size for _, size in pieces),
        )
        for (partition, slot), pieces in found.items()
    ]


def cut(group: StagedGroup, rows: Sequence[int]) -> list[StagedGroup]:
    """The group's rows in their order, so many in each part, under the group's own slot."""
    assert sum(rows) == group.rows, (rows, group.rows)
    row_bytes = group.bytes / max(1, group.rows)
    left, parts = list(group.pieces), []
    for wanted in rows:
        taken: list[Piece] = []
        missing = wanted
        while missing:
            piece = left.pop(0)
            here = min(missing, piece.rows)
            taken.append(piece._replace(rows=here))
            if here < piece.rows:
                left.insert(0, piece._replace(start=piece.start + here, rows=piece.rows - here))
            missing -= here
        size = int(row_bytes * wanted)
        parts.append(StagedGroup(group.partition, group.slot, tuple(taken), size))
    return parts


def read_staged(
    groups: Sequence[StagedGroup], storage: Storage, columns: Collection[str] | None = None
) -> Iterator[RowGroup]:
    """Raises NotFound when the instant was rolled back meanwhile, MalformedTable."""
    with ExitStack() as stack:
        files: dict[str, pa.RecordBatchFileReader] = {}
        first_row = 0
        for group in groups:
            batches = []
            for path, number, start, count in group.pieces:
                if path not in files:
                    stream = stack.enter_context(storage.open_data(path))
                    files[path] = _opened(stream, path, columns)
                batches.append(files[path].get_batch(number).slice(start, count))
            rows = pa.Table.from_batches(batches).combine_chunks()
            yield RowGroup(group.partition, group.slot, rows, first_row)
            first_row += rows.num_rows


def _opened(stream: Any, path: str, columns: Collection[str] | None) -> pa.RecordBatchFileReader:
    try:
        whole = pa.ipc.open_file(stream)
        if columns is None:
            return whole
        fields = [whole.schema.get_field_index(name) for name in columns]
        stream.seek(0)
        return pa.ipc.open_file(stream, options=pa.ipc.IpcReadOptions(included_fields=fields))
    except pa.ArrowException as error:
        raise MalformedTable("staged rows are damaged", path=path) from error
