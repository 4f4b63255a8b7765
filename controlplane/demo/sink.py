"""The demo's sink: a broker of Apache Kafka on this machine, orders that are produced to it, and a
sink that was launched as anybody would launch it.

Broker and producer are processes that the supervisor keeps; without the supervisor, or without
Kafka's jars, there is no such demo, and the rest of the node does without.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User

from controlplane.demo.processes import KAFKA, ORDERS, broker_home
from controlplane.demo.upkeep import CANCEL_WAIT_S, POLL_S, delete_files, keep_small
from controlplane.node.identity import read_identity
from controlplane.node.living import supervisor_pid
from controlplane.node.places import Places
from controlplane.node.supervision import Supervisor, SupervisorFailed, log_file
from controlplane.operations.actions import do_start_sink, do_stop_sink
from controlplane.operations.run_dirs import run_dir
from controlplane.operations.sink_stops import newest_operation, open_operation
from controlplane.operations.states import OperationState
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table as TableRow
from workers.clock import Clock
from workers.demo.feed import PARTITIONS, TOPIC
from workers.demo.orders import KEY, ORDERING, PARTITION_BY, SCHEMA
from workers.demo.ports import chosen_ports, read_ports
from workers.errors import KafkaFailed, TableNotFound
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.sink.config import sink_config
from workers.sink.kafka.broker import await_broker, find_cached_jars, load_class_path
from workers.sink.kafka.client_config import connection_settings
from workers.sink.kafka.topics import Topics
from workers.spark.process import is_driver, read_pid
from workers.storage.source_places import LETTERS_SUFFIX

NAME = "shop_orders"
SLUG = "shop-orders"
SINK_ID = TOPIC
BUCKETS = 2
INTERVAL_S = 15
RELAUNCHES_MAX = 3
_RESOLVE_S = 300.0
_ANSWER_S = 120.0
_SETTLE_S = 40.0

Say = Callable[[str], object]


class NoKafka(Exception):
    """There is no broker for the demo; the text says why."""


def start_orders(by: User, clock: Clock, say: Say) -> str:
    """Start what does not run of broker, sink and producer, and return the broker's address. Safe
    to run again.

    Raises NoKafka, ControlPlaneError, LakehouseError.
    """
    places = _places()
    supervisor = _supervisor(places)
    bootstrap = _broker(places, supervisor, clock, say)
    table = opened_table()
    row = TableRow.objects.filter(location=table.location).first() or do_register_table(
        location=table.location, slug=SLUG, name=NAME, by=by
    )
    keep_small(row, by)
    if not _goes_on(row, clock):
        do_start_sink(row, _options(bootstrap), by=by, reason="demo", relaunches_max=RELAUNCHES_MAX)
    _start(places, supervisor, ORDERS)
    return bootstrap


def orders_status(say: Say) -> None:
    """How the sink is that brings them."""
    row = TableRow.objects.filter(slug=SLUG).first()
    if row is None:
        say("  orders      never started: there was no Kafka for them")
        return
    newest = newest_operation(row, SINK_ID)
    state = newest.state if newest else "never started"
    said = f": {newest.message}" if newest and newest.message else ""
    say(f"  orders      sink {state}{said}")


def delete_orders(clock: Clock) -> None:
    """Delete sink, broker, topic and table. Raises ControlPlaneError, NoKafka if the sink does not
    end, StorageFailed.
    """
    places, location = _places(), table_location()
    row = TableRow.objects.filter(location=location).first()
    if row is not None:
        _stop_sink(row, clock)
        row.delete()
    if supervisor_pid(places) is not None:
        supervisor = _supervisor(places)
        supervisor.stop_process(ORDERS)
        supervisor.stop_process(KAFKA)
    for doomed in (location, f"{location}{LETTERS_SUFFIX}", f"{broker_home(places)}/data"):
        delete_files(doomed)


def opened_table() -> LakehouseTable:
    try:
        return open_table(table_location())
    except TableNotFound:
        return create_table(
            table_location(),
            name=NAME,
            schema=SCHEMA,
            record_key=[KEY],
            partition_by=[PARTITION_BY],
            ordering=[ORDERING],
            table_type="MERGE_ON_READ",
            options={"hoodie.bucket.index.num.buckets": str(BUCKETS)},
        )


def table_location() -> str:
    return f"{settings.SLUICE_TABLE_ROOTS[0]}/{NAME}"


def _places() -> Places:
    """Of the node whose database this process has, whatever its environment says."""
    return Places(settings.SLUICE_HOME)


def _supervisor(places: Places) -> Supervisor:
    identity = read_identity(places.identity)
    if identity is None or supervisor_pid(places) is None:
        raise NoKafka("the node does not run on this machine, so no process can run a broker")
    return Supervisor(identity)


def _broker(places: Places, supervisor: Supervisor, clock: Clock, say: Say) -> str:
    """Where it listens, once it answers and has the topic."""
    try:
        home = broker_home(places)
        if not find_cached_jars(home):
            say("fetching Apache Kafka, once, which may take minutes")
        load_class_path(home, within_s=_RESOLVE_S)
        runs = supervisor.states()[KAFKA].is_running
        ports = (read_ports(home) if runs else None) or chosen_ports(home)
        _start(places, supervisor, KAFKA)
        bootstrap = f"127.0.0.1:{ports[0]}"
        if not await_broker(bootstrap, _ANSWER_S, clock):
            raise NoKafka(f"Kafka does not answer; see {log_file(places, KAFKA)}")
        config = sink_config(_options(bootstrap))
        Topics(connection_settings(config, {})).create_if_missing(TOPIC, PARTITIONS)
    except KafkaFailed as error:
        raise NoKafka(str(error)) from error
    return bootstrap


def _start(places: Places, supervisor: Supervisor, name: str) -> None:
    try:
        supervisor.start_process(name)
    except SupervisorFailed as error:
        raise NoKafka(f"{error}; see {log_file(places, name)}") from error


def _options(bootstrap: str) -> dict[str, str]:
    return {
        "hoodie.kafka.topic": TOPIC,
        "hoodie.sink.id": SINK_ID,
        "bootstrap.servers": bootstrap,
        "hoodie.kafka.control.topic": f"{TOPIC}-control",
        "hoodie.kafka.commit.interval.secs": str(INTERVAL_S),
        "hoodie.kafka.start.offsets": "earliest",
        # The table's schedule compacts it.
        "hoodie.kafka.compaction.async.enable": "false",
        "hoodie.sink.mode": "upsert",
    }


def _goes_on(row: TableRow, clock: Clock) -> bool:
    """Whether a sink runs, or comes up without our asking. One whose process has just ended is
    waited for until the node knows how.
    """
    deadline_s = clock.monotonic_s() + _SETTLE_S
    while (operation := open_operation(row, SINK_ID)) is not None:
        folder = Path(run_dir(operation.pk))
        pid = read_pid(folder)
        is_stopping = operation.state in (
            OperationState.STOPPING.value,
            OperationState.CANCELLING.value,
        )
        if (pid is None or is_driver(pid, folder)) and not is_stopping:
            return True
        if clock.monotonic_s() > deadline_s:
            return True
        clock.sleep(POLL_S)
    return False


def _stop_sink(row: TableRow, clock: Clock) -> None:
    if open_operation(row, SINK_ID) is None:
        return
    do_stop_sink(row, SINK_ID, by="demo", is_hard=True, reason="the demo is reset")
    deadline_s = clock.monotonic_s() + CANCEL_WAIT_S
    while open_operation(row, SINK_ID) is not None:
        if clock.monotonic_s() > deadline_s:
            raise NoKafka("the demo's sink did not stop; check that the node runs")
        clock.sleep(POLL_S)
