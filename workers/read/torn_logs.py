"""Log files with stretches that are no whole block.

Hudi skips them: an attempt that died leaves one beside the file of the attempt that was committed,
and older layouts append to what such an attempt left. A file that a commit of ours names was whole,
and on the disk, before the commit was decided; skipping a part of it would lose committed rows
without a word, and the next compaction would make that last.
"""

from __future__ import annotations

from workers.clock import InstantTime
from workers.errors import MalformedTable
from workers.files.names import parse_log_file
from workers.options.table_options import TableConfig
from workers.ports import system_ports
from workers.storage.base import Storage
from workers.table.commit_lookup import find_archived_content
from workers.table.schema_history import read_instant
from workers.table.table import Table, open_
from workers.timeline.metadata import PROCESS_KEY, CommitMetadata, read_commit_metadata


def check_torn(storage: Storage, config: TableConfig, path: str) -> None:
    """Pass a torn log file that is not, or not for certain, what a commit of ours wrote. Raises
    MalformedTable for any other.
    """
    name = parse_log_file(path.rpartition("/")[2])
    if config.has_old_logs or name is None:
        return
    table = open_(storage, system_ports())
    if table.layout.version == 1:
        return
    metadata = _commit_of(table, name.instant)
    if metadata is None or PROCESS_KEY not in metadata.extra_metadata:
        return
    if path in metadata.paths:
        raise MalformedTable(
            "a committed log file is damaged, and reading on would lose its rows: put the file "
            "back from a copy, or restore the table to before its instant",
            path=path,
            instant=name.instant,
        )


def _commit_of(table: Table, requested_at: InstantTime) -> CommitMetadata | None:
    for instant in table.timeline().list_completed_writes():
        if instant.requested_at == requested_at:
            return read_instant(table, instant)
    content = find_archived_content(table, requested_at)
    return read_commit_metadata(content) if content else None
