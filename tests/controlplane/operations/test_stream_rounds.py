"""Between two rounds nothing of a stream is pending: what it is called then, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.operations.models import Operation
from controlplane.operations.states import OperationState
from controlplane.operations.stream_rounds import StreamRounds, StreamSigns, phase_of, stream_rounds
from controlplane.tables.models import Table
from workers.clock import format_instant

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)

RULE = """
operation   word_ago  interval  beats_for  round   ->  word        due_in
running            0         8          -  yes         waiting         24
running           23         8          -  yes         waiting          1
running           24         8          -  yes         silent           -
running           14         -          -  yes         waiting          1
running           15         -          -  yes         silent           -
running           14         2          -  yes         waiting          1
running           15         2          -  yes         silent           -
running         3000      3600          -  yes         waiting       7800
running            3         8          -  no          starting        21
running           24         8          -  no          silent           -
running           50         8         10  yes         writing         10
running           50         8          0  yes         silent           -
unknown            3         8          -  yes         waiting         21
queued          9000         8          -  no          starting         -
starting         900         8          -  no          starting         -
cancelling       900         8          -  yes         cancelling       -
succeeded          0         8          -  yes         ended            -
failed             0         8         10  yes         ended            -
-                  0         8          -  yes         waiting         24
-                 24         8          -  yes         silent           -
-              90000         -          -  yes         silent           -
"""


@pytest.mark.parametrize("line", RULE.strip().splitlines()[1:])
def test_word_of_a_stream_and_until_when_it_holds(line: str) -> None:
    state, word_ago, interval, beats_for, has_round, word, due_in = line.split()
    signs = StreamSigns(
        last_word_at=NOW - timedelta(seconds=int(word_ago)),
        state=None if state == "-" else OperationState(state),
        has_round=has_round == "yes",
        beats_until=None if beats_for == "-" else NOW + timedelta(seconds=int(beats_for)),
        interval_s=None if interval == "-" else float(interval),
    )

    phase, due_at = phase_of(signs, NOW)

    assert phase == word
    assert due_at == (None if due_in == "-" else NOW + timedelta(seconds=int(due_in)))


@pytest.fixture
def ads(admin: User) -> Table:
    return Table.objects.create(slug="ads", name="ads", location="/lake/ads", registered_by=admin)


def committed(table: Table, *seconds_ago: float, operation: Operation | None = None) -> None:
    for ago in seconds_ago:
        ms = int((NOW - timedelta(seconds=ago)).timestamp() * 1000)
        InstantRecord.objects.create(
            table=table, requested_at=format_instant(ms - 900), completed_at=format_instant(ms),
            action="deltacommit", state="completed", stream="click", writer_name="click-writer",
            operation_ref=str(operation.pk) if operation else "",
        )  # fmt: skip


def beat(table: Table, *, ago: float, is_gone: bool = True) -> None:
    at = NOW - timedelta(seconds=ago)
    HeartbeatRecord.objects.create(
        table=table, instant=format_instant(int(at.timestamp() * 1000)), beat_at=at, last_seen=at,
        interval_ms=2_000, tolerable_misses=5, stream="click", is_gone=is_gone,
    )  # fmt: skip


def stored_operation(
    table: Table,
    state: str,
    *,
    ago: float,
    reported_ago: float,
    source: dict[str, Any] | None = None,
) -> Operation:
    """Its last report was that long ago; one that has ended did so then."""
    parameters = {"stream": "click", "job": {"source": source or {"kind": "parquet"}}}
    made = Operation.objects.create(table=table, kind="write", state=state, parameters=parameters)
    told_at = NOW - timedelta(seconds=reported_ago)
    is_over = state in ("succeeded", "failed", "cancelled")
    Operation.objects.filter(pk=made.pk).update(
        requested_at=NOW - timedelta(seconds=ago),
        changed_at=told_at,
        finished_at=told_at if is_over else None,
    )
    return made


def click_of(table: Table) -> StreamRounds:
    [click] = stream_rounds(table, NOW)
    assert click.stream == "click"
    return click


def test_stream_between_rounds_waits_with_the_time_of_its_last_round(ads: Table) -> None:
    operation = stored_operation(ads, "running", ago=60, reported_ago=20, source={"pace_s": 8.0})
    committed(ads, 20, 28, operation=operation)
    beat(ads, ago=20.5)

    click = click_of(ads)

    assert (click.phase, click.ended_as) == ("waiting", "")
    assert click.last_round_at == NOW - timedelta(seconds=20)
    assert click.due_at == NOW + timedelta(seconds=4)
    assert click.operation_id == operation.pk


@pytest.mark.parametrize("sign", ["report", "commit", "heartbeat"])
def test_newest_sign_counts_whichever_it_is(ads: Table, sign: str) -> None:
    stored_operation(ads, "running", ago=900, reported_ago=2 if sign == "report" else 600)
    committed(ads, 2 if sign == "commit" else 500)
    beat(ads, ago=2 if sign == "heartbeat" else 400)

    click = click_of(ads)

    assert (click.phase, click.last_word_at) == ("waiting", NOW - timedelta(seconds=2))


def test_interval_is_measured_where_no_job_says_it(ads: Table) -> None:
    """One long stop does not make it a slow stream."""
    committed(ads, 55, 75, 95, 4_000, 4_020)

    click = click_of(ads)

    assert (click.interval_s, click.phase) == (20, "waiting")
    assert click.due_at == NOW + timedelta(seconds=5)


@pytest.mark.parametrize("pace_s", ["8", -1, 0, True, 1e300, None])
def test_pace_that_is_no_interval_is_measured_instead(ads: Table, pace_s: object) -> None:
    stored_operation(ads, "queued", ago=10, reported_ago=10, source={"pace_s": pace_s})
    committed(ads, 20, 30)

    assert click_of(ads).interval_s == 10


def test_stream_has_ended_once_its_operation_has(ads: Table) -> None:
    operation = stored_operation(ads, "succeeded", ago=900, reported_ago=1)
    committed(ads, 1.5, operation=operation)

    click = click_of(ads)

    assert (click.phase, click.ended_as) == ("ended", "succeeded")
    assert click.ended_at == NOW - timedelta(seconds=1)


def test_stream_that_somebody_else_goes_on_with_has_not_ended(ads: Table) -> None:
    operation = stored_operation(ads, "cancelled", ago=900, reported_ago=600)
    committed(ads, 601, operation=operation)
    committed(ads, 5)

    assert click_of(ads).phase == "waiting"


def test_what_was_cancelled_in_the_queue_ends_no_stream_that_is_written(ads: Table) -> None:
    running = stored_operation(ads, "running", ago=900, reported_ago=3)
    stored_operation(ads, "cancelled", ago=30, reported_ago=1)
    committed(ads, 3, operation=running)

    click = click_of(ads)

    assert (click.phase, click.operation_id) == ("waiting", running.pk)


def test_commits_of_a_sink_make_no_stream(ads: Table) -> None:
    committed(ads, 3)
    InstantRecord.objects.update(sink="clicks")

    assert stream_rounds(ads, NOW) == []
