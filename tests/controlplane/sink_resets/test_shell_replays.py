"""`manage.py sink replay`: letters of a registered table are sent again by an operation, with the
checks and the proof of a page's, in the shell's own process.
"""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import get_shell_user
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_request_replay, do_start_sink
from controlplane.operations.models import Operation
from controlplane.operations.queries import operation_checks
from tests.controlplane.lake import Lake
from tests.support.kafka import client, fresh_topic
from tests.support.sinks import NOW_MS, SINK, commit_offsets
from workers.sink.batch import BadRecord, Source
from workers.sink.dead_letters import dead_letters_to_arrow
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.topics import Topics
from workers.write.dead_letters import DeadLetters
from workers.write.status import TaskIds

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def topic(kafka: Broker, topics: Topics, lake: Lake) -> str:
    """One partition with two records, of which the table could not take the second."""
    from confluent_kafka import Producer

    name = fresh_topic(topics, 1)
    producer = Producer(dict(client(kafka)))
    for record in (b'{"id": 1}', b"{oops"):
        producer.produce(name, record, partition=0)
    assert producer.flush(20) == 0
    directory = f"{lake.row.location}-dead-letters"
    source = Source(name, 0, topic_id=topics.facts(name).topic_id)
    bad = [BadRecord(1, None, b"{oops", "not JSON", NOW_MS)]
    written = DeadLetters(directory, "20260102030405678").write(
        dead_letters_to_arrow(source, bad), TaskIds()
    )
    extra = {"hoodie.sink.dlq.count": "1", "sluice.dead_letter.files": written.name}
    commit_offsets(lake.row.location, "0=2", extra=extra)
    return name


def replay(kafka: Broker, topic: str, table: str, *words: str) -> str:
    out = StringIO()
    of_sink = ("--topic", topic, "--id", SINK, "--bootstrap", kafka.bootstrap)
    call_command("sink", "replay", table, *of_sink, *words, stdout=out)
    return out.getvalue()


def test_the_shell_replays_by_an_operation_once(
    lake: Lake, kafka: Broker, topic: str, topics: Topics
) -> None:
    shown = replay(kafka, topic, "trips")
    assert not Operation.objects.exists()

    done = replay(kafka, topic, "trips", "--yes", "--reason", "mended")
    again = replay(kafka, topic, "trips", "--yes")

    assert "0:1  not JSON" in shown
    assert f"1 sent to {topic} again" in done
    assert "1 more were already replayed" in again
    [operation] = Operation.objects.all()
    assert (operation.kind, operation.state, operation.reason) == ("replay", "succeeded", "mended")
    proved = {check.name: check.is_proved for check in operation_checks(operation.pk)}
    assert proved["letters"]
    events = AuditEvent.objects.filter(what__contains="replay").order_by("id")
    assert [(one.what, one.who, one.result) for one in events] == [
        ("sink.replay", get_shell_user(), "requested"),
        ("operation.replay", get_shell_user(), "succeeded"),
    ]
    assert topics.facts(topic).watermarks[0][1] > 2


def test_the_shell_waits_for_a_replay_that_a_page_asked_for(
    lake: Lake, kafka: Broker, topic: str, topics: Topics, admin: User
) -> None:
    do_start_sink(lake.row, {"hoodie.kafka.topic": topic, "hoodie.sink.id": SINK}, by=admin)
    sync_table(lake.row)
    do_request_replay(lake.row, SINK, by=admin, letters=["0:1"], reason="mended")

    with pytest.raises(CommandError, match="a replay of this sink is under way"):
        replay(kafka, topic, "trips", "--yes")

    assert topics.facts(topic).watermarks[0] == (0, 2)


def test_letters_of_a_table_that_is_not_registered_are_sent_by_its_location(
    lake: Lake, kafka: Broker, topic: str
) -> None:
    location = lake.row.location
    lake.row.delete()

    assert f"1 sent to {topic} again" in replay(kafka, topic, location, "--yes")
