"""Copy and replace a SQLite database."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from django.db import connection

from controlplane.node.backup.archive import BackupFailed
from workers.storage.synced_directories import sync_directory

_BESIDE: Final = ("-wal", "-shm")
Say = Callable[[str], object]


def dump(target: Path) -> dict[str, int]:
    """Copy the database as it is at one moment, next to writers; return its rows by table."""
    connection.ensure_connection()
    with closing(sqlite3.connect(target)) as copy:
        connection.connection.backup(copy)  # In one step: none is repeated if another one writes.
        copy.execute("PRAGMA journal_mode=DELETE")
        return _count_rows(copy)


def check(dump_file: Path) -> None:
    """Read the whole copy. Raises BackupFailed if it is damaged."""
    try:
        with closing(sqlite3.connect(dump_file)) as copy:
            [(problem,), *_] = copy.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        problem = str(error)
    if problem != "ok":
        raise BackupFailed(f"the copy of the database is damaged: {problem}")


def find_users() -> list[str]:
    """Return who else uses the database: SQLite does not know; the node's own processes are found
    by the caller.
    """
    return []


def load(dump_file: Path, say: Say) -> dict[str, int]:
    """Put the copy in the database's place, keep the former file under another name, and return the
    rows by table.
    """
    place = Path(connection.settings_dict["NAME"])
    with closing(sqlite3.connect(dump_file)) as copy:
        rows = _count_rows(copy)
    connection.close()
    fresh = place.with_name(f"{place.name}.restoring")
    shutil.copyfile(dump_file, fresh)
    fresh.chmod(0o600)
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    with closing(sqlite3.connect(place)) as former:
        former.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        has_tables = bool(_count_rows(former))
    if has_tables:
        former_path = _free_name(place)
        place.rename(former_path)
        say(f"  the former database is kept as {former_path}; delete it when you do not need it")
    for suffix in _BESIDE:
        place.with_name(f"{place.name}{suffix}").unlink(missing_ok=True)
    fresh.replace(place)
    sync_directory(place.parent)
    return rows


def _free_name(place: Path) -> Path:
    number = 1
    while (name := place.with_name(f"{place.name}.replaced-{number}")).exists():
        number += 1
    return name


def _count_rows(database: sqlite3.Connection) -> dict[str, int]:
    statement = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    return {
        name: database.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0]  # noqa: S608
        for (name,) in database.execute(statement).fetchall()
    }
