"""Sinks from the shell: run in this process, looked at and stopped by their files beside the table.

None of it needs a node or a database; where a table is registered, what was done is audited.
"""

from __future__ import annotations

import getpass
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.core.management.base import CommandError

from controlplane.audit.actions import do_record
from controlplane.audit.shell import get_shell_user
from controlplane.node.shell.own_process import Say
from controlplane.tables.models import Table as TableRow
from workers.clock import SystemClock
from workers.errors import LakehouseError
from workers.options.sink_keys import SINK_OPTIONS
from workers.ports import RandomIds
from workers.sink.config import sink_config
from workers.sink.epoch import read_epoch
from workers.sink.offsets import SinkCommit
from workers.sink.sink_commits import SinkCommits
from workers.sink.sink_paths import list_sink_ids
from workers.sink.state_file import IGNORED_PREFIX, SinkState, read_state
from workers.sink.stop_request import StopKind, StopRequest, read_stop, request_stop
from workers.sink.tables import KEYS_BY_NAME, has_keys_by_topic_name
from workers.table.table import Table

if TYPE_CHECKING:
    from workers.spark.sink import SinkEnded

_OVER = ("STOPPED", "FENCED")
_POLL_S = 0.5
LETTERS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Place:
    """A table, and its row where it is registered."""

    table: Table
    row: TableRow | None


def run(place: Place, options: Mapping[str, str], *, is_own: bool, say: Say) -> None:
    """Run the sink in this process until it is stopped: the first signal ends it after its
    transaction, the second at once. It is a program of whoever started it, not an operation: no
    row, no relaunch, and the audit says when it began and ended.

    Raises LakehouseError, CommandError when the sink failed.
    """
    from workers.spark.connect_server import is_listening

    config = sink_config(own_options(options))
    wanted_at_ms = place.table.ports.clock.now_ms()
    remote = os.environ.get("SLUICE_SPARK_REMOTE", "")
    application = "connect" if remote and not is_own and is_listening(remote) else "own"
    spark_of = (
        f"the Spark server at {remote}"
        if application == "connect"
        else "a separate Spark application"
    )
    say(f"{config.sink_id}: {config.topic} into {place.table.storage.location}, in {spark_of}")
    say("Ctrl-C stops the sink after its transaction; a second Ctrl-C stops it at once")
    if has_keys_by_topic_name(place.table.config):
        say(KEYS_BY_NAME)
    note(place, "sink.run", config.sink_id, "requested")
    try:
        ended = _run(place.table, options, application, remote, wanted_at_ms, say)
    except LakehouseError:
        note(place, "sink.run", config.sink_id, "failed")
        raise
    result = "failed" if ended.is_failed else "fenced" if ended.is_fenced else "succeeded"
    note(place, "sink.run", config.sink_id, result)
    if ended.is_failed or ended.is_fenced:
        raise CommandError(ended.reason)
    say(f"stopped: {ended.reason}")


def _run(
    table: Table,
    options: Mapping[str, str],
    application: str,
    remote: str,
    wanted_at_ms: int,
    say: Say,
) -> SinkEnded:
    from workers.spark.sink import run_sink
    from workers.spark.sink_driver import launch_secret, spark_for

    session = spark_for(
        application,
        remote,
        session_id=_uuid(RandomIds()),
        user_id=getpass.getuser(),
        settings={},
    )
    sink_id = sink_config(own_options(options)).sink_id
    with session as spark, _stopping(table, sink_id, say):
        secret = launch_secret(table.ports)
        return run_sink(table, spark, options, secret=secret, wanted_at_ms=wanted_at_ms)


def show_status(table: Table, sink_id: str, say: Say) -> None:
    """One sink, or all of them. Raises MalformedTable, CommandError where there is none."""
    ids = [sink_id] if sink_id else list_sink_ids(table.storage)
    if not ids:
        say("no sinks yet")
    for shown_id in ids:
        _show(table, shown_id, say)


def show_offsets(table: Table, sink_id: str, say: Say) -> None:
    """Print for each partition what the participant, the table and Kafka have; the next one to
    come.
    """
    state = read_state(table.storage, sink_id)
    committed = sink_commit_of(table, sink_id)
    participants = {one.partition: one for one in state.participants} if state else {}
    partitions = sorted(participants.keys() | committed.offsets.keys())
    if not partitions:
        raise CommandError(f"sink {sink_id} has no offsets in this table")
    say(f"{'partition':>9} {'local':>15} {'table':>15} {'kafka':>15} {'not in table':>13}")
    for partition in partitions:
        participant = participants.get(partition)
        stored = committed.offsets.get(partition)
        local = participant.local_offset if participant else None
        end = participant.broker_offset if participant else None
        lag = None if end is None or stored is None else max(0, end - stored)
        mark = "" if local is None or local == stored else "  local offset differs from the table"
        shown = " ".join(f"{'-' if n is None else n:>15}" for n in (local, stored, end))
        say(f"{partition:>9} {shown} {'-' if lag is None else lag:>13}{mark}")
    say(f"table offsets are from commit {committed.instant or '(none yet)'}")


