"""A frame that meets an older writer: what it has written until it is stopped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.support.marker_server import start_marker_server
from workers.clock import InstantTime, SystemClock
from workers.concurrency.outcome import Committed, Conflicted
from workers.lakehouse import open_table
from workers.markers.store import read_markers
from workers.options.write_options import write_options
from workers.ports import system_ports
from workers.recovery.plan import find_files
from workers.write.client import WriteClient
from workers.write.groups import row_groups
from workers.write.handles import write_row_groups
from workers.write.prepare import prepare
from workers.write.status import TaskIds, WriteStatus

OVERLAP: Final = 5
PERIOD_MS: Final = 1_000
_EARLY = "hoodie.write.concurrency.early.conflict"
_WRITES_WAIT_S = 120.0
_POLL_S = 0.01


def early_conflict(spark: SparkSession, table: str, rows: str, when: str) -> dict[str, Any]:
    """The older writer registers 5 file groups, `before` the frame begins or `during` its work,
    once its tasks have registered file groups of their own; then it commits.

    Answers with the file groups of the frame, the files that it wrote in vain, and how many of
    them stood already when the older one began to register.
    """
    with _marker_server(Path(table).parent) as environment:
        os.environ.update(environment)
        older = _Older(table, rows)
        groups = len(open_table(table).file_groups())
        frame = spark.read.parquet(rows)
        write = partial(open_table(table).write, frame, options=_options("younger"))
        if when == "before":
            older.register()
            stood, outcome = 0, write()
        else:
            with ThreadPoolExecutor(1) as pool:
                writing = pool.submit(write)
                stood = _files_once_it_writes(table, older.instant)
                older.register()
                outcome = writing.result()
        assert isinstance(outcome, Conflicted), outcome
        assert outcome.conflict.detected == "early", outcome
        older.commits()
        conflict = outcome.conflict
        return {
            "groups": groups,
            "overlap": len(conflict.file_groups),
            "files": conflict.wasted_files,
            "files_before": stood,
            "bytes": conflict.wasted_bytes,
            "lasted_ms": conflict.lasted_ms,
        }


class _Older:
    """A writer that has begun, and read what it will write."""

    def __init__(self, table: str, rows: str) -> None:
        self._storage = open_table(table).table.storage
        batch = pq.read_table(rows)
        client = WriteClient(open_table(table).table, write_options(_options("older")))
        self._transaction = client.begin(batch.schema)
        prepared = prepare(self._transaction.context, batch)
        self._groups = list(row_groups(prepared))[:OVERLAP]
        self._statuses: list[WriteStatus] = []

    @property
    def instant(self) -> InstantTime:
        return self._transaction.instant

    def register(self) -> None:
        """And write the files of 5 file groups."""
        context = self._transaction.context
        self._statuses = write_row_groups(context, self._groups, TaskIds(), self._storage)

    def commits(self) -> None:
        outcome = self._transaction.commit(self._statuses)
        assert isinstance(outcome, Committed), outcome


def _files_once_it_writes(table: str, older: InstantTime) -> int:
    """Waits until the tasks of the other pending write have markers; its data files by then."""
    opened, clock = open_table(table).table, SystemClock()
    deadline_s = clock.monotonic_s() + _WRITES_WAIT_S
    while clock.monotonic_s() < deadline_s:
        for pending in opened.timeline().pending():
            instant = pending.requested_at
            if instant != older and read_markers(opened.storage, instant):
                return len(find_files(opened, instant))
        clock.sleep(_POLL_S)
    raise TimeoutError(f"no task of the frame registered a file group in {_WRITES_WAIT_S:g} s")


def _options(writer: str) -> dict[str, str]:
    return {
        "sluice.writer.name": writer,
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.markers.type": "timeline_server_based",
        "hoodie.write.concurrency.async.conflict.detector.period_ms": str(PERIOD_MS),
        f"{_EARLY}.detection.enable": "true",
    }


@contextmanager
def _marker_server(root: Path) -> Iterator[dict[str, str]]:
    secret = system_ports().ids.token()
    server = start_marker_server(roots=[root], secret=secret, log=root / "markers.log")
    try:
        yield {"SLUICE_MARKER_URL": server.url, "SLUICE_MARKER_SECRET": secret}
    finally:
        server.stop()
