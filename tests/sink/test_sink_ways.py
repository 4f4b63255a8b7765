"""What sinks meet in their lives: bad records, new fields, new partitions, other launches, services
beside them, topics that are made anew.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

from tests.sink.conftest import StartSink
from tests.support.kafka import add_partitions, client, eventually, fresh_topic
from tests.support.sink_run import PROJECT, assert_each_offset_once, say, send
from workers.concurrency.lock_takeover import table_lock
from workers.lakehouse import create_table, open_table
from workers.options.write_options import write_options
from workers.sink.dead_letters import list_dead_letter_files, read_dead_letters
from workers.sink.kafka.broker import Broker
from workers.sink.kafka.client_config import group_id
from workers.sink.kafka.topics import Topics
from workers.sink.runtime.service_plans import run_pending_plans
from workers.sink.sink_commits import GAPS_KEY, ID_KEY
from workers.sink.sink_paths import SinkPaths
from workers.sink.tables import OFFSET, PARTITION
from workers.storage.opener import open_storage
from workers.table.schema_history import read_instant

EACH = 500
_CITY: dict[str, pa.DataType] = {"id": pa.string(), "people": pa.int64()}
CITIES = pa.schema(_CITY)

pytestmark = pytest.mark.slow


def test_bad_records_become_dead_letters_with_their_cause(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    send(kafka, topic, 0, 0, EACH)
    say(kafka, topic, 0, b"{broken", b'{"id": "no number"}')
    send(kafka, topic, 0, EACH + 2, EACH)
    run = start_sink(topic)
    run.await_offsets({0: 2 * EACH + 2})
    run.stop()

    rows = open_table(location).read()
    assert rows.num_rows == 2 * EACH
    assert rows.column("id").equals(rows.column("_kafka_offset"))
    names = list_dead_letter_files(open_table(location).table, sink_key=ID_KEY, sink_id=topic)
    letters = read_dead_letters(f"{location}-dead-letters", names).to_pylist()
    assert [one["_kafka_offset"] for one in letters] == [EACH, EACH + 1]
    assert [one["value"] for one in letters] == [b"{broken", b'{"id": "no number"}']
    assert all(one["_sluice_error"] for one in letters)


def test_new_fields_become_columns_and_those_that_cannot_are_left_out(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    say(kafka, topic, 0, b'{"id": 1}', b'{"id": 2, "city": "Oslo", "bad name*": 7}')
    say(kafka, topic, 1, b'{"id": 3, "speed": 1.5}')
    run = start_sink(topic, **{"hoodie.sink.schema.source": "infer"})
    run.await_offsets({0: 2, 1: 1})
    run.stop()

    rows = open_table(location).read().sort_by("id")
    assert rows.select(["id", "city", "speed"]).to_pylist() == [
        {"id": 1, "city": None, "speed": None},
        {"id": 2, "city": "Oslo", "speed": None},
        {"id": 3, "city": None, "speed": 1.5},
    ]
    assert "bad name*" not in rows.column_names


def test_partitions_that_are_added_are_read_from_their_beginning(
    kafka: Broker, topics: Topics, location: str, start_sink: StartSink
) -> None:
    topic = fresh_topic(topics, 2)
    send(kafka, topic, 1, 0, EACH)
    run = start_sink(topic)
    run.await_offsets({1: EACH})
    add_partitions(kafka, topic, 3)
    send(kafka, topic, 2, 0, EACH)
    run.await_offsets({2: EACH})
    run.stop()
    assert_each_offset_once(location, {0: 0, 1: EACH, 2: EACH})


def test_of_two_launches_the_later_one_goes_on_and_the_earlier_one_ends(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    send(kafka, topic, 0, 0, EACH)
    first = start_sink(topic)
    first.await_offsets({0: EACH})
    second = start_sink(topic)
    send(kafka, topic, 0, EACH, EACH)
    second.await_offsets({0: 2 * EACH})
    eventually(lambda: all(one.poll() == 0 for one in first.processes.values()))
    second.stop()
    assert_each_offset_once(location, {0: 2 * EACH})


def test_a_coordinator_that_another_process_of_its_launch_fenced_fails_and_its_follower_goes_on(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    send(kafka, topic, 0, 0, EACH)
    run = start_sink(topic)
    run.await_offsets({0: EACH})
    zombie = run.processes[0]
    run.start([0])  # As Spark does when it takes a task for lost.
    assert zombie.wait(60) != 0
    send(kafka, topic, 0, EACH, EACH)
    run.await_offsets({0: 2 * EACH})
    run.stop()
    assert_each_offset_once(location, {0: 2 * EACH})


def test_compaction_is_planned_by_the_coordinator_and_carried_out_beside_it(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    run = start_sink(topic, **{"hoodie.kafka.compaction.async.enable": "true"})
    for number in range(7):
        for partition in range(4):
            send(kafka, topic, partition, number * EACH, EACH)
        run.await_offsets(dict.fromkeys(range(4), (number + 1) * EACH))
    table = open_table(location)
    assert run_pending_plans(table.table, run.config, {}) == 1
    for partition in range(4):
        send(kafka, topic, partition, 7 * EACH, EACH)
    run.await_offsets(dict.fromkeys(range(4), 8 * EACH))
    run.stop()
    assert_each_offset_once(location, dict.fromkeys(range(4), 8 * EACH))
    assert any(one.base_file for one in open_table(location).file_groups())


def test_a_relaunch_goes_on_behind_other_writers_and_archived_commits(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    send(kafka, topic, 0, 0, EACH)
    run = start_sink(topic)
    run.await_offsets({0: EACH})
    run.stop()
    table = open_table(location)
    own = pa.table(
        {
            "_kafka_cluster": ["none"],
            "_kafka_topic": ["by hand"],
            "_kafka_topic_id": ["none"],
            "_kafka_partition": [0],
            "_kafka_offset": [0],
        }
    )
    schema = table.schema()
    assert schema is not None
    typed = own.cast(pa.schema([schema.field(name) for name in own.column_names]))
    options = {
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.markers.type": "direct",
    }
    for _ in range(3):
        open_table(location).write(typed, options=options)
    open_table(location).compact()
    keep = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    open_table(location).clean({"hoodie.clean.commits.retained": "1"})
    open_table(location).archive(keep)
    send(kafka, topic, 0, EACH, EACH)

    again = start_sink(topic, **{"hoodie.kafka.start.offsets": ""})
    again.await_offsets({0: 2 * EACH})
    again.stop()
    rows = open_table(location).read()
    assert rows.num_rows == 2 * EACH + 1


def test_a_topic_that_was_made_anew_stops_the_sink_and_says_so(
    kafka: Broker, topics: Topics, topic: str, location: str, start_sink: StartSink
) -> None:
    send(kafka, topic, 0, 0, EACH)
    run = start_sink(topic)
    run.await_offsets({0: EACH})
    run.stop()
    topics.delete(topic)
    eventually(lambda: topics.create_if_missing(topic, 4))
    send(kafka, topic, 0, 0, 2 * EACH)

    again = start_sink(topic)
    eventually(lambda: all(one.poll() == 0 for one in again.processes.values()), within_s=60)
    state = again.state()
    assert state is not None
    assert "deleted and created again" in state.reason
    assert_each_offset_once(location, {0: EACH})


def test_a_topic_that_was_made_anew_is_read_after_a_reset_and_no_row_is_lost(
    kafka: Broker, topics: Topics, topic: str, location: str, tmp_path: Path, start_sink: StartSink
) -> None:
    send(kafka, topic, 0, 0, EACH)
    run = start_sink(topic)
    run.await_offsets({0: EACH})
    run.stop()
    topics.delete(topic)
    eventually(lambda: topics.create_if_missing(topic, 4))
    send(kafka, topic, 0, 10_000, 2 * EACH)
    shell = {
        **os.environ,
        "SLUICE_HOME": str(tmp_path / "home"),
        "SLUICE_SECRET_KEY": "a key for tests only",
        "SLUICE_TABLE_ROOTS": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings.prod",
    }
    words = ["reset", location, "--topic", topic, "--bootstrap", kafka.bootstrap]
    reset = [sys.executable, "manage.py", "sink", *words, "--to", "earliest"]

    plan = subprocess.run(reset, cwd=PROJECT, env=shell, capture_output=True, text=True, check=True)
    assert "is not the topic of" in plan.stdout
    assert "nothing was changed" in plan.stdout
    subprocess.run([*reset, "--yes"], cwd=PROJECT, env=shell, capture_output=True, check=True)
    again = start_sink(topic)
    again.await_offsets({0: 2 * EACH})
    again.stop()

    rows = open_table(location).read()
    ids = sorted(rows.column("id").to_pylist())
    assert ids == [*range(EACH), *range(10_000, 10_000 + 2 * EACH)]
    assert len(set(rows.column("_kafka_topic_id").to_pylist())) == 2
    assert "" not in rows.column("_kafka_cluster").to_pylist()


@pytest.mark.parametrize("ending", ["stopped", "killed", "frozen"])
def test_latest_reads_all_of_a_topic_that_was_made_anew_before_the_first_commit(
    kafka: Broker, topics: Topics, topic: str, location: str, start_sink: StartSink, ending: str
) -> None:
    send(kafka, topic, 0, 0, EACH)
    latest = {"hoodie.kafka.start.offsets": "latest"}
    run = start_sink(topic, **latest)
    storage, look = open_storage(location), SinkPaths(topic).initial_offsets
    eventually(lambda: storage.info(look) is not None)
    match ending:
        case "stopped":
            run.stop()
        case "killed":
            run.end()
        case "frozen":
            for process in run.processes.values():
                process.send_signal(signal.SIGSTOP)
    topics.delete(topic)
    eventually(lambda: topics.create_if_missing(topic, 4))
    send(kafka, topic, 0, 0, EACH)
    send(kafka, topic, 3, 0, 2 * EACH)
    topics.delete_records(topic, {3: EACH})

    if ending == "frozen":
        for process in run.processes.values():
            process.send_signal(signal.SIGCONT)
    else:
        run = start_sink(topic, **latest)
    run.await_offsets({0: EACH, 3: 2 * EACH})
    run.stop()

    rows = open_table(location).read().select([PARTITION, OFFSET]).to_pylist()
    read = sorted((one[PARTITION], one[OFFSET]) for one in rows)
    assert read == [*((0, at) for at in range(EACH)), *((3, at) for at in range(EACH, 2 * EACH))]
    table = open_table(location).table
    commits = [read_instant(table, one) for one in table.timeline().list_completed_writes()]
    gaps = [int(one.extra_metadata.get(GAPS_KEY, 0)) for one in commits]
    assert sum(gaps) == EACH


def test_a_commit_that_hangs_blames_no_partition_and_garbage_is_shown(
    kafka: Broker, topic: str, location: str, start_sink: StartSink
) -> None:
    for partition in range(4):
        send(kafka, topic, partition, 0, EACH)
    run = start_sink(topic, **{"hoodie.kafka.commit.interval.secs": "5"})
    holder = write_options({"sluice.writer.name": "holder"})

    def is_in(name: str) -> bool:
        state = run.state()
        return state is not None and state.state == name

    eventually(lambda: is_in("STARTED_COMMIT"), within_s=60)
    with table_lock(open_table(location).table, holder).hold():
        say(kafka, f"{topic}-control", 0, b"garbage", b"and more")
        eventually(lambda: is_in("WRITE_STATUS_RCVD"), within_s=60)
        state = run.state()
        assert state is not None
        assert all(one.has_reported for one in state.participants)
        assert "the commit is under way" in state.reason
        hangs_since = state.updated_ms
        eventually(lambda: (now := run.state()) is not None and now.updated_ms > hangs_since)
    run.await_offsets(dict.fromkeys(range(4), EACH))
    run.stop()

    last = run.state()
    assert last is not None
    assert last.counters["control_topic_malformed"] == 2
    assert_each_offset_once(location, dict.fromkeys(range(4), EACH))


def test_keyed_records_update_and_delete_rows(
    kafka: Broker, topics: Topics, location: str, start_sink: StartSink
) -> None:
    topic = fresh_topic(topics, 2)
    create_table(
        location,
        name="cities",
        schema=CITIES,
        record_key=["id"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "2"},
    )

    def keyed(partition: int, key: str, value: dict[str, object] | None) -> None:
        said = None if value is None else json.dumps({"id": key, **value}).encode()
        say(kafka, topic, partition, said, key=key.encode())

    keyed(0, "oslo", {"people": 1})
    keyed(0, "rome", {"people": 2})
    keyed(0, "oslo", {"people": 3})
    keyed(1, "lima", {"people": 4})
    keyed(1, "bonn", {"people": 5})
    options = {"hoodie.sink.mode": "upsert", "hoodie.sink.op.column": "op"}
    run = start_sink(topic, **options)
    run.await_offsets({0: 3, 1: 2})
    keyed(0, "rome", None)
    keyed(1, "lima", {"people": 0, "op": "d"})
    keyed(1, "bonn", {"people": 6, "op": "u"})
    run.await_offsets({0: 4, 1: 4})
    run.stop()
    assert open_table(location).read().sort_by("id").to_pylist() == [
        {"id": "bonn", "people": 6},
        {"id": "oslo", "people": 3},
    ]


def test_a_record_without_its_key_is_a_dead_letter_with_its_own_bytes(
    kafka: Broker, topics: Topics, location: str, start_sink: StartSink
) -> None:
    topic = fresh_topic(topics, 1)
    create_table(
        location, name="cities", schema=CITIES, record_key=["id"], table_type="MERGE_ON_READ"
    )
    keyless = b'{"people":  7, "unknown": 1}'
    say(kafka, topic, 0, b'{"id": "oslo", "people": 1}', keyless, key=b"k")
    run = start_sink(topic, **{"hoodie.sink.mode": "upsert"})
    run.await_offsets({0: 2})
    run.stop()
    assert open_table(location).read().to_pylist() == [{"id": "oslo", "people": 1}]
    names = list_dead_letter_files(open_table(location).table, sink_key=ID_KEY, sink_id=topic)
    [letter] = read_dead_letters(f"{location}-dead-letters", names).to_pylist()
    assert (letter["_kafka_offset"], letter["key"], letter["value"]) == (1, b"k", keyless)
    assert "id has no value" in letter["_sluice_error"]


def test_a_lost_consumer_group_and_a_wiped_control_topic_change_nothing(
    kafka: Broker, topics: Topics, topic: str, location: str, start_sink: StartSink
) -> None:
    for partition in range(4):
        send(kafka, topic, partition, 0, EACH)
    run = start_sink(topic)
    run.await_offsets(dict.fromkeys(range(4), EACH))
    group = group_id(run.config)
    groups = AdminClient(dict(client(kafka)))
    eventually(lambda: has_group(groups, group))
    groups.delete_consumer_groups([group])[group].result(20)
    topics.delete(run.config.control_topic)
    for partition in range(4):
        send(kafka, topic, partition, EACH, EACH)
    run.await_offsets(dict.fromkeys(range(4), 2 * EACH), within_s=90)
    run.stop()
    assert_each_offset_once(location, dict.fromkeys(range(4), 2 * EACH))


def has_group(groups: AdminClient, name: str) -> bool:
    return name in [one.group_id for one in groups.list_consumer_groups().result(20).valid]
