"""The report of a write's outcome: the warnings of a commit, and for a write that lost its process,
the file groups that it wrote, and its cost.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictedWrite, FileGroupKey
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.files.names import parse_base_file, parse_log_file
from workers.options.write_options import WriteOptions
from workers.storage.base import FileInfo
from workers.table.table import Table
from workers.timeline import metadata
from workers.timeline.group_facts import add_facts
from workers.write.exhausted_lists import with_list_warning
from workers.write.request import WriteRequest
from workers.write.status import WriteStatus

_NAMED_MAX = 10


def build_conflict_outcome(
    options: WriteOptions,
    request: WriteRequest,
    instant: InstantTime,
    conflict: Conflict,
    groups: Iterable[FileGroupKey],
) -> Conflicted:
    """Build the outcome of the write at `instant`, whose files of `groups` are discarded."""
    lost = ConflictedWrite(
        operation=request.operation,
        mode=options.mode.value,
        host=socket.gethostname(),
        pid=os.getpid(),
        operation_id=options.operation_id or None,
        stream=request.stream,
        attempt=int(dict(request.extra).get(metadata.ATTEMPTS_KEY, "1")),
        attempts_max=request.attempts_max or options.conflict_retries + 1,
    )
    return Conflicted(instant, conflict.with_loser(lost, groups))


def parse_file_group(file: FileInfo) -> FileGroupKey | None:
    """Return partition path and file id of a data file; None for any other file."""
    partition, _, name = file.path.rpartition("/")
    file_name = parse_base_file(name) or parse_log_file(name)
    return (partition, file_name.file_id) if file_name else None


def with_warnings(
    table: Table,
    outcome: CommitOutcome,
    written: Sequence[WriteStatus],
    left_out: Sequence[str] = (),
) -> CommitOutcome:
    """Return `outcome` with its warnings; call it before files are tidied away. The columns
    `left_out` have no value.
    """
    outcome = _with_skipped_rows(with_list_warning(table, outcome, written), written)
    if not left_out or not isinstance(outcome, Committed):
        return outcome
    warning = (
        "new columns without any value have no type and are left out: "
        f"columns={len(left_out)} first={','.join(left_out[:_NAMED_MAX])}"
    )
    return replace(outcome, warnings=(*outcome.warnings, warning))


def _with_skipped_rows(outcome: CommitOutcome, written: Sequence[WriteStatus]) -> CommitOutcome:
    """Return `outcome` with a warning, if rows of it have no ordering value of the one column group
    that it brings, or of any: they have no values, and readers show nothing of them. Rows that lack
    one of several groups are as usual as the groups are many.
    """
    facts = add_facts(status.stat.groups for status in written)
    skipped = {
        name: group_facts["skipped"]
        for name, group_facts in facts.items()
        if group_facts.get("skipped")
    }
    groups_with_rows = [name for name, group_facts in facts.items() if group_facts.get("rows")]
    if (
        not skipped
        or not isinstance(outcome, Committed)
        or groups_with_rows not in ([], list(skipped))
    ):
        return outcome
    rows = max(map(int, skipped.values()))
    warning = (
        f"rows without an ordering value of their column group are not shown: "
        f"groups={','.join(sorted(skipped))} rows={rows}"
    )
    left = outcome.rows if groups_with_rows else 0
    return replace(outcome, rows=left, warnings=(*outcome.warnings, warning))
