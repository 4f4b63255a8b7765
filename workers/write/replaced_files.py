"""A digest of the files that a replacing write would replace: the same files, the same text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from workers.errors import PlanChanged
from workers.table.file_group import FileSlice

_DIGEST_CHARS = 16


def digest_slices(slices: Iterable[FileSlice]) -> str:
    """Return one digest of all files of these slices, whatever their order."""
    paths = sorted(path for file_slice in slices for path in file_slice.files)
    return hashlib.sha256("\n".join(paths).encode()).hexdigest()[:_DIGEST_CHARS]


def check_replaced(slices: Iterable[FileSlice], planned: str) -> None:
    """Check that the slices are the planned ones. Raises PlanChanged if the snapshot that a write
    starts from is another one.
    """
    if digest_slices(slices) != planned:
        raise PlanChanged("the table changed since what is overwritten was planned")
