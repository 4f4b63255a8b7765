"""What the processes of an operation had written but not reported when they ended: read from its
run directory, where that is on this machine.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from django.db.models import Max

from controlplane.operations.log_storing import do_append_lines, do_note
from controlplane.operations.models import LogLine, Operation
from controlplane.operations.run_dirs import run_dir
from workers.reporting.stored_lines import read_lines
from workers.reporting.task_log import log_masker

log = logging.getLogger(__name__)

ENDED_WITHIN = timedelta(minutes=2)
"""Of operations that ended so lately the files are looked at again."""
_PIECES_MAX = 20
_ATTEMPT = re.compile(r"-(\d{1,4})\.log\Z")


def do_collect_ended(*, now: datetime) -> int:
    """Store what is left of the logs of operations that ended a moment ago. How many pieces were
    stored; two queries where there is nothing to do.
    """
    ended = Operation.objects.filter(finished_at__gte=now - ENDED_WITHIN)
    return do_collect(list(ended.only("pk", "attempts")))


def do_collect_of_gone(operation: Operation) -> None:
    """Store the log of one that nobody is at any more. Where its files are elsewhere, its log says
    that its end may be missing.
    """
    if Path(run_dir(operation.pk)).is_dir():
        do_collect([operation])
        return
    do_note(
        operation,
        "its process is gone, and its files are not on this machine: what it had not reported of "
        "its log is lost",
        level=logging.WARNING,
        number=operation.attempts,
    )


def do_collect(operations: Sequence[Operation]) -> int:
    """Store what is in their files behind the last line that is stored. How many pieces."""
    folders = {
        operation: folder
        for operation in operations
        if (folder := Path(run_dir(operation.pk))).is_dir()
    }
    if not folders:
        return 0
    host = socket.gethostname()
    newest = (
        LogLine.objects.filter(operation__in=folders, host=host)
        .order_by()
        .values_list("operation", "stream")
        .annotate(Max("number"))
    )
    known = {(operation_id, stream): number for operation_id, stream, number in newest}
    pieces = 0
    for operation, folder in folders.items():
        for path in sorted(folder.glob("*.log")):
            try:
                pieces += _collect(operation, path, host, known.get((operation.pk, path.name)))
            except OSError as error:
                log.warning("log cannot be read: operation=%s error=%s", operation.pk, error)
    return pieces


def _collect(operation: Operation, path: Path, host: str, known: int | None) -> int:
    """`known`: where the last line that is stored begins, which is read once more."""
    masker = log_masker(operation, {})
    attempt = _ATTEMPT.search(path.name)
    position = known or 0
    for pieces in range(_PIECES_MAX):
        now_ms = time.time_ns() // 1_000_000
        piece = read_lines(path, position, now_ms=now_ms, masker=masker, is_over=True)
        if all(line.number == known for line in piece.lines):
            return pieces
        do_append_lines(
            operation.pk,
            piece.lines,
            host=host,
            stream=path.name,
            attempt=int(attempt[1]) if attempt else 0,
        )
        position = piece.position
    return _PIECES_MAX
