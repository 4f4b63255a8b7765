"""One at a time among the processes of this machine, by an advisory lock on a file of its own."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def sidecar_held(sidecar: Path) -> Iterator[None]:
    descriptor = os.open(sidecar, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
