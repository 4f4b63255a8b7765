"""The demo's streams: three writers of the same ad requests, as ordinary writes. The command and
the page's button start them in one way; an unfinished run goes on, a finished one begins anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.demo.actions import NON_BLOCKING as WRITE_OPTIONS
from controlplane.demo.actions import SPARK_CONF, do_request_kill
from controlplane.demo.source_kinds import STREAM
from controlplane.errors import NotAllowedNow
from controlplane.operations.actions import do_request_write
from controlplane.operations.kinds import write
from controlplane.operations.models import Operation
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.source_kinds import source_kind
from controlplane.operations.states import OPEN, OperationState
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table as TableRow
from workers.clock import SystemClock
from workers.errors import TableNotFound
from workers.installation import format_command
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.spark.process import ENDING_FILE, is_driver, read_pid

NAME = "ad_requests"
SLUG = "ad-requests"
BUCKETS = 2
_RUNS_LOOKED_AT = 50
"""Operations of streams: of several runs, with those that took a dead one's place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRun:
    """What a run of the demo takes that begins anew."""

    rounds: int = 90
    """12 minutes: a visitor who reads takes longer than the story's five."""
    requests_per_round: int = 40
    pace_s: float = 8.0
    seed: int = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedStreams:
    table: TableRow
    streams: Sequence[str]
    """Empty while somebody writes all of them."""
    rounds: int


def start_streams(by: User, wanted: DemoRun) -> StartedStreams:
    """Ask for a writer of each stream that nobody writes, on the demo's own table.

    Raises ControlPlaneError, LakehouseError.
    """
    from workers.demo.ad_requests import STREAMS

    table = opened_table()
    row = TableRow.objects.filter(location=table.location).first() or do_register_table(
        location=table.location, slug=SLUG, name=NAME, by=by
    )
    waiting = [stream for stream in STREAMS if not is_taken_care_of(row, stream)]
    if not waiting:
        return StartedStreams(table=row, streams=[], rounds=0)
    source = unfinished_run(row, table) or {
        "kind": STREAM,
        "run": SystemClock().now_ms() // 1000,
        **asdict(wanted),
    }
    for stream in waiting:
        parameters = {
            "source": {**source, "stream": stream},
            "stream": stream,
            "options": {**WRITE_OPTIONS, "sluice.writer.name": stream},
            "spark_conf": SPARK_CONF,
        }
        do_request_write(table=row, parameters=parameters, by=by, reason="demo")
    return StartedStreams(table=row, streams=waiting, rounds=int(source["rounds"]))


def do_kill_stream(by: User) -> None:
    """Start the streams that have ended, and kill the first writer that writes.

    Raises ControlPlaneError, LakehouseError.
    """
    do_request_kill(start_streams(by, DemoRun()).table, by)


def table_location() -> str:
    return f"{settings.SLUICE_TABLE_ROOTS[0]}/{NAME}"


def opened_table() -> LakehouseTable:
    from workers.demo.ad_requests import COLUMN_GROUPS, KEY, PARTITION, TABLE_SCHEMA

    try:
        table = open_table(table_location())
        if table.table.config.groups is None:
            raise NotAllowedNow(
                "the demo's table is from an older version: "
                f"`{format_command('demo --reset')}` deletes it, and the next start "
                "creates a new table"
            )
        return table
    except TableNotFound:
        return create_table(
            table_location(),
            name=NAME,
            schema=TABLE_SCHEMA,
            record_key=[KEY],
            partition_by=[PARTITION],
            table_type="MERGE_ON_READ",
            options={
                "hoodie.bucket.index.num.buckets": str(BUCKETS),
                "hoodie.multistream.groups": COLUMN_GROUPS,
            },
        )


def newest_operation(row: TableRow, stream: str) -> Operation | None:
    writes = Operation.objects.filter(
        table=row,
        parameters__job__source__kind=STREAM,
        parameters__job__source__stream=stream,
    )
    return writes.order_by("-requested_at").first()


def has_demo_ended(row: TableRow) -> bool:
    """Whether its streams were started here and nobody writes any of them now."""
    streams = Operation.objects.filter(
        table=row, kind=write.KIND.name, parameters__job__source__kind=STREAM
    )
    states = set(
        streams.order_by("-requested_at").values_list("state", flat=True)[:_RUNS_LOOKED_AT]
    )
    return bool(states) and not states & set(OPEN)


def is_taken_care_of(row: TableRow, stream: str) -> bool:
    """A driver writes this stream, or somebody will start one without our asking."""
    newest = newest_operation(row, stream)
    if newest is None or OperationState(newest.state) not in OPEN:
        return False
    folder = Path(run_dir(newest.pk))
    pid = read_pid(folder)
    if pid is None or is_driver(pid, folder):
        return True
    try:
        ending = json.loads((folder / ENDING_FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        ending = {}
    # The driver is gone. Reconciliation starts one that died again, not one that was asked to end.
    died = ending.get("state") not in ("cancelled", "succeeded")
    restarts_max = source_kind(newest.parameters["job"]["source"]).restarts_max
    return died and int(newest.parameters.get("restarts", 0)) < restarts_max


def rounds_done(table: LakehouseTable) -> dict[str, tuple[int, int]]:
    """Per stream the run and the number of its rounds that the table holds."""
    from workers.table.schema_history import read_instant
    from workers.timeline.extra_metadata import POSITION_KEY, Position
    from workers.timeline.metadata import STREAM_KEY

    done: dict[str, tuple[int, int]] = {}
    for instant in table.table.timeline().list_completed_writes():
        extra = read_instant(table.table, instant).extra_metadata
        position = Position.decode(extra.get(POSITION_KEY, ""))
        if position is not None and STREAM_KEY in extra:
            stream = extra[STREAM_KEY]
            done[stream] = max(done.get(stream, (0, 0)), (position.run, position.round + 1))
    return done


def unfinished_run(row: TableRow, table: LakehouseTable) -> dict[str, Any] | None:
    """The source of the newest run, when a stream of it has rounds left."""
    from workers.demo.ad_requests import STREAMS

    sources = [
        newest.parameters["job"]["source"]
        for stream in STREAMS
        if (newest := newest_operation(row, stream)) is not None
    ]
    if not sources:
        return None
    source: dict[str, Any] = max(sources, key=lambda parameters: int(parameters["run"]))
    done = rounds_done(table)
    is_finished = all(done.get(one, (0, 0)) >= (source["run"], source["rounds"]) for one in STREAMS)
    return None if is_finished else source
