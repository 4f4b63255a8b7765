"""A frame that meets an older writer: what it has written until it is stopped."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from workers.concurrency.outcome import Committed, Conflicted
from workers.config import write_options
from workers.lakehouse import open_table
from workers.markers.process import await_health, server_url, start_server, stop
from workers.ports import system_ports
from workers.write.client import Transaction, WriteClient
from workers.write.groups import row_groups
from workers.write.handles import write_row_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds, WriteStatus

OVERLAP: Final = 5
PERIOD_MS: Final = 1_000
_EARLY = "hoodie.write.concurrency.early.conflict"
_HEALTH_WAIT_S = 20.0


def early_conflict(spark: SparkSession, table: str, rows: str) -> dict[str, Any]:
    """The older writer has registered 5 file groups when the frame begins; then it commits.

    Answers with the file groups of the frame, and the files that it wrote in vain.
    """
    with _marker_server(Path(table).parent) as environment:
        os.environ.update(environment)
        older, statuses = _older(table, rows)
        groups = len(open_table(table).file_groups())
        outcome = open_table(table).write(spark.read.parquet(rows), options=_options("younger"))
        assert isinstance(outcome, Conflicted), outcome
        assert outcome.conflict.detected == "early", outcome
        assert isinstance(older.commit(statuses), Committed)
        conflict = outcome.conflict
        return {
            "groups": groups,
            "overlap": len(conflict.file_groups),
            "files": conflict.wasted_files,
            "bytes": conflict.wasted_bytes,
            "lasted_ms": conflict.lasted_ms,
        }


def _options(writer: str) -> dict[str, str]:
    return {
        "sluice.writer.name": writer,
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.markers.type": "timeline_server_based",
        "hoodie.write.concurrency.async.conflict.detector.period_ms": str(PERIOD_MS),
        f"{_EARLY}.detection.enable": "true",
    }


def _older(table: str, rows: str) -> tuple[Transaction, list[WriteStatus]]:
    """A writer with the files of 5 file groups, not committed yet."""
    opened = open_table(table).table
    batch = pq.read_table(rows)
    transaction = WriteClient(opened, write_options(_options("older"))).begin(batch.schema)
    context = transaction.context
    some = list(row_groups(prepare(context, batch)))[:OVERLAP]
    return transaction, write_row_groups(context, some, TaskIds(), opened.storage)


@contextmanager
def _marker_server(root: Path) -> Iterator[dict[str, str]]:
    secret = system_ports().ids.token()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    log = root / "markers.log"
    pid = start_server(port=port, roots=[root], secret=secret, log_path=log)
    try:
        assert await_health(server_url(port), _HEALTH_WAIT_S) is not None, log.read_text()
        yield {"SLUICE_MARKER_URL": server_url(port), "SLUICE_MARKER_SECRET": secret}
    finally:
        stop(pid, port=port)
