"""The report of a write that lost: its process, the file groups that it wrote, and its cost."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from workers.clock import InstantTime
from workers.concurrency.conflicts import Conflict, ConflictedWrite, FileGroupKey
from workers.concurrency.outcome import Conflicted
from workers.files.names import parse_base_file, parse_log_file
from workers.options.write_options import WriteOptions
from workers.storage.base import FileInfo
from workers.timeline import metadata
from workers.write.request import WriteRequest


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
