"""Decoded blocks of a file, kept from the pass that finds the types until they are written.

A few stay in memory, others go to a file without a name, which the system removes with the process.
Keeping is a matter of speed only: what does not fit is decoded again.
"""

from __future__ import annotations

import logging
import tempfile
import weakref
from dataclasses import dataclass, field
from typing import IO, Any, Final

import pyarrow as pa

from workers.files.arrow_streams import arrow_stream
from workers.loading.findings import LoadCounts

MEMORY_BYTES: Final = 64 << 20
DISK_BYTES: Final = 8 << 30
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptBlock:
    """The columns of one block that were converted, each in the type that it seemed to have."""

    rows: int
    bytes_read: int
    counts: LoadCounts
    """Conversions and null words of this block alone."""
    batch: pa.RecordBatch | None = None
    place: tuple[int, int] = (0, 0)
    """Where the batch begins in the file, and its bytes."""


@dataclass(slots=True, weakref_slot=True)
class KeptBlocks:
    """Blocks in the order of their files, as far as they were kept. Their file on disk is closed
    with the object, also by the garbage collector.
    """

    _by_file: dict[int, list[KeptBlock]] = field(default_factory=dict)
    _memory_bytes: int = 0
    _disk_bytes: int = 0
    _file: IO[bytes] | None = None
    _is_full: bool = False
    _whole: set[int] = field(default_factory=set)

    def add(
        self, file: int, batch: pa.RecordBatch, rows: int, bytes_read: int, counts: LoadCounts
    ) -> None:
        """Keep the next block of a file, unless memory and disk are used up."""
        if self._is_full:
            return
        block: KeptBlock | None
        if self._memory_bytes + batch.nbytes <= MEMORY_BYTES:
            self._memory_bytes += batch.nbytes
            block = KeptBlock(rows, bytes_read, counts, batch)
        else:
            block = self._put(batch, rows, bytes_read, counts)
        if block is not None:
            self._by_file.setdefault(file, []).append(block)

    def _put(
        self, batch: pa.RecordBatch, rows: int, bytes_read: int, counts: LoadCounts
    ) -> KeptBlock | None:
        self._is_full = self._disk_bytes + batch.nbytes > DISK_BYTES
        if self._is_full:
            return None
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="sluice-load-")  # noqa: SIM115 - below
                weakref.finalize(self, self._file.close)
            self._file.seek(self._disk_bytes)
            sink: Any = self._file
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            self._file.flush()
            end = self._file.tell()
        except OSError as error:
            _log.warning("decoded rows are not kept, the file is decoded twice: error=%s", error)
            self._is_full = True
            self._file = None
            return None
        place = (self._disk_bytes, end - self._disk_bytes)
        self._disk_bytes = end
        return KeptBlock(rows, bytes_read, counts, place=place)

    def of_file(self, file: int) -> list[KeptBlock]:
        """Return the first blocks of a file."""
        return self._by_file.get(file, [])

    def end_file(self, file: int) -> None:
        """Note that a file has ended."""
        if not self._is_full:
            self._whole.add(file)

    def is_whole(self, file: int) -> bool:
        """Check whether all blocks of a file were kept."""
        return file in self._whole

    def read(self, block: KeptBlock) -> pa.RecordBatch:
        """Return what was converted."""
        if block.batch is not None:
            return block.batch
        assert self._file is not None, block.place
        begins, size = block.place
        self._file.seek(begins)
        return arrow_stream(self._file.read(size)).read_next_batch()
