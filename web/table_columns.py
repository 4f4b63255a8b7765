"""Columns of the list of tables: their titles, and which of them stand there by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.home.tables import Listed
from web.exports import Cell


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    """Also what the list is sorted by."""
    title: str
    of: Callable[[Listed], Cell]
    """What an export has of it."""
    is_number: bool = False
    is_shown: bool = True
    """Where nobody chose otherwise."""
    about: str = ""


COLUMNS: Final = (
    Column("health", "Health", lambda row: row.line.health, about="the worst of its checks"),
    Column("commit", "Last commit", lambda row: row.line.last_commit_at),
    Column(
        "freshness", "Age of target", lambda row: row.target_share, True, False,
        about="newest commit against its target",
    ),
    Column("writers", "Writers", lambda row: row.active_writers, True, about="with a heartbeat"),
    Column("conflicts", "Conflicts", lambda row: row.conflicts_24h, True, about="in 24 hours"),
    Column("commits", "Commits, 24 h", lambda row: row.commits_24h, True, about="by hour"),
    Column(
        "base_rows", "Rows", lambda row: row.base_rows, True,
        about="in base files; rows in log files are not counted until a compaction",
    ),
    Column(
        "backlog", "Backlog", lambda row: row.log_files, True, False,
        about="log files that wait for a compaction, and plans of services",
    ),
    Column(
        "small", "Small files", lambda row: row.small_files, True, about="base files below 100 MB"
    ),
    Column(
        "deltas", "Since compaction", lambda row: row.delta_commits, True,
        about="delta commits, and the age of the last compaction",
    ),
    Column(
        "compaction", "Last compaction", lambda row: row.last_compaction_at, is_shown=False,
        about="of a merge-on-read table",
    ),
    Column("pending", "Pending", lambda row: row.pending, True, False, "writes not completed"),
    Column("size", "Size", lambda row: row.bytes, True, about="of the newest slices, in bytes"),
    Column("rows", "Rows, 24 h", lambda row: row.rows_24h, True, False, "that commits wrote"),
    Column("owner", "Owner", lambda row: row.line.owner),
    Column("tags", "Tags", lambda row: " ".join(row.line.tags)),
    Column("description", "Description", lambda row: row.line.description, is_shown=False),
    Column(
        "mirror", "Synced", lambda row: row.line.synced_at, is_shown=False,
        about="when storage was last read",
    ),
    Column("type", "Type", lambda row: row.line.table_type, is_shown=False),
    Column("namespace", "Namespace", lambda row: row.line.namespace, is_shown=False),
    Column("location", "Location", lambda row: row.line.location, is_shown=False),
)  # fmt: skip
BY_KEY: Final[Mapping[str, Column]] = {column.key: column for column in COLUMNS}


def chosen(keys: Sequence[str] | None) -> list[Column]:
    """In their own order; None for those that are shown by themselves."""
    if keys is None:
        return [column for column in COLUMNS if column.is_shown]
    return [column for column in COLUMNS if column.key in keys]
