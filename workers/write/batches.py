"""A write of more rows than memory should hold, in one process and one commit.

Rows come batch by batch. Each few of them are prepared and spilled by file group, or by shares of
their keys under an index that reads keys. Then file groups are written one after the other, each
from all of its rows. Memory holds the batches of one spill, and later the rows of one file group.

What is spilled goes to files without a name in the system's folder for temporary files (`TMPDIR`):
a killed process leaves nothing behind.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import chain
from typing import IO, Any, Final, Protocol

import pyarrow as pa

from workers.concurrency.read_set import ReadSet
from workers.durability import Durability
from workers.errors import BadRows, NotFound, StorageFailed
from workers.files.arrow_streams import arrow_stream
from workers.files.meta_columns import PARTITION_PATH
from workers.schema.conversion import decode_columns
from workers.storage.base import Storage
from workers.write.context import WriteContext
from workers.write.groups import RowGroup, row_groups, rows_by_share
from workers.write.handles import write_row_groups
from workers.write.insert_shares import UNPLACED, assign_staged_inserts
from workers.write.key_partitions import check_one_partition
from workers.write.lookup import candidates, collect_batch_keys, find_places
from workers.write.placement import tag
from workers.write.prepare import SLOT, build_prepared_schema
from workers.write.read_set import build_read_set
from workers.write.row_validation import split_bad_rows
from workers.write.staging import StagedFile, StagedGroup, by_file_group, read_staged, stage
from workers.write.status import DeadLetterFile, TaskIds, WriteStatus
from workers.write.tagging import with_column

_PARTS: Final = 4
"""A quarter of the memory is prepared and spilled at once, because it is there several times."""


class RowBatches(Protocol):
    """Rows that can be read more than once, each time from the first."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


