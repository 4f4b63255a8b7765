"""How many statements run at once, by a person and on this node: locked files, which a process that
dies lets go of.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from controlplane.sql.errors import SqlBusy
from controlplane.sql.limits import SqlLimits


@contextmanager
def slot(home: Path, user_key: str, limits: SqlLimits) -> Iterator[None]:
    """One of the user's places and one of the node's. Raises SqlBusy, which waits for nobody."""
    directory = home / "sql"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as held:
        if not _taken(held, directory, f"user-{user_key}", limits.per_user):
            raise SqlBusy(
                f"you already have {limits.per_user} running statements or reads: wait "
                "until one ends",
                running=limits.per_user,
            )
        if not _taken(held, directory, "node", limits.per_node):
            raise SqlBusy(
                f"{limits.per_node} statements and reads are running on this node; try again soon",
                running=limits.per_node,
            )
        yield


def _taken(held: ExitStack, directory: Path, name: str, count: int) -> bool:
    for number in range(count):
        descriptor = os.open(directory / f"{name}-{number}", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        held.callback(os.close, descriptor)
        return True
    return False
