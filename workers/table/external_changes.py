"""Changes by other engines: one changed the table's properties during a commit of ours.

An engine that does not take our lock can do so between the last check under the lock and the
completed file. It may then record a commit in its own metadata while that is rolled back. So every
process that publishes or rolls back checks again afterwards. A change is reported in the outcome,
and stored next to the timeline for the table's page. The commit is not affected.
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
class ExternalChange:
    """A commit, and the change that was detected after it."""

    instant: InstantTime
    change: str
    """The current state of the properties, and what to do."""
    seen_ms: int


def find_external_change(
    table: Table, instant: InstantTime, *, undone: InstantTime | None = None
) -> tuple[str, ...]:
    """Return warnings about `instant`, which was published and stays so. If it rolled a commit
    back, `undone` is that commit, and the warnings are about its files.
    """
    done = "committed" if undone is None else f"{undone} is rolled back"
    try:
        table.check_writable()
    except (TableChanged, UnsupportedTable) as change:
        _log.warning("overtaken by another engine: instant=%s change=%s", instant, change)
        _store(table, ExternalChange(instant, change.message, table.ports.clock.now_ms()))
        knows = f"may not know the files of {instant}"
        if undone is not None:
            knows = f"may still count the files of {undone}, which are gone"
        return (f"{done}, but another engine changed the table and {knows}: {change.message}",)
    except (LakehouseError, OSError) as error:
        _log.warning("not looked at again: instant=%s error=%s", instant, error)
        return (f"{done}, but the table's properties could not be looked at again: {error}",)
    return ()


def load_external_changes(storage: Storage) -> list[ExternalChange]:
    """Load the recorded changes, oldest first, at most `KEPT_MAX`. Raises MalformedTable."""
    names = sorted(name for name in storage.list_names(OVERTAKEN.path) if name.isdigit())
    return [note for name in names[-KEPT_MAX:] if (note := _read(storage, name)) is not None]


def _store(table: Table, note: ExternalChange) -> None:
    storage = table.storage
    try:
        storage.put(OVERTAKEN.file(note.instant), json.dumps(asdict(note)).encode())
        names = sorted(name for name in storage.list_names(OVERTAKEN.path) if name.isdigit())
        for name in names[:-KEPT_MAX]:
            storage.delete(OVERTAKEN.file(name))
    except (LakehouseError, OSError) as error:
        _log.warning("not kept for the table's page: instant=%s error=%s", note.instant, error)


def _read(storage: Storage, name: str) -> ExternalChange | None:
    """Read a record, or return None if it was deleted since it was listed. Raises
    MalformedTable.
    """
    path = OVERTAKEN.file(name)
    try:
        return ExternalChange(**read_json(storage.read(path)))
    except NotFound:
        return None
    except (ValueError, TypeError) as error:
        raise MalformedTable("note of a change is damaged", path=path) from error