class RowStream:
    """Rows of one attempt: a few batches that were read, and the others that follow."""

    def __init__(self, batches: Sequence[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> None:
        self._batches = list(batches)
        self._rest = rest

    def chunks(self, size: int) -> Iterator[pa.Table]:
        """Yield the rows in tables of about so many bytes; to be called once."""
        chunk: list[pa.RecordBatch] = []
        while self._batches:
            chunk.append(self._batches.pop(0))
            if sum(batch.nbytes for batch in chunk) >= size:
                yield decode_columns(pa.Table.from_batches(chunk))
                chunk = []
        for batch in self._rest:
            chunk.append(batch)
            if sum(batch.nbytes for batch in chunk) >= size:
                yield decode_columns(pa.Table.from_batches(chunk))
                chunk = []
        if chunk:
            yield decode_columns(pa.Table.from_batches(chunk))


def _close(file: IO[bytes]) -> None:
    """Close a file, whose last bytes may not fit on the disk."""
    with suppress(OSError):
        file.close()


class StoredBatches:
    """See `RowBatches`: what a reader still has, which reads once only, kept in a spill."""

    _PATH: Final = "input"

    def __init__(
        self, batches: Sequence[pa.RecordBatch], reader: pa.RecordBatchReader, spill: Spill
    ) -> None:
        self._spill = spill
        self.schema = reader.schema
        with spill.create_data(self._PATH) as file:
            sink: Any = file
            with pa.ipc.new_stream(sink, self.schema) as writer:
                for batch in chain(batches, reader):
                    writer.write_batch(batch)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches from the first."""
        with self._spill.open_data(self._PATH) as file:
            yield from arrow_stream(file)


def read_up_to(batches: RowBatches, size: int) -> pa.Table | RowStream:
    """Return all rows if they have at most so many bytes, else a stream of them."""
    first: list[pa.RecordBatch] = []
    bytes_held = 0
    rest = iter(batches)
    for batch in rest:
        first.append(batch)
        bytes_held += batch.nbytes
        if bytes_held > size:
            return RowStream(first, rest)
    return decode_columns(pa.Table.from_batches(first, schema=batches.schema))


class _Reader(io.RawIOBase):
    """Reads an open file from a place of its own; closing it leaves the file open."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._place = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place of the file."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._place}
        self._place = offset + (
            starts[whence] if whence in starts else os.fstat(self._descriptor).st_size
        )
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Read what is there, up to the size of the buffer."""
        count = os.preadv(self._descriptor, [buffer], self._place)
        self._place += count
        return count


class Spill:
    """Files without names; they are gone with the process. One thread writes, then one reads."""

    def __init__(self) -> None:
        self._files = ExitStack()
        self._by_path: dict[str, IO[bytes]] = {}

    def __enter__(self) -> Spill:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files."""
        self._files.close()

    @contextmanager
    def create_data(
        self, path: str, durability: Durability = Durability.SCRATCH
    ) -> Iterator[IO[bytes]]:
        """Yield a new file. Raises StorageFailed if the disk is full."""
        assert durability is Durability.SCRATCH, durability
        file = tempfile.TemporaryFile(prefix="sluice-write-")  # noqa: SIM115 - `_files` closes it
        self._files.callback(_close, file)
        try:
            yield file
            file.flush()
        except OSError as error:
            raise StorageFailed(
                "rows beyond the memory limit cannot be put on disk; free space in the folder, or "
                "name another one by TMPDIR",
                folder=tempfile.gettempdir(),
                error=error.strerror,
            ) from error
        self._by_path[path] = file

    def open_data(self, path: str) -> IO[bytes]:
        """Return a file of its own over the same bytes. Raises NotFound."""
        if path not in self._by_path:
            raise NotFound("rows were not spilled", path=path)
        return io.BufferedReader(_Reader(self._by_path[path].fileno()))


class BatchedWrite:
    """One attempt at a write by batches. The `spill` must be there until its commit."""

    def __init__(self, context: WriteContext, storage: Storage, spill: Spill) -> None:
        self._context = context
        self._storage = storage
        self._spill = spill
        self._memory_bytes = context.options.memory_bytes
        self._staged: list[StagedFile] = []
        self.statuses: list[WriteStatus] = []
        self.letters: list[DeadLetterFile] = []
        self.rows = 0

    def run(self, stream: RowStream) -> ReadSet:
        """Write all rows of the stream, and return what decided about them. Raises as
        `write_file_groups`, as the stream does, and StorageFailed if the disk of the spill is full.
        """
        for chunk in stream.chunks(self._memory_bytes // _PARTS):
            self._spill_chunk(chunk)
        context, groups = self._context, by_file_group(self._staged)
        nothing = build_prepared_schema(context).empty_table()
        reads = build_read_set(context, nothing, self._staged, self._spill)
        partitions = {group.partition for group in groups}
        if context.looks_up:
            partitions = {path for file in self._staged for path in file.partitions}
            context, groups = self._tag(groups, partitions)
        context.partitions.check(partitions)
        parts = [[group] for group in groups]
        if context.config.keeps_keys_single:
            parts = list(_by_slot(groups).values())
        for number, part in enumerate(_split_by_share(parts, self._memory_bytes)):
            arrived: Iterable[RowGroup] = read_staged(part, self._spill)
            if context.config.keeps_keys_single:
                arrived = check_one_partition(context, arrived, self._storage, partitions)
            task = TaskIds(partition=number)
            self.statuses += write_row_groups(context, arrived, task, self._storage)
        return reads

    def _spill_chunk(self, chunk: pa.Table) -> None:
        context, part = self._context, len(self._staged)
        has_letters = bool(context.options.dead_letter_path)
        try:
            sifted = split_bad_rows(context, chunk, is_numbered=not has_letters)
        except BadRows as error:
            first: Any = error.values.get("first_rows", ())
            error.values["first_rows"] = [row + self.rows for row in first]
            raise
        self.letters += sifted.write_dead_letters(context, TaskIds(), self._storage, part=part)
        self.rows += chunk.num_rows
        prepared = sifted.prepared
        if not context.looks_up:
            self._staged.append(self._stage(row_groups(prepared), f"rows-{part}"))
            return
        shares = rows_by_share(prepared, prepared.column(SLOT).to_numpy())
        paths: list[Any] = prepared.column(PARTITION_PATH).unique().to_pylist()
        self._staged.append(self._stage(shares, f"rows-{part}", paths))

    def _stage(
        self, groups: Iterable[RowGroup], name: str, partitions: Collection[str] = ()
    ) -> StagedFile:
        instant = self._context.instant
        return stage(groups, self._spill, instant, name, partitions=partitions)

    def _tag(
        self, shares: Sequence[StagedGroup], partitions: Collection[str]
    ) -> tuple[WriteContext, list[StagedGroup]]:
        """Find the keys in files, some shares at a time, and spill the rows by file group."""
        context, storage = self._context, self._storage
        stored = candidates(context, partitions)
        files = []
        parts = _split_by_share([[share] for share in shares], self._memory_bytes // _PARTS)
        for number, part in enumerate(parts):
            rows = pa.concat_tables([group.rows for group in read_staged(part, self._spill)])
            keys = collect_batch_keys(context, rows)
            is_global = context.config.is_global
            sources = [source for source in stored if is_global or source.partition in keys]
            tagged = tag(context, rows, find_places(context, sources, keys, storage), storage)
            unplaced = pa.repeat(pa.scalar(UNPLACED, pa.int32()), tagged.inserts.num_rows)
            inserts = with_column(tagged.inserts, SLOT, unplaced)
            placed = pa.concat_tables([tagged.updates, inserts])
            staged = self._stage(row_groups(placed), f"tagged-{number}")
            revived, left = (
                tuple((*place, count) for place, count in counts.items())
                for counts in (tagged.revived, tagged.left)
            )
            files.append(replace(staged, revived=revived, left=left))
        return assign_staged_inserts(context, files, storage)


def _by_slot(groups: Iterable[StagedGroup]) -> dict[int, list[StagedGroup]]:
    by_slot: dict[int, list[StagedGroup]] = {}
    for group in groups:
        by_slot.setdefault(group.slot, []).append(group)
    return by_slot


def _split_by_share(
    parts: Iterable[Sequence[StagedGroup]], size: int
) -> Iterator[list[StagedGroup]]:
    """Yield parts together, in their order, as many as have at most so many bytes."""
    chunk: list[StagedGroup] = []
    bytes_taken = 0
    for part in parts:
        part_bytes = sum(group.bytes for group in part)
        if chunk and bytes_taken + part_bytes > size:
            yield chunk
            chunk, bytes_taken = [], 0
        chunk.extend(part)
        bytes_taken += part_bytes
    if chunk:
        yield chunk
