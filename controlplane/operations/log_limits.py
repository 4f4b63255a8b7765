"""How much of an operation's log is kept: so many lines, for so many days.

Of a longer log the middle goes, counted by a line in its place.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Sum

from controlplane.batches import delete_in_batches
from controlplane.operations.models import LogLine, Operation
from workers.reporting.stored_lines import OWN

log = logging.getLogger(__name__)

_HEAD_SHARE = 0.2
"""How it began is kept, and above all how it ended."""
_TAIL_SHARE = 0.7
"""Together less than all, so that the next line is not over the limit again."""


def do_trim(operation_id: UUID) -> int:
    """Drop the middle of a log that is longer than `SLUICE_OPERATION_LOG_LINES`. How many lines
    went.
    """
    most = settings.SLUICE_OPERATION_LOG_LINES
    lines = LogLine.objects.filter(operation=operation_id)
    with transaction.atomic():
        if not Operation.objects.select_for_update().filter(pk=operation_id).exists():
            return 0
        if lines.count() <= most:
            return 0
        head, tail = max(1, int(most * _HEAD_SHARE)), max(1, int(most * _TAIL_SHARE))
        ids = lines.values_list("id", flat=True)
        first = ids.order_by("id")[head]
        behind = ids.order_by("-id")[tail - 1]
        doomed = lines.filter(id__gte=first, id__lt=behind)
        counted_before = doomed.aggregate(dropped=Sum("dropped"))["dropped"] or 0
        dropped = counted_before + doomed.filter(dropped=0).count()
        gone, _ = doomed.exclude(id=first).delete()
        message = f"{dropped} lines were dropped here: a log keeps {most} lines, its first and last"
        lines.filter(id=first).update(
            level=logging.WARNING, source=OWN, message=message, dropped=dropped
        )
    return gone


def forget_logs(*, now: datetime) -> int:
    """Delete lines older than `SLUICE_OPERATION_LOG_DAYS`, and trim what is too long. How many
    lines went.
    """
    oldest = now - timedelta(days=settings.SLUICE_OPERATION_LOG_DAYS)
    gone = delete_in_batches(LogLine.objects.filter(at__lt=oldest))
    too_long = (
        LogLine.objects.order_by()
        .values("operation")
        .annotate(count=Count("id"))
        .filter(count__gt=settings.SLUICE_OPERATION_LOG_LINES)
    )
    gone += sum(do_trim(counted["operation"]) for counted in too_long)
    if gone:
        log.info("deleted old log lines: count=%s", gone)
    return gone
