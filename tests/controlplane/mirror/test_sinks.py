"""Sinks in the mirror: what their files and commits say, and what is damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from controlplane.mirror import sink_facts
from controlplane.mirror.models import InstantRecord, SinkParticipant, SinkRecord
from controlplane.mirror.queries.sinks import (
    letter_commits,
    participants,
    sink_record,
    sink_rows,
    trace,
    transactions,
)
from controlplane.mirror.sync import forget_mirror, sync_table
from tests.controlplane.lake import Lake
from tests.support.sinks import (
    NOW_MS,
    SINK,
    commit_offsets,
    participant,
    stopped_state,
    stuck_state,
)
from workers.ports import system_ports
from workers.sink.epoch import acquire_epoch
from workers.sink.sink_commits import OFFSETS_KEY
from workers.sink.sink_paths import SinkPaths
from workers.sink.state_file import SinkState, put_state
from workers.sink.stop_request import StopKind, StopRequest, request_stop

PLACES = SinkPaths(SINK)


def mirrored(lake: Lake) -> list[dict[str, Any]]:
    hidden = {"id", "sink_id", "table_id"}
    rows: list[Mapping[str, Any]] = [
        *SinkRecord.objects.order_by("sink_id").values(),
        *SinkParticipant.objects.order_by("sink__sink_id", "partition").values(),
    ]
    return [{key: value for key, value in one.items() if key not in hidden} for one in rows]


def record(lake: Lake) -> SinkRecord:
    sink = sink_record(lake.row, SINK)
    assert sink is not None
    return sink


def test_state_of_coordinator_and_participants_is_mirrored(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state())

    changed = sync_table(lake.row)

    (row,) = sink_rows(lake.row)
    assert changed is not None
    assert "sinks" in changed
    assert (row.sink_id, row.state, row.epoch) == (SINK, "ENDED_COMMIT", 3)
    assert (row.partitions, row.reported) == (4, 3)
    assert row.lag == 4 * 50
    assert row.counters == {"ignored_epoch": 2, "restarts": 1}
    assert [one.outcome for one in transactions(record(lake))] == [
        "committed",
        "timed_out",
        "committed",
    ]
    assert trace(record(lake))[-1].kind == "WRITE_STATUS"


def test_participant_that_has_not_reported_is_the_one_that_is_waited_for(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state(missing=2))
    sync_table(lake.row)

    (row,) = sink_rows(lake.row)

    assert [(one.partition, one.participant) for one in row.waits_for] == [(2, "p2-7f3a")]
    assert row.waits_for_count == 1


def test_after_start_those_are_waited_for_that_have_not_opened(lake: Lake) -> None:
    shown = (participant(0), participant(1, "IDLE"), participant(2, "PREPARED"))
    put_state(
        lake.table.storage,
        replace(stuck_state(), state="STARTED_COMMIT", participants=shown),
    )
    sync_table(lake.row)

    assert [one.partition for one in sink_rows(lake.row)[0].waits_for] == [1]


@pytest.mark.parametrize("state", ["STARTED_COMMIT", "ENDED_COMMIT"])
def test_a_partition_that_was_added_within_a_transaction_is_not_waited_for(
    lake: Lake, state: str
) -> None:
    added = participant(2, "IDLE", is_member=False)
    shown = (participant(0, "IDLE"), participant(1, "PREPARED", has_reported=True), added)
    put_state(lake.table.storage, replace(stuck_state(), state=state, participants=shown))
    sync_table(lake.row)

    assert [one.partition for one in sink_rows(lake.row)[0].waits_for] == [0]


def test_between_transactions_nobody_is_waited_for(lake: Lake) -> None:
    put_state(lake.table.storage, replace(stuck_state(), state="ACKED_COMMIT"))
    sync_table(lake.row)

    assert sink_rows(lake.row)[0].waits_for == []


# State of the participant, then local, table as the coordinator says, table as commits say, broker
AGREEMENTS = """
IDLE       100  100  100   150  equal
OPEN       120  100  100   150  writing
PREPARED   120  100  100   150  writing
IDLE       120  100  100   150  ahead
IDLE        80  100  100   150  behind
OPEN        80  100  100   150  behind
IDLE       100  100  100    90  past_end
IDLE       100  130  100   150  disagrees
IDLE       100  100    -   150  equal
IDLE         -  100  100   150  unknown
IDLE       100    -    -   150  unknown
IDLE       120  100  120   150  equal
"""


@pytest.mark.parametrize("line", AGREEMENTS.strip().splitlines())
def test_three_offsets_are_compared(lake: Lake, line: str) -> None:
    state, *given, expected = line.split()
    local, said, committed, broker = (None if one == "-" else int(one) for one in given)
    shown = participant(
        0, state, local_offset=local, table_offset=said, broker_offset=broker, has_reported=False
    )
    put_state(lake.table.storage, replace(stuck_state(), participants=(shown,)))
    if committed is not None:
        commit_offsets(lake.row.location, f"0={committed}")

    sync_table(lake.row)

    (row,) = participants(record(lake))
    assert row.agreement == expected


def test_offsets_of_the_table_are_those_of_the_newest_commit_behind_commits_of_others(
    lake: Lake,
) -> None:
    put_state(lake.table.storage, stuck_state(partitions=2))
    commit_offsets(lake.row.location, "0=90,1=95")
    newest = commit_offsets(lake.row.location, "0=100,1=105,7=3")
    lake.commit({"id": "9", "ts": 1, "city": "Moss"}, writer="other")

    sync_table(lake.row)

    offsets = {one.partition: one.table_offset for one in participants(record(lake))}
    assert offsets == {0: 100, 1: 105, 7: 3}
    assert record(lake).commit_instant == newest
    assert record(lake).commit_topic == "orders"


def test_long_offsets_are_kept_whole(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state(partitions=1))
    commit_offsets(lake.row.location, ",".join(f"{one}={10**15 + one}" for one in range(900)))

    sync_table(lake.row)

    assert sink_rows(lake.row)[0].partitions == 900
    assert participants(record(lake), after=898)[0].table_offset == 10**15 + 899


def test_too_many_offsets_are_cut_between_two_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_facts, "OFFSETS_CHARS_MAX", 9)
    commit = {OFFSETS_KEY: "0=12,1=345,2=6"}

    facts = sink_facts.sink_of_commit(commit)["sink"]

    assert sink_facts.committed_offsets(facts) == {0: 12}


def test_commits_that_left_records_out_are_listed(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state())
    commit_offsets(lake.row.location, "0=90")
    bad = commit_offsets(
        lake.row.location,
        "0=95",
        extra={"hoodie.sink.dlq.count": "2", "sluice.dead_letter.files": "a.parquet,b.parquet"},
    )

    sync_table(lake.row)

    (row,) = letter_commits(lake.row, SINK)
    assert (row.instant, row.records, row.files) == (bad, 2, ["a.parquet", "b.parquet"])


def test_epoch_and_stop_request_are_told_beside_the_state(lake: Lake) -> None:
    storage = lake.table.storage
    put_state(storage, stuck_state())
    for _ in range(4):
        acquire_epoch(storage, SINK, system_ports(), owner="c-20")
    request_stop(storage, SINK, StopRequest(StopKind.GRACEFUL, "olaf", NOW_MS))

    sync_table(lake.row)

    (row,) = sink_rows(lake.row)
    assert (row.epoch, row.taken_epoch, row.stop_kind, row.stop_by) == (3, 4, "graceful", "olaf")
    assert row.taken_by.startswith("c-20 on ")


def test_sink_that_has_only_taken_its_epoch_is_there(lake: Lake) -> None:
    acquire_epoch(lake.table.storage, SINK, system_ports(), owner="c-1")

    sync_table(lake.row)

    (row,) = sink_rows(lake.row)
    assert (row.state, row.taken_epoch, row.is_over) == ("", 1, False)


DAMAGED = {
    "no JSON": b"{",
    "a list": b"[]",
    "another version": b'{"version": 9}',
    "an offset that is a text": lambda body: body["participants"][0].update(local_offset="x"),
    "an offset below nought": lambda body: body["participants"][0].update(table_offset=-1),
    "a partition twice": lambda body: body["participants"][1].update(partition=0),
    "an instant that is none": lambda body: body.update(instant="<script>"),
    "counters that are a list": lambda body: body.update(counters=[]),
    "a time after all calendars": lambda body: body.update(updated_ms=10**17),
    "an unknown key": lambda body: body.update(surprise=1),
    "a state that is null": lambda body: body.update(state=None),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=list(DAMAGED))
def test_damaged_state_is_shown_as_such_and_what_commits_say_stays(lake: Lake, damage: Any) -> None:
    storage = lake.table.storage
    put_state(storage, stuck_state(partitions=2))
    commit_offsets(lake.row.location, "0=100,1=105")
    body = json.loads(storage.read(PLACES.state))
    if callable(damage):
        damage(body)
        damage = json.dumps(body).encode()
    storage.put(PLACES.state, damage)

    changed = sync_table(lake.row)

    (row,) = sink_rows(lake.row)
    assert changed is not None
    assert "sink's state" in row.problem
    assert row.state == ""
    assert [one.table_offset for one in participants(record(lake))] == [100, 105]
    lake.row.refresh_from_db()
    assert lake.row.sync_error == ""


def test_damaged_epoch_stop_request_and_offsets_are_named(lake: Lake) -> None:
    storage = lake.table.storage
    put_state(storage, stuck_state())
    storage.put(PLACES.epoch, b'{"number": 0}')
    storage.put(PLACES.stop, b"stop!")
    commit_offsets(lake.row.location, "0=1=2")

    sync_table(lake.row)

    (row,) = sink_rows(lake.row)
    assert row.state == "ENDED_COMMIT"
    for word in ("epoch", "stop request", "offsets"):
        assert word in row.problem


def test_null_characters_and_long_texts_are_cut(lake: Lake) -> None:
    state = replace(stuck_state(), owner="a\x00b" * 400, reason="r" * 900)
    put_state(lake.table.storage, state)

    sync_table(lake.row)

    assert "\x00" not in record(lake).owner
    assert len(record(lake).reason) == 500


def test_mirror_of_sinks_is_made_again_from_storage_alone(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state())
    put_state(lake.table.storage, stopped_state("other"))
    commit_offsets(lake.row.location, "0=100,1=100,2=100,3=100")
    sync_table(lake.row)
    before = mirrored(lake)

    forget_mirror(lake.row)
    assert mirrored(lake) == []
    sync_table(lake.row)

    assert mirrored(lake) == before


def test_directory_whose_name_is_no_id_is_no_sink(lake: Lake) -> None:
    for name in ("<script>", "-x", "a b"):
        lake.table.storage.put(f".hoodie/.sluice/sink/{name}/state.json", b"{}")

    sync_table(lake.row)

    assert sink_rows(lake.row) == []


def test_state_that_is_only_told_again_is_life_and_no_news(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state())
    sync_table(lake.row)
    later = replace(stuck_state(), updated_ms=NOW_MS + 4_000)
    put_state(lake.table.storage, later)

    assert sync_table(lake.row) == frozenset()

    updated_at = record(lake).updated_at
    assert updated_at is not None
    assert int(updated_at.timestamp() * 1000) == NOW_MS + 4_000


def test_second_look_at_the_same_files_changes_nothing(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state())
    sync_table(lake.row)

    assert sync_table(lake.row) == frozenset()


def test_rows_follow_partitions_that_come_and_sinks_that_go(lake: Lake) -> None:
    storage = lake.table.storage
    put_state(storage, stuck_state(partitions=4))
    sync_table(lake.row)
    kept = set(SinkParticipant.objects.values_list("pk", flat=True))

    put_state(storage, stuck_state(partitions=6))
    sync_table(lake.row)
    assert kept < set(SinkParticipant.objects.values_list("pk", flat=True))
    storage.delete_tree(PLACES.directory)
    sync_table(lake.row)

    assert not SinkRecord.objects.exists()


def test_commit_that_is_rolled_back_takes_its_offsets_along(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state(partitions=1))
    first = commit_offsets(lake.row.location, "0=90")
    second = commit_offsets(lake.row.location, "0=100")
    sync_table(lake.row)
    assert record(lake).commit_instant == second

    from workers.lakehouse import open_table

    open_table(lake.row.location).rollback(second, dry_run=False, by="ada", reason="test")
    sync_table(lake.row)

    assert record(lake).commit_instant == first
    assert participants(record(lake))[0].agreement == "disagrees"


def test_number_of_queries_does_not_grow_with_sinks_and_partitions(
    lake: Lake, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(12):
        put_state(lake.table.storage, stuck_state(sink_id=f"s{number}", partitions=60))
    sync_table(lake.row)

    with django_assert_max_num_queries(2):
        assert len(sink_rows(lake.row)) == 12


def test_hudis_own_sink_has_offsets_and_no_row(lake: Lake) -> None:
    instant = commit_offsets(lake.row.location, "0=5", sink_id="")

    sync_table(lake.row)

    sink = InstantRecord.objects.get(requested_at=instant).metadata["sink"]
    assert (sink["id"], sink["offsets"]) == ("", "0=5")
    assert sink_rows(lake.row) == []


def test_state_of_a_newer_epoch_is_what_is_seen(lake: Lake) -> None:
    put_state(lake.table.storage, stuck_state())
    newer = SinkState(SINK, "orders", 4, "INIT", updated_ms=NOW_MS)
    assert put_state(lake.table.storage, newer)
    sync_table(lake.row)

    (row,) = sink_rows(lake.row)
    assert (row.epoch, row.state, row.partitions) == (4, "INIT", 0)
