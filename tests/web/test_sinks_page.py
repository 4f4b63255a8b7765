"""The Sinks page: what it says of a sink that is stuck, lost or damaged, and who may do what."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_start_sink
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.support.markup import compact
from tests.support.sinks import NOW_MS, SINK, TOPIC, commit_offsets, stopped_state, stuck_state
from tests.web.test_untrusted_text import PAYLOADS, Elements
from workers.sink.state_file import SinkState, put_state
from workers.sink.stop_request import StopKind, read_stop

QUERIES_MAX = 14
PAGE = "/t/orders/sinks"
OPTIONS = {"hoodie.kafka.topic": TOPIC, "hoodie.sink.id": SINK}
PARTS = ("state", "trace", "participants", "transactions", "dead_letters")


@pytest.fixture
def operator(db: None) -> User:
    user = User.objects.create_user("olaf", password="a long password")
    user.groups.add(Group.objects.get(name="operator"))
    return user


def sync_state(table: Table, state: SinkState) -> None:
    """Stored as told right now, and synced."""
    now_ms = int(timezone.now().timestamp() * 1000)
    put_state(storage_of(table), replace(state, updated_ms=now_ms))
    sync_table(table)


@pytest.fixture
def stuck(orders: Table) -> Table:
    commit_offsets(orders.location, "0=100,1=100,2=100,3=100")
    sync_state(orders, stuck_state(missing=2))
    return orders


def words(client: Client, path: str = PAGE) -> str:
    return compact(client.get(path).content.decode())


def test_stuck_sink_says_who_is_missing_where_and_until_when(
    client: Client, viewer: User, stuck: Table
) -> None:
    client.force_login(viewer)

    text = words(client)

    assert 'data-state="stuck"' in text
    assert "<strong>WRITE_STATUS</strong> of <strong>partition 2</strong>" in text
    assert "worker-1.example:4002" in text
    assert "no record is lost or duplicated" in text
    assert "<b>p2 missing</b>" in json.loads(text.split('id="sequence-figure"')[1].split(">", 1)[1]
        .split("</script>")[0])["layout"]["yaxis"]["ticktext"]  # fmt: skip


def test_page_shows_offsets_transactions_and_their_reasons(
    client: Client, viewer: User, stuck: Table
) -> None:
    client.force_login(viewer)

    text = words(client)

    assert "no WRITE_STATUS of partition 2" in text
    assert 'data-state="writing"' in text
    assert "ended commit" in text
    assert text.index("missing</span>") < text.index('<th scope="row" class="num">0</th>')


def test_offsets_that_disagree_are_counted_and_come_first(
    client: Client, viewer: User, orders: Table
) -> None:
    state = stuck_state(missing=-1)
    shown = (*state.participants[:3], replace(state.participants[3], local_offset=40))
    sync_state(orders, replace(state, participants=shown))
    client.force_login(viewer)

    text = words(client)

    assert 'data-state="behind"' in text
    assert '<div class="is-warn"><dt>Offset mismatches</dt><dd>1</dd>' in text


@pytest.mark.parametrize("part", PARTS)
def test_parts_refresh_by_themselves(client: Client, viewer: User, stuck: Table, part: str) -> None:
    client.force_login(viewer)

    assert client.get(f"{PAGE}/parts/{SINK}/{part}").status_code == 200
    assert client.get(f"{PAGE}/parts/{SINK}/nothing").status_code == 404
    assert client.get(f"{PAGE}/parts/nobody/{part}").status_code == 404


def test_list_refreshes_also_where_there_is_no_sink(
    client: Client, viewer: User, orders: Table
) -> None:
    client.force_login(viewer)
    empty = words(client, f"{PAGE}/list")
    sync_state(orders, stuck_state())

    assert "No sink" in empty
    assert f'data-key="{SINK}"' in words(client, f"{PAGE}/list?sink={SINK}")


def test_several_sinks_are_chosen_by_address_and_the_worst_comes_first(
    client: Client, viewer: User, stuck: Table
) -> None:
    sync_state(stuck, stopped_state("a-first"))
    client.force_login(viewer)

    text = words(client)
    other = words(client, f"{PAGE}?sink=a-first")

    assert text.index(f'data-key="{SINK}"') < text.index('data-key="a-first"')
    assert '<h2 id="sink-title">a-first</h2>' in other
    assert client.get(f"{PAGE}?sink=nobody").status_code == 404


def test_lost_sink_offers_a_relaunch(
    client: Client, operator: User, viewer: User, orders: Table
) -> None:
    do_start_sink(orders, OPTIONS, by=operator)
    Operation.objects.update(state="lost", finished_at=timezone.now())
    client.force_login(operator)

    text = words(client)

    assert "Process died without reporting" in text
    assert f'href="{PAGE}/{SINK}/relaunch"' in text
    client.force_login(viewer)
    assert f'href="{PAGE}/{SINK}/relaunch"' not in words(client)


def test_sink_that_failed_before_it_reported_anything_has_a_page(
    as_admin: Client, operator: User, orders: Table
) -> None:
    do_start_sink(orders, OPTIONS, by=operator)
    Operation.objects.update(state="failed", finished_at=timezone.now())

    assert "no reason was reported" in words(as_admin)


def test_sink_that_will_be_launched_again_says_when(
    client: Client, operator: User, orders: Table
) -> None:
    do_start_sink(orders, OPTIONS, by=operator, relaunches_max=3)
    Operation.objects.update(state="lost", finished_at=timezone.now())
    client.force_login(operator)

    assert "Restarts automatically" in words(client)


def test_sink_that_fell_silent_and_one_that_is_damaged_are_told(
    client: Client, viewer: User, orders: Table
) -> None:
    put_state(storage_of(orders), replace(stuck_state(), updated_ms=NOW_MS - 600_000))
    sync_table(orders)
    client.force_login(viewer)

    silent = words(client)
    storage_of(orders).put(f".hoodie/.sluice/sink/{SINK}/state.json", b"{")
    sync_table(orders)
    damaged = words(client)

    assert "The coordinator reports every 2 s" in silent
    assert "State file unreadable:" in damaged
    assert "state is not readable" in damaged


def test_table_without_a_sink_says_how_to_start_one(
    client: Client, viewer: User, orders: Table
) -> None:
    client.force_login(viewer)

    assert "manage.py sink run" in words(client)


def form(**changes: str) -> dict[str, str]:
    return {
        "topic": TOPIC,
        "bootstrap": "kafka.example:9092",
        "sink_id": SINK,
        "mode": "append",
        "format": "json",
        "source": "table",
        "interval_s": "30",
        "on_bad_record": "dead_letter",
        "protocol": "SASL_SSL",
        "mechanism": "PLAIN",
        "username": "sluice",
        "password_env": "SLUICE_KAFKA_ORDERS",
        "more": "hoodie.kafka.commit.empty=true\n\nhoodie.compact.inline.max.delta.commits = 9",
        "application": "own",
        "relaunches_max": "3",
        "reason": "orders come in",
        **changes,
    }


def test_operator_starts_a_sink(
    client: Client, operator: User, orders: Table, settings: Settings
) -> None:
    settings.SLUICE_KAFKA_BROKERS = ("SLUICE_KAFKA_ORDERS=kafka.example:9092",)
    client.force_login(operator)

    answer = client.post(f"{PAGE}/start", form())

    operation = Operation.objects.get()
    assert answer["Location"] == f"{PAGE}?sink={SINK}"
    assert operation.parameters["job"]["sink_options"] == {
        "hoodie.kafka.topic": TOPIC,
        "hoodie.sink.id": SINK,
        "bootstrap.servers": "kafka.example:9092",
        "hoodie.sink.mode": "append",
        "hoodie.sink.format": "json",
        "hoodie.sink.schema.source": "table",
        "hoodie.kafka.commit.interval.secs": "30",
        "hoodie.sink.on.bad.record": "dead_letter",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "sluice",
        "sasl.password.env": "SLUICE_KAFKA_ORDERS",
        "hoodie.kafka.commit.empty": "true",
        "hoodie.compact.inline.max.delta.commits": "9",
    }
    assert operation.parameters["relaunches_max"] == 3
    assert 'data-state="starting"' in words(client)


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"topic": ""}, 422, "Enter the topic."),
        ({"interval_s": "0"}, 422, "Enter at least 1."),
        ({"more": "no option"}, 422, "key=value"),
        ({"more": "hoodie.kafka.topik=x"}, 400, "hoodie.kafka.topik"),
        ({"password_env": "SLUICE_SECRET_KEY"}, 400, "SLUICE_KAFKA_"),
        ({"start_offsets": "newest"}, 400, "Start offsets"),
    ],
)
def test_start_that_cannot_be_keeps_what_was_typed(
    client: Client, operator: User, orders: Table, changes: dict[str, str], status: int, said: str
) -> None:
    client.force_login(operator)

    answer = client.post(f"{PAGE}/start", form(**changes))

    assert answer.status_code == status
    assert said in answer.content.decode()
    assert "kafka.example:9092" in answer.content.decode()
    assert not Operation.objects.exists()


def test_operator_stops_gracefully_and_hard(client: Client, operator: User, stuck: Table) -> None:
    client.force_login(operator)
    assert "After the transaction" in words(client, f"{PAGE}/{SINK}/stop")

    graceful = client.post(f"{PAGE}/{SINK}/stop", {"kind": "graceful", "reason": "upgrade"})
    gentle = read_stop(storage_of(stuck), SINK)
    client.post(f"{PAGE}/{SINK}/stop", {"kind": "hard"})
    harder = read_stop(storage_of(stuck), SINK)

    assert graceful["Location"] == f"{PAGE}?sink={SINK}"
    assert gentle is not None
    assert harder is not None
    assert (gentle.kind, harder.kind) == (StopKind.GRACEFUL, StopKind.HARD)
    sync_table(stuck)
    assert "olaf requested a stop (immediate)" in words(client)


def test_operator_relaunches_with_the_options_that_it_had(
    client: Client, operator: User, orders: Table
) -> None:
    do_start_sink(orders, OPTIONS, by=operator)
    client.force_login(operator)
    assert "Stop it first" in words(client, f"{PAGE}/{SINK}/relaunch")
    Operation.objects.update(state="lost", finished_at=timezone.now())
    assert "hoodie.kafka.topic" in words(client, f"{PAGE}/{SINK}/relaunch")

    client.post(f"{PAGE}/{SINK}/relaunch", {"reason": "back"})

    assert Operation.objects.filter(state="queued").count() == 1


def test_viewers_neither_start_nor_stop_nor_relaunch(
    client: Client, viewer: User, stuck: Table
) -> None:
    client.force_login(viewer)

    assert client.post(f"{PAGE}/start", form()).status_code == 403
    assert "requires the" in words(client, f"{PAGE}/start")
    for what in ("stop", "relaunch"):
        assert client.get(f"{PAGE}/{SINK}/{what}").status_code == 403
        assert client.post(f"{PAGE}/{SINK}/{what}", {}).status_code == 403
    assert "disabled" in words(client)


def test_refusal_of_a_stop_is_told_on_the_page(
    client: Client, operator: User, orders: Table
) -> None:
    sync_state(orders, stopped_state())
    client.force_login(operator)

    answer = client.post(f"{PAGE}/{SINK}/stop", {"kind": "graceful"}, follow=True)

    assert "is not running" in answer.content.decode()
    assert "Sink is not running" in words(client, f"{PAGE}/{SINK}/stop")


def test_page_asks_the_database_a_bounded_number_of_times(
    client: Client,
    operator: User,
    stuck: Table,
    django_assert_max_num_queries: DjangoAssertNumQueries,
) -> None:
    for number in range(6):
        sync_state(stuck, stuck_state(sink_id=f"s{number}", partitions=60))
        do_start_sink(stuck, OPTIONS | {"hoodie.sink.id": f"s{number}"}, by=operator)
    client.force_login(operator)

    with django_assert_max_num_queries(QUERIES_MAX):
        client.get(f"{PAGE}?sink=s3")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_word_of_a_sink_becomes_markup(
    client: Client, operator: User, orders: Table, payload: str
) -> None:
    state = stuck_state(partitions=2, missing=1)
    shown = tuple(
        replace(one, participant=payload, worker=payload, state=payload[:30])
        for one in state.participants
    )
    state = replace(
        state,
        topic=payload,
        owner=payload,
        reason=payload,
        participants=shown,
        transactions=tuple(
            replace(one, outcome=payload[:30], reason=payload) for one in state.transactions
        ),
        trace=tuple(replace(one, sender=payload, detail=payload) for one in state.trace),
        counters={payload: 1},
    )
    sync_state(orders, state)
    extra = {"hoodie.sink.dlq.count": "1", "sluice.dead_letter.files": payload.replace(",", "")}
    instant = commit_offsets(orders.location, "0=1", extra=extra)
    sync_table(orders)
    client.force_login(operator)

    for path in (PAGE, f"{PAGE}?dead_letters={instant}", f"{PAGE}/{SINK}/stop"):
        elements = Elements()
        elements.feed(words(client, path))
        assert elements.strange == [], path
        assert all(one.startswith("/static/") or "json" in one for one in elements.scripts)