def stop(
    place: Place, sink_id: str, *, is_hard: bool, wait_s: float, reason: str, say: Say
) -> None:
    """Ask it to stop, and wait. Raises CommandError where it does not run or end in time."""
    table = place.table
    if not _is_starting(place, sink_id):
        state = read_state(table.storage, sink_id)
        if read_epoch(table.storage, sink_id) is None:
            raise CommandError(f"sink {sink_id} not found in this table")
        if state is not None and state.state in _OVER:
            raise CommandError(f"{sink_id} does not run: it is {state.state.lower()}")
    clock = SystemClock()
    requested_ms = clock.now_ms()
    if place.row is not None:
        from controlplane.operations.actions import do_stop_sink

        do_stop_sink(place.row, sink_id, by=get_shell_user(), is_hard=is_hard, reason=reason)
    else:
        kind = StopKind.HARD if is_hard else StopKind.GRACEFUL
        request_stop(table.storage, sink_id, StopRequest(kind, get_shell_user(), clock.now_ms()))
    say(f"requested the stop of {sink_id}{' at once' if is_hard else ' after its transaction'}")
    deadline_s = clock.monotonic_s() + wait_s
    while wait_s and clock.monotonic_s() < deadline_s:
        state = read_state(table.storage, sink_id)
        if state is not None and state.state in _OVER and state.updated_ms >= requested_ms:
            say(f"{sink_id} has {state.state.lower()}: {state.reason}")
            return
        clock.sleep(_POLL_S)
    if wait_s:
        raise CommandError(
            f"{sink_id} did not report that it stopped within {wait_s:.0f} s; see its log"
        )


def _is_starting(place: Place, sink_id: str) -> bool:
    """Whether the node has launched it: what it shows beside the table may be older."""
    if place.row is None:
        return False
    from controlplane.operations.actions import open_operation

    return open_operation(place.row, sink_id) is not None


def sink_commit_of(table: Table, sink_id: str) -> SinkCommit:
    return SinkCommits(table, sink_id).load_newest(table.timeline())


def _show(table: Table, sink_id: str, say: Say) -> None:
    state = read_state(table.storage, sink_id)
    epoch, stop_request = read_epoch(table.storage, sink_id), read_stop(table.storage, sink_id)
    if state is None and epoch is None:
        raise CommandError(f"sink {sink_id} not found in this table")
    if state is None:
        say(f"{sink_id}  no report yet; epoch {epoch.number if epoch else 0}")
    else:
        _show_state(state, say)
    if epoch is not None and state is not None and epoch.number > state.epoch:
        say(f"  epoch {epoch.number} was taken by {epoch.owner} on {epoch.host}, pid {epoch.pid}")
    if stop_request is not None:
        say(
            f"  stop requested ({stop_request.kind.value}) by {stop_request.by} at "
            f"{_at(stop_request.at_ms)}"
        )
    committed = sink_commit_of(table, sink_id)
    say(f"  newest commit {committed.instant or 'none'}")
    if has_keys_by_topic_name(table.config):
        say(f"  {KEYS_BY_NAME}")


def _show_state(state: SinkState, say: Say) -> None:
    age_s = max(0, SystemClock().now_ms() - state.updated_ms) // 1000
    what = f"transaction {state.instant}" if state.instant else "no transaction"
    say(f"{state.sink_id}  {state.state}  topic {state.topic}  epoch {state.epoch}  {what}")
    say(f"  reported {age_s} s ago by {state.owner or 'no coordinator'}")
    if state.deadline_ms and state.state not in _OVER:
        say(f"  next step at {_at(state.deadline_ms)} at the latest")
    if state.reason:
        say(f"  {state.reason}")
    passed_over = {
        name.removeprefix(IGNORED_PREFIX): count
        for name, count in sorted(state.counters.items())
        if name.startswith(IGNORED_PREFIX)
    }
    if passed_over:
        counts = ", ".join(f"{name} {count}" for name, count in passed_over.items())
        say(f"  skipped messages of the control topic that are not from this sink: {counts}")
    if tombstones := state.counters.get("tombstones"):
        unmatched = state.counters.get("tombstones_unmet", 0)
        say(
            f"  {tombstones} tombstones since this coordinator started, {unmatched} of them "
            "without a matching row"
        )
    reported = sum(participant.has_reported for participant in state.participants)
    say(f"  {reported} of {len(state.participants)} partitions have reported")
    if state.state in ("ENDED_COMMIT", "WRITE_STATUS_TIMEDOUT"):
        for participant in state.participants:
            if participant.is_member and not participant.has_reported:
                seen = f"seen {_at(participant.seen_ms)}" if participant.seen_ms else "never seen"
                say(
                    f"  missing: partition {participant.partition}, "
                    f"{participant.worker or 'no participant'}, {seen}"
                )
    for done in state.transactions[-3:]:
        took_s = (done.ended_ms - done.started_ms) / 1000
        say(f"  {done.instant} {done.outcome} {done.rows} rows, {took_s:.1f} s {done.reason}")


@contextmanager
def _stopping(table: Table, sink_id: str, say: Say) -> Iterator[None]:
    """Signals ask the sink to stop, as everybody else does."""
    from workers.spark.sink_driver import ask_to_stop

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = 0

    def on_signal(_number: int, _frame: object) -> None:
        nonlocal signals
        signals += 1
        ask_to_stop(table, sink_id, by=get_shell_user(), is_hard=signals > 1)
        say("stopping at once" if signals > 1 else "stopping after the current transaction")

    former = {one: signal.signal(one, on_signal) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def note(place: Place, what: str, sink_id: str, result: str) -> None:
    if place.row is not None:
        do_record(
            who=get_shell_user(),
            what=what,
            subject=place.row.slug,
            result=result,
            details={"sink": sink_id},
        )


def own_options(options: Mapping[str, str]) -> dict[str, str]:
    return {key: text for key, text in options.items() if key in SINK_OPTIONS}


def _uuid(ids: RandomIds) -> str:
    token = ids.token()
    return "-".join((token[:8], token[8:12], token[12:16], token[16:20], token[20:]))


def _at(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S UTC")
