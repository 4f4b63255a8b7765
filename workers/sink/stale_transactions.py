"""Transactions of a sink's earlier coordinators, which no process will commit."""

from __future__ import annotations

import logging

from workers.concurrency.heartbeat import read_heartbeats
from workers.errors import (
    RollbackRefused,
    SinkFenced,
)
from workers.options.write_options import WriteOptions
from workers.recovery.rollback import RollbackRequest, rollback
from workers.table.table import Table

_log = logging.getLogger(__name__)


def abort_pending_transactions(
    table: Table, options: WriteOptions, *, sink_id: str, epoch: int
) -> None:
    """Roll back the pending transactions of the sink's coordinators up to this `epoch`, even if
    their heartbeats have not expired.

    Raises SinkFenced if a newer coordinator has begun a transaction, LockTimeout, StorageFailed.
    """
    pending = {instant.requested_at for instant in table.timeline().pending()}
    for beat in read_heartbeats(table.storage):
        if beat.sink != sink_id or beat.instant not in pending:
            continue
        if (beat.sink_epoch or 0) > epoch:
            raise SinkFenced("another coordinator has begun a transaction", instant=beat.instant)
        request = RollbackRequest(
            beat.instant,
            by=options.writer,
            reason=f"epoch {epoch} of sink {sink_id} starts again",
            is_forced=True,
            is_only_pending=True,
            writer=options.writer,
        )
        try:
            rollback(table, request, options)
        except RollbackRefused as refused:  # Its writer was faster, and removed it.
            _log.info("left alone: instant=%s reason=%s", beat.instant, refused)
