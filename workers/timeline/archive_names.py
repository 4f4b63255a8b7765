"""The names of the archived timeline in columns, for readers of very many names without objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import MalformedTable, NotFound
from workers.files.base_file import UNREADABLE, read_parquet
from workers.storage.base import Storage
from workers.timeline.history_files import HistoryFile, history_lost, list_history
from workers.timeline.instant import Action, CompletedInstant

NAMES: Final = pa.schema(
    [(name, pa.string()) for name in ("requested_at", "action", "completed_at")]
)
_STORED: Final = ["instantTime", "action", "completionTime"]
_KNOWN: Final = pa.array([action.value for action in Action])
_LOOKS_MAX: Final = 3


def load_archived_names(storage: Storage) -> pa.Table:
    """Load the columns of `NAMES` of all instants of the history that are not lost, in no order.
    Raises MalformedTable.
    """
    for _ in range(_LOOKS_MAX):
        try:
            parts = [_read(storage, file) for file in list_history(storage).files]
        except NotFound:  # Merged away since the manifest was read.
            continue
        return pa.concat_tables([NAMES.empty_table(), *parts])
    raise history_lost(list_history(storage).files)


def build_names(instants: Iterable[CompletedInstant]) -> pa.Table:
    """Build the same columns of loaded instants."""
    rows = [
        (instant.requested_at, instant.action.value, instant.completed_at) for instant in instants
    ]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table([pa.array(column, pa.string()) for column in columns], schema=NAMES)


def _read(storage: Storage, file: HistoryFile) -> pa.Table:
    with storage.open_data(file.path) as stream:
        try:
            rows = read_parquet(stream, _STORED)
        except UNREADABLE as error:
            raise MalformedTable("history file is not readable", path=file.path) from error
    names = pa.table([rows.column(name).cast(pa.string()) for name in _STORED], schema=NAMES)
    return names.filter(pc.is_in(names.column("action"), _KNOWN))
