"""Rows on their way from the task that has them to the task that writes their file group.

A staged file is an Arrow stream with a record batch per file group, and the offset of each is
reported with it: the footer of an Arrow file would be read on one of Arrow's threads. The file is
next to the instant's markers, so it is deleted with them, after a commit, a rollback or a crash. It
need not survive a power loss.

Before keys were looked up rows have no file group yet: they are staged by shares of their keys
(`groups.rows_by_share`), in batches that keep their partition paths.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, astuple, dataclass
from typing import IO, Any, NamedTuple, Protocol

import pyarrow as pa

from workers.clock import InstantTime
from workers.durability import Durability
from workers.errors import MalformedTable
from workers.files.arrow_streams import arrow_stream
from workers.markers.marker import markers_directory
from workers.table_layout import STAGED_ROWS
from workers.write.groups import RowGroup

_DIRECTORY = "staged"


class StagingPlace(Protocol):
    """What staged files are written to and read from: a storage, or a place without names."""

    def create_data(
        self, path: str, durability: Durability = ...
    ) -> AbstractContextManager[IO[bytes]]:
        """Do as `Storage` does."""

    def open_data(self, path: str) -> IO[bytes]:
        """Do as `Storage` does."""


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of one file group in one staged file."""

    partition: str
    slot: int
    bytes: int
    """In memory."""
    rows: int
    begins: int
    """The offset of its bytes in the file, or where it ends."""
    ends: int


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One staged file, as its task reports it to the driver."""

    path: str
    """Relative to the table."""
    batches: tuple[StagedRows, ...]
    partitions: tuple[str, ...] = ()
    """Of rows that are staged by shares."""
    revived: tuple[tuple[str, int, int], ...] = ()
    """Of rows that were tagged: partition, slot and count of `TaggedRows.revived`."""
    left: tuple[tuple[str, int, int], ...] = ()
    """The same of `TaggedRows.left`."""

    def to_json(self) -> str:
        """Text for `from_json` in another process."""
        return json.dumps(asdict(self) | {"batches": [astuple(batch) for batch in self.batches]})

    @classmethod
    def from_json(cls, text: str) -> StagedFile:
        """Parse what `to_json` wrote, by a task of our own: damage raises KeyError, TypeError or
        ValueError.
        """
        body = json.loads(text)
        batches = tuple(StagedRows(*batch) for batch in body["batches"])
        revived, left = (
            tuple((partition, slot, keys) for partition, slot, keys in body[name])
            for name in ("revived", "left")
        )
        return cls(body["path"], batches, tuple(body["partitions"]), revived, left)


class Piece(NamedTuple):
    """Rows of one batch of a staged file."""

    path: str
    schema_ends: int
    begins: int
    ends: int
    """Where the batch's bytes are in the file, and those of the schema before all batches."""
    start: int
    rows: int


@dataclass(frozen=True, slots=True)
class StagedGroup:
    """All rows of one file group: which rows of which files, in the order of arrival."""

    partition: str
    slot: int
    pieces: tuple[Piece, ...]
    bytes: int
    arriving: tuple[Piece, ...] = ()
    leaving: tuple[Piece, ...] = ()
    """As of `RowGroup`."""

    @property
    def rows(self) -> int:
        """The count of rows in its pieces, without those that arrive."""
        return sum(piece.rows for piece in self.pieces)


def stage(
    groups: Iterable[RowGroup],
    storage: StagingPlace,
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
    with storage.create_data(path, STAGED_ROWS.durability) as stream, ExitStack() as stack:
        writer, begins = None, 0
        for group in groups:
            (batch,) = group.rows.combine_chunks().to_batches()
            if writer is None:
                sink: Any = stream
                writer = stack.enter_context(pa.ipc.new_stream(sink, batch.schema))
                begins = batch.schema.serialize().size  # Written with the first batch.
            writer.write_batch(batch)
            ends = stream.tell()
            batches.append(
                StagedRows(group.partition, group.slot, batch.nbytes, batch.num_rows, begins, ends)
            )
            begins = ends
    return StagedFile(path, tuple(batches), tuple(sorted(partitions)))


def by_file_group(files: Iterable[StagedFile]) -> list[StagedGroup]:
    """Return each file group, or share, once, with its pieces of all files."""
    pieces_by_group: dict[tuple[str, int], list[tuple[Piece, int]]] = {}
    for file in files:
        for batch in file.batches:
            schema_ends = file.batches[0].begins
            piece = (
                Piece(file.path, schema_ends, batch.begins, batch.ends, 0, batch.rows),
                batch.bytes,
            )
            pieces_by_group.setdefault((batch.partition, batch.slot), []).append(piece)
    return [
        StagedGroup(
            partition,
            slot,
            tuple(piece for piece, _ in pieces),
            sum(size for _, size in pieces),
        )
        for (partition, slot), pieces in pieces_by_group.items()
    ]


def cut(group: StagedGroup, rows: Sequence[int]) -> list[StagedGroup]:
    """Cut the group's rows in their order into parts of so many rows, under the group's
    own slot.
    """
    assert sum(rows) == group.rows, (rows, group.rows)
    row_bytes = group.bytes / max(1, group.rows)
    left, parts = list(group.pieces), []
    for row_count in rows:
        part_pieces: list[Piece] = []
        missing = row_count
        while missing:
            piece = left.pop(0)
            here = min(missing, piece.rows)
            part_pieces.append(piece._replace(rows=here))
            if here < piece.rows:
                left.insert(0, piece._replace(start=piece.start + here, rows=piece.rows - here))
            missing -= here
        size = int(row_bytes * row_count)
        parts.append(StagedGroup(group.partition, group.slot, tuple(part_pieces), size))
    return parts


def read_staged(
    groups: Sequence[StagedGroup], storage: StagingPlace, columns: Collection[str] | None = None
) -> Iterator[RowGroup]:
    """Yield the rows that were staged, one group after the other. Raises NotFound when the instant
    was rolled back in between, MalformedTable.
    """
    with ExitStack() as stack:
        files: dict[str, IO[bytes]] = {}

        def read_pieces(pieces: Iterable[Piece], names: Collection[str] | None = None) -> pa.Table:
            batches = []
            for piece in pieces:
                if piece.path not in files:
                    files[piece.path] = stack.enter_context(storage.open_data(piece.path))
                batch = _batch(files[piece.path], piece, names)
                batches.append(batch.slice(piece.start, piece.rows))
            return pa.Table.from_batches(batches).combine_chunks()

        first_row = 0
        for group in groups:
            arriving = read_pieces(group.arriving) if group.arriving else None
            leaving = read_pieces(group.leaving) if group.leaving else None
            if leaving is not None and not group.pieces:
                rows = leaving.slice(0, 0)
            else:
                rows = read_pieces(group.pieces, columns)
            row_group = RowGroup(
                group.partition, group.slot, rows, first_row, arriving=arriving, leaving=leaving
            )
            yield row_group
            first_row += row_group.written_rows


def _batch(stream: IO[bytes], piece: Piece, columns: Collection[str] | None) -> pa.RecordBatch:
    content = _span(stream, 0, piece.schema_ends) + _span(stream, piece.begins, piece.ends)
    try:
        fields: Sequence[int] = ()
        if columns is not None:
            schema = arrow_stream(content).schema
            fields = [schema.get_field_index(name) for name in columns]
        return arrow_stream(content, fields).read_next_batch()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise MalformedTable("staged rows are damaged", path=piece.path) from error


def _span(stream: IO[bytes], begins: int, ends: int) -> bytes:
    stream.seek(begins)
    return stream.read(ends - begins)
