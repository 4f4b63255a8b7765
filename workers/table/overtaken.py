"""Commits that another engine overtook: it changed the properties while they were published.

An engine that takes no lock of ours can do so between the last look under the lock and the
completed file, and take a commit into its own metadata while that is rolled back. So whoever
publishes or takes back looks once more afterwards. What it sees is told in its outcome
and kept beside the timeline, for the table's page; the commit stands.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass

from workers.clock import InstantTime
from workers.errors import (
    LakehouseError,
    MalformedTable,
    NotFound,
    TableChanged,
    UnsupportedTable,
)
from workers.json_text import read_json
from workers.storage.base import Storage
from workers.table.table import Table
from workers.table_layout import OVERTAKEN

KEPT_MAX = 100
"""The newest ones of a table."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Overtaken:
    """One commit and what had changed when somebody looked again."""

    instant: InstantTime
    change: str
    """What the properties say now, and what to do."""
    seen_ms: int


def look_again(
    table: Table, instant: InstantTime, *, undone: InstantTime | None = None
) -> tuple[str, ...]:
    """Warnings about `instant`, which was published; it stands whatever happens here. `undone` is
    the commit that it took back, if it did: then that one's files are told of.
    """
    done = "committed" if undone is None else f"{undone} is rolled back"
    try:
        table.check_writable()
    except (TableChanged, UnsupportedTable) as change:
        _log.warning("overtaken by another engine: instant=%s change=%s", instant, change)
        _keep(table, Overtaken(instant, change.message, table.ports.clock.now_ms()))
        knows = f"may not know the files of {instant}"
        if undone is not None:
            knows = f"may still count the files of {undone}, which are gone"
        return (f"{done}, but another engine changed the table and {knows}: {change.message}",)
    except (LakehouseError, OSError) as error:
        _log.warning("not looked at again: instant=%s error=%s", instant, error)
        return (f"{done}, but the table's properties could not be looked at again: {error}",)
    return ()


def overtaken(storage: Storage) -> list[Overtaken]:
    """The commits that other engines overtook, oldest first, at most `KEPT_MAX`. Raises
    MalformedTable.
    """
    names = sorted(name for name in storage.list_names(OVERTAKEN.path) if name.isdigit())
    return [note for name in names[-KEPT_MAX:] if (note := _read(storage, name)) is not None]


def _keep(table: Table, note: Overtaken) -> None:
    storage = table.storage
    try:
        storage.put(OVERTAKEN.file(note.instant), json.dumps(asdict(note)).encode())
        names = sorted(name for name in storage.list_names(OVERTAKEN.path) if name.isdigit())
        for name in names[:-KEPT_MAX]:
            storage.delete(OVERTAKEN.file(name))
    except (LakehouseError, OSError) as error:
        _log.warning("not kept for the table's page: instant=%s error=%s", note.instant, error)


def _read(storage: Storage, name: str) -> Overtaken | None:
    """None for one that was deleted meanwhile. Raises MalformedTable."""
    path = OVERTAKEN.file(name)
    try:
        return Overtaken(**read_json(storage.read(path)))
    except NotFound:
        return None
    except (ValueError, TypeError) as error:
        raise MalformedTable("note of a change is damaged", path=path) from error
