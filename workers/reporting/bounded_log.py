"""Bounds what the log file of a running process takes of the disk: its middle is cut out, its
beginning and its end stay.

The middle becomes a hole, so every byte stays at its place: whoever appends goes on, and lines that
were reported by their places are not reported twice. Linux alone; the file system must know holes
(ext4, xfs, btrfs, tmpfs do).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.ports import Scheduler

LOOK_EVERY_S: Final = 1.0
_BLOCK: Final = 4_096
_STAT_BLOCK: Final = 512
_KEEP_SIZE_AND_PUNCH_HOLE: Final = 0x01 | 0x02


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Bytes; `most` may be passed by what is written between two looks."""

    most: int = 16 << 20
    head: int = 1 << 20
    tail: int = 4 << 20


@contextmanager
def bounded_log(
    path: Path, scheduler: Scheduler, bounds: LogBounds | None = None
) -> Iterator[None]:
    """Look at the file about every second until the block ends, in a thread of its own."""

    def cut() -> None:
        if path.exists():  # A driver that was started by hand writes elsewhere.
            cut_middle(path, bounds or LogBounds())

    looks = scheduler.every(LOOK_EVERY_S, cut, name="sluice-log-bound")
    try:
        yield
    finally:
        looks.stop()


def cut_middle(path: Path, bounds: LogBounds) -> int:
    """Give back the middle of a file that takes more than `most`, and say so where it was; how many
    bytes lie between its two ends then, 0 where it was short enough.

    Raises OSError, also where the file system knows no holes.
    """
    with path.open("r+b", buffering=0) as log:
        status = os.fstat(log.fileno())
        if status.st_blocks * _STAT_BLOCK <= bounds.most:
            return 0
        begin = bounds.head // _BLOCK * _BLOCK + _BLOCK
        end = (status.st_size - bounds.tail) // _BLOCK * _BLOCK
        if end <= begin:
            return 0
        _punch_hole(log.fileno(), begin, end - begin)
        words = (
            f"\n{end - begin} bytes were cut here: this log keeps its first {bounds.head} and its "
            f"last {bounds.tail} bytes\n"
        )
        os.pwrite(log.fileno(), words.encode(), begin - _BLOCK)
        return end - begin


def _punch_hole(descriptor: int, offset: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    mode = ctypes.c_int(_KEEP_SIZE_AND_PUNCH_HOLE)
    if libc.fallocate(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the middle of a log could not be cut: {os.strerror(number)}")
