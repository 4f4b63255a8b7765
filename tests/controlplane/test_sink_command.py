"""`manage.py sink`: looked at and stopped by the files beside the table, with a node or without."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from controlplane.audit.models import AuditEvent
from controlplane.operations.actions import do_start_sink
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.support.sinks import NOW_MS, SINK, TOPIC, commit_offsets, stopped_state, stuck_state
from workers.ports import system_ports
from workers.sink.batch import BadRecord, Source
from workers.sink.dead_letters import dead_letters_to_arrow
from workers.sink.epoch import acquire_epoch
from workers.sink.state_file import put_state
from workers.sink.stop_request import StopKind, read_stop
from workers.write.dead_letters import DeadLetters
from workers.write.status import TaskIds

OPTIONS = {"hoodie.kafka.topic": TOPIC, "hoodie.sink.id": SINK}


def run(*words: str) -> str:
    out = StringIO()
    call_command("sink", *words, stdout=out)
    return out.getvalue()


@pytest.fixture
def stuck(lake: Lake) -> Lake:
    storage = lake.table.storage
    for _ in range(3):
        acquire_epoch(storage, SINK, system_ports(), owner="c-19")
    put_state(storage, stuck_state(missing=2))
    commit_offsets(lake.row.location, "0=100,1=90,2=100,3=100")
    return lake


def test_status_names_the_participant_that_is_missing(stuck: Lake) -> None:
    said = run("status", "trips")

    assert f"{SINK}  ENDED_COMMIT  topic orders  epoch 3" in said
    assert "missing: partition 2, worker-1.example:4002" in said
    assert "3 of 4 partitions have reported" in said
    assert "committed 3900 rows, 61.0 s" in said


def test_offsets_come_from_the_state_and_from_the_newest_commit(stuck: Lake) -> None:
    lines = run("offsets", "trips", SINK).splitlines()

    assert lines[2].split()[:5] == ["1", "120", "90", "150", "60"]
    assert lines[2].endswith("local offset differs from the table")


def test_location_is_enough_where_nothing_is_registered(stuck: Lake) -> None:
    location = stuck.row.location
    Table.objects.all().delete()

    assert "ENDED_COMMIT" in run("status", location, SINK)
    run("stop", location, SINK, "--hard")

    stop = read_stop(stuck.table.storage, SINK)
    assert stop is not None
    assert stop.kind is StopKind.HARD
    assert "stop requested (hard)" in run("status", location)


def test_stop_is_audited_and_says_when_nothing_answers(stuck: Lake) -> None:
    with pytest.raises(CommandError, match="did not report that it stopped within 1 s"):
        run("stop", "trips", SINK, "--wait", "1", "--reason", "upgrade")

    event = AuditEvent.objects.get(what="sink.stop")
    assert event.reason == "upgrade"
    assert event.who.endswith("(shell)")


def test_what_does_not_run_is_not_stopped(stuck: Lake) -> None:
    put_state(stuck.table.storage, stopped_state())

    with pytest.raises(CommandError, match="it is stopped"):
        run("stop", "trips", SINK)
    with pytest.raises(CommandError, match="sink other not found"):
        run("stop", "trips", "other")

    assert read_stop(stuck.table.storage, SINK) is None


def test_relaunch_asks_for_the_role_of_whoever_is_named(
    lake: Lake, admin: User, viewer: User
) -> None:
    do_start_sink(lake.row, OPTIONS, by=admin)

    with pytest.raises(CommandError, match="requires the operator role"):
        run("relaunch", "trips", SINK, "--user", viewer.get_username())


def test_relaunch_queues_the_same_options(lake: Lake, admin: User) -> None:
    do_start_sink(lake.row, OPTIONS, by=admin)
    Operation.objects.update(state="lost")

    assert "queued as operation" in run("relaunch", "trips", SINK, "--user", "ada")

    newest = Operation.objects.get(state="queued")
    assert newest.parameters["job"]["sink_options"] == OPTIONS


def test_unknown_tables_sinks_users_and_options_are_named(lake: Lake, root: Path) -> None:
    for words, said in (
        (("status", "nowhere"), "table nowhere not found"),
        (("status", "trips", "none"), "sink none not found"),
        (("offsets", "trips", "none"), "sink none has no offsets"),
        (("status", "/etc"), "outside the configured table roots"),
        (("relaunch", "trips", SINK, "--user", "nobody"), "an existing user"),
        (("run", "trips", "--topic", "t", "--set", "oops"), "KEY=VALUE"),
        (("run", "trips", "--topic", "t", "--set", "hoodie.sink.mode=both"), "hoodie.sink.mode"),
    ):
        with pytest.raises(CommandError, match=said):
            run(*words)

    assert "no sinks yet" in run("status", "trips")


def test_a_sink_that_commits_blames_nobody_and_garbage_is_told(lake: Lake) -> None:
    state = replace(
        stuck_state(missing=-1),
        state="WRITE_STATUS_RCVD",
        reason="the commit is under way",
        counters={
            "control_topic_malformed": 7,
            "control_topic_signature": 2,
            "failures_in_a_row": 0,
        },
    )
    acquire_epoch(lake.table.storage, SINK, system_ports(), owner="c-19")
    put_state(lake.table.storage, state)

    said = run("status", "trips")

    assert "missing" not in said
    assert "the commit is under way" in said
    assert "that are not from this sink: malformed 7, signature 2" in said


def test_a_sink_that_starts_is_stopped_though_it_shows_how_the_last_one_ended(
    lake: Lake, operator: User
) -> None:
    acquire_epoch(lake.table.storage, SINK, system_ports(), owner="c-19")
    put_state(lake.table.storage, stopped_state())
    with pytest.raises(CommandError, match="does not run"):
        run("stop", "trips", SINK)
    do_start_sink(lake.row, OPTIONS, by=operator)

    assert "requested the stop of orders-in" in run("stop", "trips", SINK)

    assert read_stop(lake.table.storage, SINK) is not None


def test_damaged_state_is_told(stuck: Lake) -> None:
    stuck.table.storage.put(f".hoodie/.sluice/sink/{SINK}/state.json", b"{")

    with pytest.raises(CommandError, match="sink's state is not readable"):
        run("status", "trips")


def test_dead_letters_are_shown_and_not_produced_without_a_yes(lake: Lake) -> None:
    directory = Path(f"{lake.row.location}-dead-letters")
    directory.mkdir()
    bad = [BadRecord(7, b"k", b"{oops", "not JSON", NOW_MS)]
    written = DeadLetters(str(directory), "20260102030405678").write(
        dead_letters_to_arrow(Source(TOPIC, 0), bad), TaskIds()
    )
    commit_offsets(lake.row.location, "0=8", extra={"sluice.dead_letter.files": written.name})

    said = run("replay", "trips", "--topic", TOPIC, "--id", SINK)

    assert "1 dead letters of orders-in" in said
    assert "0:7  not JSON  '{oops'" in said
    assert "nothing was sent" in said


@pytest.mark.parametrize(
    "action", ["run", "status", "offsets", "stop", "relaunch", "replay", "reset"]
)
def test_every_action_explains_itself(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("sink", action, "--help")

    assert "table" in capsys.readouterr().out
