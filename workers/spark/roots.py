"""The check that a worker makes itself: a table lies under a configured root, or is not opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from workers.errors import InvalidInput
from workers.storage.local import LocalStorage

ROOTS_VARIABLE = "SLUICE_TABLE_ROOTS"


def storage_under_root(location: str, environment: Mapping[str, str]) -> LocalStorage:
    """The storage at `location`, whatever links and dots its path is written with.

    Raises InvalidInput when no root is configured, or the location lies under none.
    """
    roots = [
        Path(os.path.realpath(root))
        for root in environment.get(ROOTS_VARIABLE, "").split(os.pathsep)
        if root
    ]
    resolved = Path(os.path.realpath(location))
    if not any(root in resolved.parents for root in roots):
        raise InvalidInput("table is outside the configured roots", table=location)
    return LocalStorage(resolved)
