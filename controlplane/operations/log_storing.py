"""Lines of operations' logs on their way into the database: masked, on one line each, stored once.

A batch is one INSERT, whatever is stored already. How much one operation keeps is `log_limits`'.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError

from controlplane.operations.log_limits import do_trim
from controlplane.operations.models import LogLine, Operation
from workers.masking import Masker, secret_values
from workers.reporting import stored_lines
from workers.reporting.stored_lines import escape_line, shorten

OWN_STREAM = "control plane"
_LOOKED_AT_EVERY_BYTES = 128 * 1024
"""So often in a stream the limit is looked at; it may be passed by so much meanwhile."""


def do_append_lines(
    operation_id: UUID,
    lines: Sequence[stored_lines.LogLine],
    *,
    host: str,
    stream: str,
    attempt: int = 0,
) -> bool:
    """Store the lines that are not there yet; False where there is no such operation."""
    if not lines:
        return True
    masker = _masker(frozenset(_secrets()))
    rows = [
        LogLine(
            operation_id=operation_id,
            host=escape_line(host),
            stream=escape_line(stream),
            number=line.number,
            at=datetime.fromtimestamp(line.at_ms / 1000, UTC),
            level=line.level,
            source=escape_line(line.source)[:200],
            message=shorten(escape_line(masker.mask(line.message))),
            attempt=attempt,
        )
        for line in lines
    ]
    try:
        LogLine.objects.bulk_create(rows, ignore_conflicts=True)
    except IntegrityError:
        return False
    first, last = (line.number // _LOOKED_AT_EVERY_BYTES for line in (lines[0], lines[-1]))
    if first != last:
        do_trim(operation_id)
    return True


def do_note(
    operation: Operation, message: str, *, level: int = logging.INFO, number: int | None = None
) -> None:
    """A line of the control plane's own in the operation's log. The same `number` is kept once."""
    now_ns = time.time_ns()
    line = stored_lines.LogLine(
        number=now_ns if number is None else number,
        at_ms=now_ns // 1_000_000,
        level=level,
        source=OWN_STREAM.replace(" ", "_"),
        message=message,
    )
    host = socket.gethostname()
    do_append_lines(operation.pk, [line], host=host, stream=OWN_STREAM, attempt=operation.attempts)


def _secrets() -> Iterable[str]:
    """What this process knows and nobody may read in a log."""
    own = (settings.SECRET_KEY, settings.SLUICE_WORKER_TOKEN, settings.SLUICE_MARKER_SECRET)
    password = settings.DATABASES["default"].get("PASSWORD", "")
    return {*own, password, *secret_values(os.environ)} - {""}


@lru_cache(maxsize=4)
def _masker(values: frozenset[str]) -> Masker:
    return Masker(values)
