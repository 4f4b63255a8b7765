"""A check that the log files of version 6 mean the same in version 9, where they stay as they are.

Version 6 names a log after its slice's base file, and readers drop blocks of writers that never
completed. Later versions name it after its writer, put it into a slice by its completion time, and
read every block that no later one rolls back. Both give the same rows, except for the logs that are
found here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from workers.clock import InstantTime
from workers.errors import MalformedTable, UnsupportedTable
from workers.files.log_block import Rollback
from workers.files.log_file import read_log_file
from workers.files.names import LogFileName, parse_base_file, parse_log_file
from workers.files.partition import files_by_partition
from workers.storage.base import FileInfo
from workers.table.table import Table
from workers.timeline.timeline import Timeline

_NAMED_MAX: Final = 3


@dataclass(slots=True)
class OldLogs:
    """The logs that were read, and the reasons why they block an upgrade."""

    blockers: list[str] = field(default_factory=list)
    files: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Group:
    bases: set[InstantTime] = field(default_factory=set)
    logs: list[tuple[InstantTime, int, str, FileInfo]] = field(default_factory=list)
    """(base instant, version, write token, file): in the order of merging."""


def inspect_logs(
    table: Table, timeline: Timeline, completed_at: Mapping[InstantTime, InstantTime]
) -> OldLogs:
    """Read all logs and collect their problems. `completed_at` has each completed write by its
    request time, the archived ones as well.
    """
    logs = OldLogs()
    first = timeline.first_time
    problems: dict[str, list[str]] = {}
    for group in _groups(table).values():
        for base_instant, _, _, file in sorted(group.logs):
            logs.files += 1
            logs.bytes += file.size
            end = completed_at.get(base_instant)
            if end is None:
                problems.setdefault(_UNKNOWN, []).append(file.path)
            elif any(base_instant < base <= end for base in group.bases):
                problems.setdefault(_TOO_CLOSE, []).append(file.path)
        for path in _find_uncommitted(table, group, completed_at, first, logs.blockers):
            problems.setdefault(_UNCOMMITTED, []).append(path)
    for reason, paths in sorted(problems.items()):
        named = ", ".join(sorted(paths)[:_NAMED_MAX])
        logs.blockers.append(f"{reason} ({len(paths)} log files: {named}); {_COMPACT}")
    return logs


_UNKNOWN = "neither the timeline nor its archive knows the commit that a log is named after"
_TOO_CLOSE = "a base file was requested within a millisecond of the one before it"
_UNCOMMITTED = "logs hold rows of writes that never completed and were not rolled back"
_COMPACT = "let the engine that wrote the table compact it, and clean it"


def _groups(table: Table) -> dict[tuple[str, str], _Group]:
    groups: dict[tuple[str, str], _Group] = {}
    for partition, files in files_by_partition(table.storage).items():
        for file in files:
            name = parse_base_file(file.name) or parse_log_file(file.name)
            if name is None or (isinstance(name, LogFileName) and name.is_cdc):
                continue
            group = groups.setdefault((partition, name.file_id), _Group())
            if isinstance(name, LogFileName):
                group.logs.append((name.instant, name.version, name.write_token, file))
            else:
                group.bases.add(name.instant)
    return groups


def _find_uncommitted(
    table: Table,
    group: _Group,
    completed_at: Mapping[InstantTime, InstantTime],
    first: InstantTime | None,
    blockers: list[str],
) -> list[str]:
    """Return the files with a block that version 6 drops only because its writer never
    completed.
    """
    paths: list[str] = []
    taken_back: set[InstantTime] = set()
    for _, _, _, file in sorted(group.logs, reverse=True):
        try:
            blocks = read_log_file(table.storage, file.path)
        except (MalformedTable, UnsupportedTable) as error:
            blockers.append(str(error))
            continue
        for block in reversed(blocks):
            if isinstance(block, Rollback):
                taken_back.add(block.target)
            elif not (
                block.instant in taken_back
                or block.instant in completed_at
                or (first is not None and block.instant < first)
            ):
                paths.append(file.path)
                break
    return paths
