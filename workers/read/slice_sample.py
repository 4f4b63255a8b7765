"""Some file slices of a table, in an order that has nothing to do with their content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from workers.table.file_group import FileSlice
from workers.table.table import Table
from workers.table.view import FileSystemView


@dataclass(frozen=True, slots=True)
class SampleBounds:
    """How much of a table is looked at."""

    slices: int = 32
    bytes: int = 128 << 20
    """The size on storage of the sampled slices' files."""
    wide_bytes: int = 16 << 20
    """The size of those among them whose columns are looked at too."""


def sampled(
    table: Table, view: FileSystemView, bounds: SampleBounds
) -> Iterator[tuple[FileSlice, bool]]:
    """Slices within the bounds, and whether each is within the smaller one; other slices after
    each commit. A slice that is larger than what is left is passed over.
    """
    left, wide_left = bounds.bytes, bounds.wide_bytes
    for slice_ in _mixed(view)[: bounds.slices]:
        size = _bytes(table, slice_)
        if size is None or size > left:
            continue
        left -= size
        is_wide = size <= wide_left
        wide_left -= size if is_wide else 0
        yield slice_, is_wide


def _mixed(view: FileSystemView) -> list[FileSlice]:
    newest = max((one.completed_at for one in view.timeline.iterate_completed()), default="")

    def place(slice_: FileSlice) -> bytes:
        text = f"{newest} {slice_.partition} {slice_.file_id}"
        return hashlib.sha256(text.encode()).digest()

    return sorted(view.slices, key=place)


def _bytes(table: Table, slice_: FileSlice) -> int | None:
    """None for a slice that a clean took since it was listed."""
    infos = [table.storage.info(path) for path in slice_.files]
    return None if None in infos else sum(one.size for one in infos if one is not None)
