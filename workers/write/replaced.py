"""What a write that replaces would take away, as one short text: the same files, the same text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from workers.errors import PlanChanged
from workers.table.file_group import FileSlice

_DIGEST_CHARS = 16


def digest_of_slices(slices: Iterable[FileSlice]) -> str:
    """One digest of all files of these slices, whatever their order."""
    paths = sorted(path for file_slice in slices for path in file_slice.files)
    return hashlib.sha256("\n".join(paths).encode()).hexdigest()[:_DIGEST_CHARS]


def check_replaced(slices: Iterable[FileSlice], planned: str) -> None:
    """Refuses what was planned otherwise. Raises PlanChanged where the snapshot that a
    write starts from is not the planned one.
    """
    if digest_of_slices(slices) != planned:
        raise PlanChanged("the table changed since what is overwritten was planned")
