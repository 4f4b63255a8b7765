"""Load one file into a table through Spark: at once, or as several streams by clients of their own.

Every stream is an ordinary write job with its own driver program and its own Spark session; this
module only says which jobs, starts them together and waits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.clock import Clock
from workers.errors import InvalidInput
from workers.jobs import JsonScalar, WriteJob
from workers.loading.options import comma_names
from workers.options.writer_modes import ConcurrencyMode
from workers.ports import Ids
from workers.spark.process import ENDING_FILE, LOG_FILE, is_driver, launch
from workers.table.table import Table

EVERYTHING_ELSE = "*"
_POLL_S = 0.1
_LOG_TAIL_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class StreamColumns:
    """A stream by its name, and the columns that it alone writes."""

    name: str
    columns: tuple[str, ...]


def parse_streams(
    text: str, *, present: Iterable[str], shared: Iterable[str]
) -> list[StreamColumns]:
    """`a=x,y;b=*` as streams; `*` means every column that no other stream has.

    Raises InvalidInput: a column in two streams, or one that the file does not have.
    """
    own = [name for name in present if name not in set(shared)]
    parts = [part.partition("=") for part in text.split(";") if part.strip()]
    listed = {name.strip(): comma_names(columns) for name, _, columns in parts}
    named = [column for columns in listed.values() for column in columns if column != "*"]
    if len(listed) != len(parts) or len(set(named)) != len(named):
        raise InvalidInput("a stream or a column is named twice", streams=text)
    if unknown := sorted(set(named) - set(own)):
        raise InvalidInput("streams name columns that are not theirs", columns=unknown)
    rest = tuple(column for column in own if column not in named)
    return [
        StreamColumns(name, rest if columns == (EVERYTHING_ELSE,) else columns)
        for name, columns in listed.items()
    ]


@dataclass(frozen=True, slots=True)
class Load:
    """One file into one table; `run_root` takes a directory for each job, `load-` and 12 digits."""

    table: Table
    file: Path
    """A Parquet file with the table's types."""
    run_root: Path
    operation: str = "upsert"
    options: Mapping[str, str] | None = None
    spark_conf: Mapping[str, str] | None = None

    def jobs(self, streams: Iterable[StreamColumns], ids: Ids) -> list[WriteJob]:
        """One job per stream, in non-blocking mode; without streams one job for the whole file."""
        chosen = list(streams)
        if not chosen:
            return [self._job(None, (), ids)]
        config = self.table.config
        shared = (*config.record_key, *config.partition_by, *config.ordering)
        return [self._job(one.name, (*shared, *one.columns), ids) for one in chosen]

    def _job(self, stream: str | None, columns: tuple[str, ...], ids: Ids) -> WriteJob:
        token = ids.token()
        source: dict[str, JsonScalar] = {
            "kind": "parquet",
            "path": str(self.file),
            "columns": ",".join(columns),
        }
        mode = ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL
        options = {"sluice.writer.name": stream or "load", **(self.options or {})}
        return WriteJob(
            operation_id=f"load-{token[:12]}",
            table=self.table.storage.location,
            source=source,
            operation=self.operation,
            stream=stream,
            options={**options, "hoodie.write.concurrency.mode": mode} if stream else options,
            spark_conf=self.spark_conf or {},
            session_id=_as_uuid(token),
            run_dir=str(self.run_root / f"load-{token[:12]}"),
        )


def run_together(
    jobs: Iterable[WriteJob],
    environment: Mapping[str, str],
    clock: Clock,
    *,
    on_end: Callable[[WriteJob, Mapping[str, Any]], None],
) -> bool:
    """Start all drivers at once and wait for every ending; True when all succeeded."""
    waiting = list(jobs)
    pids = {job.operation_id: launch(job, environment) for job in waiting}
    is_well = True
    while waiting:
        clock.sleep(_POLL_S)
        for job in list(waiting):
            ending = read_ending(job, pids[job.operation_id])
            if ending is not None:
                waiting.remove(job)
                is_well = is_well and ending["state"] == "succeeded"
                on_end(job, ending)
    return is_well


def read_ending(job: WriteJob, pid: int | None) -> dict[str, Any] | None:
    """How the job's driver ended; None while it runs."""
    run_dir = Path(job.run_dir)
    is_running = pid is not None and is_driver(pid, run_dir)
    try:
        ending: dict[str, Any] = json.loads((run_dir / ENDING_FILE).read_bytes())
    except FileNotFoundError:
        if is_running:
            return None
        tail = (run_dir / LOG_FILE).read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")
        return {"state": "failed", "message": f"the driver died; its last words: {tail}"}
    return ending


def _as_uuid(token: str) -> str:
    """A fresh token of 32 hexadecimal digits in the spelling that Spark wants for sessions."""
    assert len(token) == 32, token
    return "-".join((token[:8], token[8:12], token[12:16], token[16:20], token[20:]))
